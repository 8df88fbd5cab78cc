"""Create errors for refused constructs.  An error names the construct, the place, the reason and a replacement."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from weft.errors import Reasons, SqlError
from weft.sql.lower.advice import advice

_LATER: Final = {
    "order": ("ORDER BY", "it belongs at the end of a standing query; subqueries and views are unordered sets"),
    "limit": ("LIMIT", "views do not support it; use it in a standing query over the view"),
    "offset": ("OFFSET", "views do not support it; use it in a standing query over the view"),
    "qualify": ("QUALIFY", "views do not support window functions; use them in a standing query over the view"),
    "windows": ("WINDOW", "views do not support window functions; use them in a standing query over the view"),
    "with_": ("WITH", "it is allowed only before a query or a subquery"),
    "by_name": ("BY NAME", "columns are matched by position; write them in the same order on both sides"),
    "laterals": ("LATERAL VIEW", "views do not support it"),
    "field": ("IN without parentheses", "IN takes a list or a subquery in parentheses"),
    "hint": ("a hint", "Weft plans the query itself; remove the hint"),
    "sample": ("TABLESAMPLE", "a sample differs at every instant"),
    "into": ("INTO", "a standing query changes nothing"),
    "operation_modifiers": ("a SELECT modifier", "remove it"),
    "kind": ("SELECT AS STRUCT or VALUE", "select the columns one by one"),
    "pivots": ("PIVOT", "it belongs after a table or a query of FROM"),
    "sort": ("SORT BY", "answers are ordered by their first instant, and a view is unordered; remove SORT BY"),
    "cluster": ("CLUSTER BY", "remove it"),
    "distribute": ("DISTRIBUTE BY", "remove it"),
    "locks": ("FOR UPDATE", "a standing query locks nothing"),
    "version": ("time travel", "Weft evaluates the query at every instant"),
    "when": ("time travel", "Weft evaluates the query at every instant"),
    "symmetric": ("BETWEEN SYMMETRIC", "Spark does not have it"),
    "join_mark": ("(+)", "Spark does not have it; write LEFT JOIN"),
    "on": ("DISTINCT ON", "which row of a group comes first changes as data arrives"),
    "except_": ("EXCEPT in a list", "a select list must name its columns"),
    "hints": ("a hint of a table", "Weft plans the query itself"),
    "match": ("MATCH_RECOGNIZE", "standing queries do not support it"),
}


def place(node: exp.Expr) -> str | None:
    """Return the line and column of a node, or of the first name in the node.

    For an expression without a name, such as INTERVAL 1 MONTH, return the place of the surrounding expression.
    """
    position, parent = _first_place(node), node.parent
    while position is None and isinstance(parent, exp.Condition) and not isinstance(parent, exp.Query):
        position, parent = _first_place(parent), parent.parent
    return position


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


def spaced(node: exp.Expr) -> str:
    """Return the name by which messages refer to a node, for example ``WITHIN GROUP``."""
    known = _NAMES.get(type(node))
    return known or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def refuse(construct: str, node: exp.Expr, reason: str, hint: str | None = None) -> SqlError:
    """Return the error for a construct outside the language."""
    hint = hint or advice(construct)
    return SqlError(f"{construct} is not allowed: {reason}", where=place(node), hint=hint)


def only(node: exp.Expr, *allowed: str) -> None:
    """Raise SqlError if ``node`` has a part that is not in ``allowed``."""
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
