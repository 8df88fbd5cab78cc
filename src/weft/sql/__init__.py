"""Translate SQL text into algebra, and algebra into SQL text.

No other package imports sqlglot.
"""
