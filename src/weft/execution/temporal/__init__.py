"""Execution of temporal views: compute the changes of views from the logs of their inputs, and record these changes."""
