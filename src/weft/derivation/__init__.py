"""Derive queries from a query: the replay, the monotone query Q^M, the incremental query Q^I, and access paths."""
