"""Construct synopses: the smallest states from which the answers of a formula can be computed (Toman 2007)."""
