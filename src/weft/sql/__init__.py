"""Translate SQL text into algebra (parse, bind, lower) and algebra into SQL text (render).

No other package imports sqlglot.
"""
