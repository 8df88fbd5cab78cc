"""Answers posted to an address of the web."""
