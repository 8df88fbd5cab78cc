"""Translate ORDER BY … LIMIT k OFFSET n, which selects rows by their numbers in an order.

The rows change as data arrives: an answer is delivered when it is among the k rows for the first time.  All columns
that the query uses break ties, so that the k rows are always the same ones.  An item of ORDER BY is a column of the
answer, by name or number, or an expression over FROM.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.relation import SortKey
from weft.algebra.schema import MONTHS
from weft.errors import SqlError, of_each
from weft.sql.lower.aggregate import is_aggregate
from weft.sql.lower.ordering import column_of, is_place
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import Scope
from weft.sql.lower.window import sort_key
from weft.sql.lower.windowed import limited


@dataclass(frozen=True)
class Limit:
    """LIMIT and OFFSET of a query, and the items of its ORDER BY.  ``count`` is None without LIMIT."""

    count: int | None
    skipped: int
    items: tuple[exp.Expr, ...]

    def hidden(self, query: exp.Expr) -> tuple[exp.Expr, ...]:
        """Return the items of ORDER BY that are no columns of the answer by name or number."""
        items = {each.alias.lower(): each.unalias() for each in query.expressions if isinstance(each, exp.Alias)}
        return tuple(_with_items(each, items) for each in self.items if not _is_named(each.this.unnest(), set(items)))


def limit_of(query: exp.Expr, scope: Scope) -> Limit | None:
    """Return the LIMIT of a query, or None if the query returns all rows.  Raise SqlError for a bound that changes."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if scope.context.view or (limit is None and offset is None):
        return None
    if isinstance(limit, exp.Fetch):
        raise refuse("FETCH", limit, "Spark does not have it", "Write ORDER BY … LIMIT 5.")
    count = None if limit is None or limit.expression.name.upper() == "ALL" else _number("LIMIT", limit.expression)
    skipped = 0 if offset is None else _number("OFFSET", offset.expression)
    order = query.args.get("order")
    if order is not None:
        only(order, "expressions")
    return Limit(count, skipped, tuple(() if order is None else order.expressions))


def _with_items(item: exp.Expr, items: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return the expression of an item of ORDER BY, with items of the select list in place of their names.

    As in Spark, a name outside of aggregates is first a name of the select list.
    """
    copy = item.copy()
    for part in list(copy.walk(prune=lambda each: isinstance(each, exp.Query) or is_aggregate(each))):
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in items:
            part.replace(exp.paren(items[part.name.lower()].copy()))
    inner: exp.Expr = copy.this
    return inner


def _number(clause: str, node: exp.Expr) -> int:
    digits = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if re.fullmatch(r"\d{1,10}", digits, re.ASCII) and int(digits) < 2**31:
        return int(digits)
    raise refuse(f"{clause} {node.sql('spark')}", node, "it must be a constant whole number", f"Write {clause} 10.")


def _is_named(value: exp.Expr, named: set[str]) -> bool:
    if is_place(value):
        return True
    return isinstance(value, exp.Column) and not value.table and value.name.lower() in named


def with_limit(
    limit: Limit,
    relation: relational.Relation,
    outputs: Sequence[relational.Output],
    names: Sequence[str],
    hidden: Sequence[relational.Output],
    query: exp.Expr,
    scope: Scope,
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    """Return the relation and the select list of a query with LIMIT.

    ``names`` are the names of ``outputs`` in the select list.  ``hidden`` are the scalars of ``limit.hidden``.
    """
    rest = iter(hidden)
    named = {each.alias.lower() for each in query.expressions if isinstance(each, exp.Alias)}

    def key(item: exp.Expr) -> SortKey:
        column = column_of(item.this.unnest(), query, names) if _is_named(item.this.unnest(), named) else None
        value = next(rest).value if column is None else outputs[column].value
        if value.type == MONTHS or value.type.nested:
            raise SqlError(f"ORDER BY cannot compare values of type {value.type}", where=place(item))
        return sort_key(item, value)

    order = of_each(key, limit.items)
    if query.args.get("distinct"):
        return _of_distinct(limit, relation, outputs, order, query, scope)
    return limited(relation, outputs, order, (limit.count, limit.skipped), scope)


def _of_distinct(
    limit: Limit,
    relation: relational.Relation,
    outputs: Sequence[relational.Output],
    order: Sequence[SortKey],
    query: exp.Expr,
    scope: Scope,
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    distinct = relational.Distinct(relational.Project(relation, scope.fresh("answer"), tuple(outputs)))
    refs = relational.attributes(distinct)
    shown = {output.value: ref for output, ref in zip(outputs, refs, strict=True)}
    if any(key.value not in shown for key in order):
        reason = "a row of DISTINCT may come from several rows, which differ in the order"
        raise refuse("this ORDER BY beside DISTINCT", query, reason, "Order by columns of the select list.")
    keys = [SortKey(shown[key.value], key.descending, key.nulls_first) for key in order]
    passed = tuple(relational.Output(ref.column, ref) for ref in refs)
    return limited(distinct, passed, keys, (limit.count, limit.skipped), scope)


def rows_within(
    limit: Limit, relation: relational.Source, query: exp.Expr, scope: Scope
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    """Return the rows of a set operation or of a query in parentheses that ``limit`` leaves, and their columns."""
    outputs = tuple(relational.Output(ref.column, ref) for ref in relational.attributes(relation))
    names = [output.name for output in outputs]
    keys = []
    for item in limit.items:
        column = column_of(item.this.unnest(), query, names)
        if column is None:
            reason = "ORDER BY takes columns of the set operation, by name or number"
            raise refuse(f"ORDER BY {item.this.sql('spark')}", item, reason)
        keys.append(sort_key(item, outputs[column].value))
    return limited(relation, outputs, keys, (limit.count, limit.skipped), scope)
