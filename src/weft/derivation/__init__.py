"""Rewrite algebra: derive the replay, the monotone query Q^M, the incremental query Q^I, and a branch's access
paths.
"""
