"""Translate EXPLODE and POSEXPLODE of an ARRAY or a MAP, in FROM, in LATERAL VIEW and in a select list.

    SELECT p.id, t.tag FROM posts p, LATERAL EXPLODE(p.tags) AS t(tag)
    SELECT id, tag FROM posts LATERAL VIEW EXPLODE(tags) t AS tag
    SELECT id, EXPLODE(tags) AS tag FROM posts

Each becomes an ``Unnest`` beside the other sources of FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from weft.algebra.relation import Output, Unnest, attributes
from weft.algebra.scalar import Scalar, columns, is_constant, mentions_now
from weft.algebra.schema import INT, Column, DataType
from weft.errors import SqlError
from weft.sql.lower.conversion import opened
from weft.sql.lower.nested import as_column
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import Scope, as_written

EXPLODING: Final = ("explode", "explode_outer", "posexplode", "posexplode_outer")
Lower = Callable[[exp.Expr, Scope], Scalar]


def exploding(node: exp.Expr) -> exp.Anonymous | None:
    """Return the call of EXPLODE or POSEXPLODE, or None for any other expression."""
    called = isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in EXPLODING
    return node if called and isinstance(node, exp.Anonymous) else None


def lower_unnest(
    call: exp.Anonymous, alias: str, names: Sequence[str], scope: Scope, lower: Lower, *, outer: bool = False
) -> Unnest:
    """Return the elements of an ARRAY, or the entries of a MAP, as rows.

    ``names`` are the names of the columns, or empty.  Raise SqlError if the argument is neither an ARRAY nor a MAP.
    """
    function = call.name.lower()
    if scope.context.view:
        hint = "Write ARRAY_CONTAINS(array, value) or EXISTS(array, x -> condition), or install a query."
        raise refuse(f"{function.upper()}()", call, "views do not support it", hint)
    if len(call.expressions) != 1:
        raise SqlError(f"{function.upper()} takes 1 argument, not {len(call.expressions)}", where=place(call))
    value = opened(lower(call.expressions[0], scope))
    if value.type.name not in ("ARRAY", "MAP"):
        hint = "Write FROM_JSON(doc, 'ARRAY<STRING>') for JSON text, or SPLIT(text, ',')."
        raise SqlError(f"{function.upper()} takes an ARRAY or a MAP, not {value.type}", where=place(call), hint=hint)
    if is_constant(value) or mentions_now(value):
        hint = "For constants write FROM (VALUES (1), (2)) AS v(x)."
        raise refuse(f"{function.upper()} of a constant or of NOW()", call, "it reads a column of each row", hint)
    own = {ref.scan for variable in scope.variables.values() for ref in variable.columns}
    if outside := sorted(ref.scan for ref in columns(value) if ref.scan not in own):
        reason = "the array must be in a table of the same FROM"
        hint = "Put EXPLODE into the FROM of the table, or write EXISTS(array, x -> condition)."
        raise refuse(f"{function.upper()} of a column of {as_written(outside[0])}", call, reason, hint)
    positions = function.startswith("pos")
    kinds = [*([("pos", INT)] if positions else []), *_kinds(value.type)]
    if names and len(names) != len(kinds):
        raise SqlError(f"{function.upper()} has {len(kinds)} columns, not {len(names)}", where=place(call))
    named = zip(names or [name for name, _ in kinds], (kind for _, kind in kinds), strict=True)
    heads = tuple(Column(number, name, kind) for number, (name, kind) in enumerate(named, 1))
    return Unnest(value, scope.fresh(alias), heads, positions, outer or function.endswith("_outer"))


def _kinds(type: DataType) -> list[tuple[str, DataType]]:
    assert type.element is not None
    if type.key is not None:
        return [("key", type.key), ("value", type.element)]
    return [("col", type.element)]


def exploded(item: exp.Expr, scope: Scope, lower: Lower) -> list[Output]:
    """Return the columns of an EXPLODE in a select list.  For any other item, return an empty list."""
    call = exploding(item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item)
    if call is None:
        return []
    if scope.values is None or any(isinstance(each, Unnest) for each in scope.values):
        raise refuse(f"a second {call.name.upper()}()", item, "a select list has one of them", "Use LATERAL VIEW.")
    names = [item.alias] if isinstance(item, exp.Alias) else []
    if isinstance(item, exp.Aliases):
        only(item, "this", "expressions")
        names = [each.name for each in item.expressions]
    source = lower_unnest(call, "exploded", names, scope, lower)
    scope.values.append(source)
    return [Output(ref.column, as_column(ref)) for ref in attributes(source)]
