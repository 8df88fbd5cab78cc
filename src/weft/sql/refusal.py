"""Refusals: one way to say which construct, where, why, and what to write instead."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from weft.errors import Reasons, SqlError
from weft.sql.advice import advice
from weft.sql.instead import instead_of

_LATER: Final = {
    "order": ("ORDER BY", "it stands at the end of a whole standing query; a subquery and a view are sets"),
    "limit": ("LIMIT", "which rows are the first changes as data arrives"),
    "offset": ("OFFSET", "which rows are skipped changes as data arrives"),
    "qualify": ("QUALIFY", "window functions come in a later release"),
    "windows": ("WINDOW", "window functions come in a later release"),
    "with_": ("WITH", "it stands before a query or a subquery, nowhere else"),
    "recursive": ("WITH RECURSIVE", "a query that calls itself may never end"),
    "by_name": ("BY NAME", "write the columns in the same order on both sides"),
    "laterals": ("LATERAL VIEW", "table functions make rows out of values; they are not part of a standing query"),
    "field": ("IN without parentheses", "it takes a list or a subquery"),
    "hint": ("a hint", "Weft plans the query itself; leave it out"),
    "sample": ("TABLESAMPLE", "a sample is another one at every instant"),
    "into": ("INTO", "a standing query changes nothing"),
    "operation_modifiers": ("a SELECT modifier", "leave it out"),
    "kind": ("SELECT AS STRUCT or VALUE", "name the columns one by one"),
    "pivots": ("PIVOT", "aggregates of standing queries come in a later release"),
    "sort": ("SORT BY", "answers come in the order of their first instant, and a view is a set; leave it out"),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "locks": ("FOR UPDATE", "a standing query locks nothing"),
    "version": ("time travel", "Weft itself asks the query at every instant"),
    "when": ("time travel", "Weft itself asks the query at every instant"),
    "symmetric": ("BETWEEN SYMMETRIC", "Spark does not have it"),
    "join_mark": ("(+)", "outer joins are not taken"),
    "on": ("DISTINCT ON", "which row of a group is the first changes as data arrives"),
    "except_": ("EXCEPT in a list", "a list names its columns"),
    "hints": ("a hint of a table", "Weft plans the query itself"),
    "match": ("MATCH_RECOGNIZE", "it is outside the language of standing queries"),
}


def place(node: exp.Expr) -> str | None:
    """Line and column of a node, as far as the parser knows them: its own, or those of the first name in it.

    Within an expression without a name, as INTERVAL 1 MONTH is, those of what it is a part of.
    """
    found, around = _first_place(node), node.parent
    while found is None and isinstance(around, exp.Condition) and not isinstance(around, exp.Query):
        found, around = _first_place(around), around.parent
    return found


def _first_place(node: exp.Expr) -> str | None:
    for part in node.walk():
        line, column = part.meta.get("line"), part.meta.get("col")
        if isinstance(line, int) and isinstance(column, int):
            start, end = part.meta.get("start"), part.meta.get("end")
            width = (end - start) if isinstance(start, int) and isinstance(end, int) else 0
            return f"line {line}, column {max(1, column - width)}"
    return None


_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Window: "a window function",
    exp.Filter: "FILTER (WHERE …)",
    exp.RegexpILike: "~*",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.SimilarTo: "SIMILAR TO",
    exp.Array: "[…]",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
    exp.QueryTransform: "TRANSFORM … USING",
}
"""What a node is called by those who write it."""


def spaced(node: exp.Expr) -> str:
    """What a node is called: ``WITHIN GROUP``."""
    known = _NAMES.get(type(node))
    return known or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def refuse(construct: str, node: exp.Expr, reason: str, hint: str | None = None) -> SqlError:
    """The error to raise for a construct that is not taken."""
    hint = hint or instead_of(node) or advice(construct)
    return SqlError(f"{construct} cannot stand in a query: {reason}", where=place(node), hint=hint)


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuses every part of ``node`` that is not among ``allowed``: what is not known to be safe is not taken."""
    reasons = Reasons()
    for key, value in node.args.items():
        if key in allowed or not value:
            continue
        construct, reason = _LATER.get(
            key, (key.strip("_").replace("_", " ").upper(), "it is not part of the language")
        )
        part = value[0] if isinstance(value, list) else value
        reasons.add(refuse(construct, part if isinstance(part, exp.Expr) else node, reason))
    reasons.check()
