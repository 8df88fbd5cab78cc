"""Temporal views at work: their change computed over the logs of what they read, and recorded as one."""
