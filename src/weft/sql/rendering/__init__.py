"""Translate algebra into SQL text."""
