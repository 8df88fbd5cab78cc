"""Synopses: from a formula to the least state that its answers need (Toman 2007)."""
