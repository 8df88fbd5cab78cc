"""Derive the replay, the monotone query Q^M, the incremental query Q^I and the access paths of a query."""
