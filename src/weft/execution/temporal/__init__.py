"""Execution of temporal views: compute their changes from the logs of the tables they read, and record them."""
