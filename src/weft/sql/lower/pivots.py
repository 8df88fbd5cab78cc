"""Rewrite PIVOT as a query with GROUP BY, and UNPIVOT as a UNION ALL.

    FROM t PIVOT (SUM(x) AS s, COUNT(*) AS n FOR k IN ('a', 'b' AS c))

    FROM (SELECT other, SUM(x) FILTER (WHERE k <=> 'a') AS a_s, NULLIF(…) AS a_n, … FROM t GROUP BY other)

    FROM t UNPIVOT (v FOR k IN (a, b AS 'c'))

    FROM (SELECT other, 'a' AS k, a AS v FROM t WHERE a IS NOT NULL UNION ALL
          SELECT other, 'c' AS k, b AS v FROM t WHERE b IS NOT NULL)

``other`` are the columns that the clause does not name.  As in Spark, COUNT is NULL for a value that no row of
the group has, if every aggregate of the clause is a number or a BOOLEAN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra.schema import BOOLEAN, DataType
from weft.errors import SqlError, of_each
from weft.sql.lower.aggregate import has_aggregate, is_aggregate
from weft.sql.lower.refusal import only, place, refuse

_MADE_BY_PARSER: Final = (
    "columns",
    "unpivot",
    "default_on_null",
    "identify_pivot_strings",
    "prefixed_pivot_columns",
    "pivot_column_naming",
    "value_columns_first",
    "include_nulls",
)


UNPIVOT: Final = "unpivot"
"""The mark of the unions that UNPIVOT means."""
Kinds: TypeAlias = Callable[[exp.Query], Sequence[DataType]]
"""A function that returns the types of the columns of a query."""


def pivoted(source: exp.Expr, pivot: exp.Pivot, columns: Sequence[str], kinds: Kinds) -> exp.Query:
    """Return the query that PIVOT or UNPIVOT of ``source`` means.  ``columns`` are the columns of ``source``.

    Raise SqlError for a form that Spark does not have, or that has no meaning at every instant.
    """
    word = "UNPIVOT" if pivot.args.get("unpivot") else "PIVOT"
    only(pivot, "expressions", "fields", "alias", *_MADE_BY_PARSER)
    if len(pivot.args.get("fields") or ()) != 1 or not isinstance(pivot.args["fields"][0], exp.In):
        raise SqlError(f"{word} takes one FOR … IN (…)", where=place(pivot))
    over = pivot.args["fields"][0]
    if word == "UNPIVOT":
        return _unpivoted(source, pivot, over, columns)
    return _pivoted(source, pivot, over, columns, kinds)


def _pivoted(source: exp.Expr, pivot: exp.Pivot, over: exp.In, columns: Sequence[str], kinds: Kinds) -> exp.Select:
    if not over.expressions:
        raise SqlError("PIVOT … IN () has no value", where=place(pivot), hint="List the values: IN ('a', 'b').")
    keys = over.this.expressions if isinstance(over.this, exp.Tuple) else [over.this]
    if any(not isinstance(each, exp.Column) for each in keys):
        raise SqlError("PIVOT … FOR takes columns", where=place(pivot))
    used = {each.name.lower() for part in (*keys, *pivot.expressions) for each in part.find_all(exp.Column)}
    groups = [exp.column(name, quoted=True) for name in columns if name.lower() not in used]
    of_each(_aggregated, pivot.expressions)
    several = len(pivot.expressions) > 1
    numbered = [exp.alias_(each.unalias().copy(), f"c{n}") for n, each in enumerate(pivot.expressions)]
    sparse = all(kind.numeric or kind == BOOLEAN for kind in kinds(exp.select(*numbered).from_(source.copy())))
    items = [
        exp.alias_(
            _where(each.unalias(), keys, values, sparse=sparse),
            f"{name}_{each.alias}" if several else name,
            quoted=True,
        )
        for values, name in of_each(lambda value: _value(value, len(keys)), over.expressions)
        for each in pivot.expressions
    ]
    if several and not all(each.alias for each in pivot.expressions):
        raise SqlError(
            "PIVOT with several aggregates needs their names",
            where=place(pivot),
            hint="Write PIVOT (SUM(x) AS s, COUNT(*) AS n FOR …).",
        )
    query = exp.select(*(each.copy() for each in groups), *items).from_(source)
    return query.group_by(*groups) if groups else query


def _aggregated(node: exp.Expr) -> None:
    if not has_aggregate(node):
        raise refuse(node.sql("spark"), node, "PIVOT takes aggregates", "Write PIVOT (SUM(x) FOR …).")


def _value(node: exp.Expr, width: int) -> tuple[list[exp.Expr], str]:
    """Return the values of an item of IN, one for each column of FOR, and the name of its columns."""
    value = node.this if isinstance(node, exp.PivotAlias) else node
    values = value.expressions if isinstance(value, exp.Tuple) else [value]
    if any(each.find(exp.Query, exp.Column) for each in values):
        raise SqlError("the values of PIVOT are constants", where=place(node), hint="List them: IN ('a', 'b').")
    if len(values) != width:
        raise SqlError(f"a value of PIVOT has {len(values)} parts, not {width}", where=place(node))
    if isinstance(node, exp.PivotAlias):
        return values, node.args["alias"].name
    if isinstance(value, exp.Literal):
        return values, value.name
    if isinstance(value, exp.Tuple):
        raise SqlError("several values of PIVOT need a name", where=place(node), hint="Write (1, 'a') AS one_a.")
    return values, "null" if isinstance(value, exp.Null) else value.sql("spark")


def _where(node: exp.Expr, keys: Sequence[exp.Expr], values: Sequence[exp.Expr], *, sparse: bool) -> exp.Expr:
    """Restrict the aggregates of an expression to the rows with these values.

    If ``sparse`` is true, a count is NULL if there is no such row.
    """
    alike = [exp.NullSafeEQ(this=key.copy(), expression=value.copy()) for key, value in zip(keys, values, strict=True)]
    condition = exp.and_(*alike, wrap=False)
    holder = exp.Paren(this=node.copy())
    for part in list(holder.find_all(exp.Anonymous, exp.Filter, exp.Any)):
        within_filter = isinstance(part.parent, exp.Filter) and part.arg_key == "this"
        if is_aggregate(part) and not within_filter:
            part.replace(_restricted(part, condition, sparse=sparse))
    found: exp.Expr = holder.this
    return found


def _restricted(call: exp.Expr, condition: exp.Expr, *, sparse: bool) -> exp.Expr:
    own = condition.copy()
    name = call.this.name if isinstance(call, exp.Filter) else call.name
    if isinstance(call, exp.Filter):
        own = exp.And(this=exp.paren(call.expression.this.copy()), expression=own)
        call = call.this
    restricted = exp.Filter(this=call.copy(), expression=exp.Where(this=own))
    if not sparse or not name.lower().startswith("count"):
        return restricted
    some = exp.Filter(
        this=exp.Anonymous(this="BOOL_OR", expressions=[exp.true()]), expression=exp.Where(this=condition.copy())
    )
    return exp.Case(ifs=[exp.If(this=some, true=restricted)])


def _unpivoted(source: exp.Expr, pivot: exp.Pivot, over: exp.In, columns: Sequence[str]) -> exp.Query:
    if len(pivot.expressions) != 1 or not isinstance(pivot.expressions[0], exp.Identifier):
        hint = "Write UNPIVOT (value FOR name IN (a, b))."
        raise refuse("UNPIVOT of several columns at once", pivot, "Weft does not support it", hint)
    chosen = of_each(_chosen, over.expressions)
    taken = {column.name.lower() for column, _ in chosen}
    others = [exp.column(name, quoted=True) for name in columns if name.lower() not in taken]
    parts: list[exp.Query] = []
    for column, name in chosen:
        value, named = pivot.expressions[0].name, over.this.name
        items = [exp.alias_(exp.Literal.string(name), named, quoted=True), exp.alias_(column, value, quoted=True)]
        part = exp.select(*(each.copy() for each in others), *items).from_(source.copy())
        if not pivot.args.get("include_nulls"):
            part = part.where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.null())))
        parts.append(part)
    union = reduce(lambda left, right: exp.Union(this=left, expression=right, distinct=False), parts)
    for each in union.find_all(exp.Union):
        each.meta[UNPIVOT] = True
    return union


def _chosen(node: exp.Expr) -> tuple[exp.Column, str]:
    """Return a column of UNPIVOT and the text that names it."""
    column = node.this if isinstance(node, exp.PivotAlias) else node
    if not isinstance(column, exp.Column):
        raise refuse(f"{node.sql('spark')} in UNPIVOT", node, "it takes columns", "Write IN (a, b AS 'name').")
    return column.copy(), node.args["alias"].name if isinstance(node, exp.PivotAlias) else column.name
