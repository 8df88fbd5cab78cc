"""Translate SQL text into algebra, with the reasons for which text is refused.

No other package imports sqlglot.
"""
