"""Synopses: the smallest state from which a formula can be answered (Toman 2007)."""
