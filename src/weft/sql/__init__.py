"""Translate SQL text into algebra, and algebra into SQL text."""
