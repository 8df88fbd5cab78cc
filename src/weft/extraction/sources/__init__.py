"""Monitor sources that keep no history: read the current rows of a source, and record the differences from the rows at
the last poll.
"""
