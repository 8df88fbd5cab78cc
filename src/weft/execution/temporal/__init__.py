"""Compute the changes of temporal views from the logs of their inputs, and record these changes."""
