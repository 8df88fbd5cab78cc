"""Translate SQL text into algebra (parse, bind, lower) and algebra into SQL text (render).

This is the only package that imports sqlglot.
"""
