"""Translate the final ORDER BY of a standing query, which sorts the output of `weft try` and `weft results`.

ORDER BY does not affect delivery.  Weft delivers and numbers answers in the order of their start times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.algebra.sort_key import Key
from weft.errors import SqlError, of_each
from weft.printable import counted
from weft.sql.lower.parse import parse
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.rewriting import installed
from weft.sql.lower.scope import Scope

_ORDER: Final = re.compile(r"\border\s+by\b", re.IGNORECASE)


def order_of(text: str, names: Sequence[str]) -> tuple[Key, ...]:
    """Return the sort keys of the standing query ``text``, whose answers have the columns ``names``.

    The result is empty for a text without ORDER BY and for a formula.
    """
    if not _ORDER.search(text):
        return ()
    try:
        node = parse(text)
        order = node.args.get("order")
        return () if order is None else lower_order(order, node, names)
    except SqlError:
        return ()


def at_the_end(node: exp.Expr, scope: Scope) -> tuple[str, ...]:
    """Return the names of the clauses that are allowed at the end of the query ``node``.

    A subquery has ORDER BY only beside LIMIT or OFFSET.
    """
    if scope.context.view:
        return ()
    clauses = ("limit", "offset") if not isinstance(node, exp.Select) else ("limit", "offset", "qualify", "windows")
    ordered = scope.parent is None or node.args.get("limit") is not None or node.args.get("offset") is not None
    return ("order", *clauses) if ordered else clauses


def lower_order(order: exp.Order, node: exp.Expr, names: Sequence[str]) -> tuple[Key, ...]:
    """Return the sort keys of a query.  Raise SqlError for a sort key that is not a column of the answer."""
    only(order, "expressions")
    return tuple(of_each(lambda each: _key(each, node, names), order.expressions))


def _key(ordered: exp.Expr, node: exp.Expr, names: Sequence[str]) -> Key:
    only(ordered, "this", "desc", "nulls_first")
    value = ordered.this.unnest()
    column = column_of(value, node, names)
    if column is None:
        shown = value.sql("spark")
        reason = "ORDER BY takes columns of the answer, by name or number"
        raise refuse(f"ORDER BY {shown}", value, reason, _added(value, node, names))
    return Key(column, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def column_of(value: exp.Expr, node: exp.Expr, names: Sequence[str]) -> int | None:
    """Return the place of a column of the answer that ORDER BY names, by name or number, or None."""
    folded = [name.lower() for name in names]
    if is_place(value):
        if not 1 <= int(value.name) <= len(names):
            message = f"ORDER BY {value.name}: the answer has {counted(len(names), 'column')}"
            raise SqlError(message, where=place(value), hint="Write the column's name.")
        return int(value.name) - 1
    items = list(node.expressions) if isinstance(node, exp.Select) else []
    name = value.name.lower() if isinstance(value, exp.Column) else None
    if name is not None and not value.args.get("table"):
        return folded.index(name) if name in folded else None
    for item in items:
        if _same(item.unalias(), value, node) and item.alias_or_name.lower() in folded:
            return folded.index(item.alias_or_name.lower())
    starred = any(item.is_star for item in items)
    return folded.index(name) if starred and name in folded else None


def is_place(value: exp.Expr) -> bool:
    """Return whether an item of ORDER BY is the number of a column."""
    return isinstance(value, exp.Literal) and not value.is_string and bool(re.fullmatch(r"\d{1,9}", value.name))


def _same(item: exp.Expr, value: exp.Expr, node: exp.Expr) -> bool:
    if isinstance(item, exp.Column) and isinstance(value, exp.Column) and not item.table:
        sources = [node.args.get("from_"), *(node.args.get("joins") or ())]
        aliases = {each.this.alias_or_name.lower() for each in sources if each is not None}
        return item.name.lower() == value.name.lower() and value.table.lower() in aliases
    return item == value


def _added(value: exp.Expr, node: exp.Expr, names: Sequence[str]) -> str:
    """Return a hint that contains the query with the sort key in its select list."""
    plain = isinstance(node, exp.Select) and isinstance(value, exp.Column) and not node.args.get("group")
    if not plain or value.name.lower() in {name.lower() for name in names}:
        return "Name the expression in the select list with AS, and sort by that name."
    query = node.copy()
    assert isinstance(query, exp.Select)
    return (
        f"Add the expression to the select list: {installed(query.select(value.copy()).sql('spark', comments=False))}."
    )
