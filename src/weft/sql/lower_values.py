"""Lower VALUES: constant rows as a relation."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weft.algebra.relation import Values
from weft.algebra.scalar import Cast, Scalar, mentions_now
from weft.algebra.schema import NULL, Column
from weft.errors import SqlError, of_each
from weft.sql.functions import common
from weft.sql.lower_from import named
from weft.sql.lower_nested import as_column
from weft.sql.lower_scalar import lower_scalar
from weft.sql.refusal import only, place, refuse
from weft.sql.scope import Scope


def lower_values(node: exp.Values, scope: Scope, alias: str, columns: Sequence[str]) -> Values:
    """Return VALUES as a relation; raise SqlError if its rows differ in their number of columns or in types."""
    only(node, "expressions", "alias")
    rows = of_each(lambda row: _row(row, scope), node.expressions)
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SqlError("the rows of VALUES differ in their number of columns", where=place(node))
    names = named(columns or [f"col{number}" for number in range(1, width + 1)], width, node)
    kinds = []
    for number, name in enumerate(names):
        try:
            kind = common([row[number].type for row in rows])
        except TypeError as error:
            raise SqlError(f"VALUES: {error} have no common type", where=place(node)) from None
        if kind == NULL:
            raise refuse(f"a column of NULLs ({name})", node, "it has no type", "Write CAST(NULL AS …).")
        kinds.append(kind)
    typed = tuple(
        tuple(value if value.type == kind else Cast(value, kind) for value, kind in zip(row, kinds, strict=True))
        for row in rows
    )
    heads = tuple(Column(n, name, kind) for n, (name, kind) in enumerate(zip(names, kinds, strict=True), 1))
    return Values(scope.fresh(alias), heads, typed)


def bare_values(select: exp.Select) -> exp.Values | None:
    """Return the VALUES of a UNION arm or of WITH, which the parser returns as SELECT * FROM it, or None.

    A * that the parser inserted has no position in the text.
    """
    source = select.args.get("from_")
    made_up = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    if source is None or not isinstance(source.this, exp.Values) or not made_up:
        return None
    if select.expressions[0].meta.get("start"):
        return None
    only(select, "expressions", "from_")
    return source.this


def _row(node: exp.Expr, scope: Scope) -> tuple[Scalar, ...]:
    items = node.expressions if isinstance(node, exp.Tuple) else [node]
    if not items:
        raise refuse("an empty row of VALUES", node, "it has no column")
    values = of_each(lambda item: lower_scalar(item, scope.inner(lateral=False)), items)
    if any(mentions_now(value) for value in values):
        raise refuse("NOW() in VALUES", node, "the row would change every microsecond")
    return tuple(as_column(value) for value in values)
