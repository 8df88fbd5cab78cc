"""Construct synopses (Toman 2007).  A synopsis is the smallest state from which a formula's answers can be computed."""
