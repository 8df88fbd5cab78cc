"""Measurements: a tick beside the full queries, in one session (paper section 6.2)."""
