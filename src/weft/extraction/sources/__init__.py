"""Monitor sources that keep no history: read the current rows of a source, and record how they differ from the last
poll.
"""
