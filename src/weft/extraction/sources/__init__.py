"""Monitor sources that keep no history. A poll reads the current rows, and records the differences from the last
poll.
"""
