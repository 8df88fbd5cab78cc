"""Translate DejaVu's properties to formulas, and read DejaVu's logs."""
