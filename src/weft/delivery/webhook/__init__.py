"""Deliver answers by HTTP POST."""
