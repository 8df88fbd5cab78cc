"""Places in the text, as the parser's tree keeps them."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

WRITTEN: Final = "weft_written"
"""Marks, among a node's notes, the parentheses that stand in the text."""


def place(node: exp.Expr, text: str = "") -> str | None:
    """Line and column of a node, as far as the parser knows them: its own, or those of the first name in it."""
    for part in node.walk():
        line, column = part.meta.get("line"), part.meta.get("col")
        if isinstance(line, int) and isinstance(column, int):
            start, end = part.meta.get("start"), part.meta.get("end")
            width = (end - start) if isinstance(start, int) and isinstance(end, int) else 0
            return f"line {line}, column {max(1, column - width)}"
    return None
