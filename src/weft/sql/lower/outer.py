"""Translate LEFT, RIGHT and FULL JOIN into a UNION ALL of the pairs and of the rows without a partner.

    A LEFT JOIN B ON p    π A, B σ p (A ⋈ B)  ∪  π A, NULL (A ▷ p B)

RIGHT JOIN adds the rows of B without a partner in A, and FULL JOIN adds both.  The rest of the SELECT refers to the
columns of A and B.  ``joined`` replaces these columns by the columns of the union.  ``narrowed`` removes the columns
that nothing refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.scalar import Cast, ColumnRef, Literal, Scalar
from weft.algebra.schema import NULL
from weft.algebra.traverse import N, Node, free_columns, mentioned, substitute, transform, walk
from weft.sql.lower.scope import Scope


@dataclass(frozen=True)
class Side:
    """One side of a join: its relation, and the columns that the text can name."""

    relation: relational.Relation
    columns: tuple[ColumnRef, ...]


@dataclass(frozen=True)
class Shared:
    """A column of USING, and the columns of both sides with which it is equal."""

    ref: ColumnRef
    left: Scalar
    right: Scalar


def outer_join(
    kind: str, left: Side, right: Side, on: relational.Predicate, scope: Scope, shared: Sequence[Shared] = ()
) -> relational.Union:
    """Return the union for an outer join, and record the names of its columns in ``scope``.

    ``kind`` is LEFT, RIGHT or FULL.
    """
    left = _materialized(Side(joined(left.relation, scope), left.columns), scope)
    right = Side(joined(right.relation, scope), right.columns)
    if len({ref.scan for ref in right.columns}) > 1:  # joins in parentheses, which refer to nothing outside
        right = _materialized(right, scope)
    on = joined(on, scope)
    alias = scope.fresh("joined")
    scope.context.names.unions.add(alias)
    named = relational.distinct_names((*left.columns, *right.columns, *(each.ref for each in shared)))
    from_left: dict[ColumnRef, Scalar] = {}
    from_left.update((ref, joined(ref, scope)) for ref in left.columns)
    from_left.update((each.ref, joined(each.left, scope)) for each in shared)
    from_right: dict[ColumnRef, Scalar] = {ref: joined(ref, scope) for ref in right.columns}
    pairs = relational.Select(relational.Join((left.relation, right.relation)), on)
    parts = [_part(pairs, {**from_right, **from_left}, named, scope)]
    if kind in ("LEFT", "FULL"):
        parts.append(scope.copy_of(_part(_without_partner(left, right, on), from_left, named, scope)))
    if kind in ("RIGHT", "FULL"):
        from_right |= {each.ref: each.right for each in shared}
        parts.append(scope.copy_of(_part(_without_partner(right, left, on), from_right, named, scope)))
    union = relational.Union(alias, tuple(parts))
    scope.joined.clear()
    scope.joined.update({ref: ColumnRef(alias, name, ref.type) for ref, name in named.items()})
    scope.joined[union] = union
    return union


def _materialized(side: Side, scope: Scope) -> Side:
    """Let the tick compute a side with several outer joins once.

    An outer join contains two copies of each side.  The size of the query would double with each outer join.  A side
    that refers to columns of the surrounding query is computed for each of its rows, so it is copied.
    """
    unions = sum(1 for part in walk(side.relation) if isinstance(part, relational.Union))
    if unions < _MOST_UNIONS or scope.context.view or free_columns(side.relation):
        return side
    named = relational.distinct_names(side.columns)
    outputs = tuple(relational.Output(name, joined(ref, scope)) for ref, name in named.items())
    alias = scope.fresh("joined")
    whole = relational.Materialized(relational.Project(side.relation, scope.fresh("joined"), outputs), alias)
    scope.joined.update({ref: ColumnRef(alias, name, ref.type) for ref, name in named.items()})
    scope.joined[whole] = whole
    return Side(whole, side.columns)


_MOST_UNIONS: Final = 3
"""The number of unions in a side that an outer join does not copy.  Two nested outer joins have three unions."""


def joined(node: N, scope: Scope) -> N:
    """Replace the columns of outer joins by the columns of their unions.

    A ``Materialized`` is closed, and a copy of it has the range variables of the original inside.
    """
    if not scope.joined:
        return node
    closed = {part: part for part in walk(node) if isinstance(part, relational.Materialized)}
    return substitute(node, {**closed, **scope.joined})


def _without_partner(own: Side, other: Side, on: relational.Predicate) -> relational.Select:
    return relational.Select(own.relation, relational.NotExists(relational.Select(other.relation, on)))


def _part(
    relation: relational.Relation, known: dict[ColumnRef, Scalar], named: dict[ColumnRef, str], scope: Scope
) -> relational.Project:
    outputs = tuple(relational.Output(name, known.get(ref) or missing(ref)) for ref, name in named.items())
    return relational.Project(relation, scope.fresh("joined"), outputs)


def missing(ref: ColumnRef) -> Scalar:
    """Return the NULL that an outer join has in place of the column ``ref``."""
    return Cast(Literal(None, NULL, fixed=True), ref.type)


def narrowed(query: relational.Query, unions: set[str]) -> relational.Query:
    """Remove the columns of ``unions`` and of ``Materialized`` relations that no other part of the query names.

    At least one column remains.  The copies of a ``Materialized`` keep the same columns.
    """
    used = {(ref.scan, ref.column) for ref in mentioned(query)}
    places: dict[str, set[int]] = {}
    widths: dict[str, int] = {}
    for part in walk(query):
        name = _narrow_name(part, unions)
        if name is not None:
            columns = relational.attributes(part)  # type: ignore[arg-type]
            widths[name] = len(columns)
            own = {place for place, ref in enumerate(columns) if (ref.scan, ref.column) in used}
            places.setdefault(name, set()).update(own)
    kept = {name: sorted(own) or [0] for name, own in places.items() if len(own or {0}) < widths[name]}

    def change(part: relational.Relation) -> relational.Relation:
        columns = kept.get(_narrow_name(part, unions) or "")
        if columns is None:
            return part
        if isinstance(part, relational.Materialized):
            return relational.Materialized(_only(part.input, columns), part.alias)
        assert isinstance(part, relational.Union)
        return relational.Union(part.alias, tuple(_only(each, columns) for each in part.inputs))

    return narrowed(transform(query, change), unions) if kept else query


def _narrow_name(part: Node, unions: set[str]) -> str | None:
    """Return a name that the copies of a ``Materialized`` share."""
    if isinstance(part, relational.Materialized):
        return part.input.alias
    return part.alias if isinstance(part, relational.Union) and part.alias in unions else None


def _only(part: relational.Relation, places: Sequence[int]) -> relational.Project:
    assert isinstance(part, relational.Project)
    return relational.Project(part.input, part.alias, tuple(part.outputs[place] for place in places))
