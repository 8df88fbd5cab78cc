"""Translate properties of DejaVu to formulas, and read logs of DejaVu."""
