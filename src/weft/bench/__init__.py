"""Benchmarks, such as a tick compared with the full queries in one session (paper section 6.2)."""
