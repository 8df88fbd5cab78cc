"""Translate DejaVu's properties of event streams to formulas, and read DejaVu's logs."""
