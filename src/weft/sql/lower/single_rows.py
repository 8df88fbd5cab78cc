"""Find subqueries that have at most one row at every instant, because keys and equalities prevent a second row.

    (SELECT d.boss FROM staff d WHERE d.name = m.sender)    staff has the key name

An equality determines a column if its other side has columns of outer rows, constants and determined columns only.  If
all columns of a key are determined, all columns of the source are.  The keys of a relation are those of a table, the
groups of an aggregation, and all columns of a relation without duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.relation import (
    Distinct,
    Grouped,
    Output,
    Plain,
    Predicate,
    Project,
    Relation,
    Scan,
    attributes,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import Call, ColumnRef, Scalar, columns
from weft.algebra.schema import INTEGRAL

Key = frozenset[ColumnRef]


def at_most_one(relation: Relation) -> bool:
    """Return whether keys and equalities prove that a relation has at most one row for each outer row."""
    match relation:
        case Project(input=inner, outputs=outputs):
            return not outputs or _is_single(inner)
        case Distinct(input=Project(input=inner, outputs=outputs)):
            found = _determined(inner)
            own = {ref for part in sources(inner) for ref in attributes(part)}
            return _is_single(inner) or all(columns(each.value) & own <= found for each in outputs)
        case _:
            return _is_single(relation)


def _is_single(relation: Relation) -> bool:
    found = _determined(relation)
    return all(any(key <= found for key in _keys(part)) for part in sources(relation))


def _determined(relation: Relation) -> set[ColumnRef]:
    """Return the columns of the sources that have one value for each outer row."""
    parts = sources(relation)
    own = {ref for part in parts for ref in attributes(part)}
    equalities = [pair for item in conjuncts(condition(relation)) for pair in _equal(item)]
    found: set[ColumnRef] = set()
    while True:
        new = {ref for ref, other in equalities if ref in own and columns(other) & own <= found}
        new |= {ref for part in parts if any(key <= found for key in _keys(part)) for ref in attributes(part)}
        if new <= found:
            return found
        found |= new


def _equal(item: Predicate) -> Iterator[tuple[ColumnRef, Scalar]]:
    match item:
        case Plain(condition=Call(name="=", args=(left, right))):
            for ref, other in ((left, right), (right, left)):
                if isinstance(ref, ColumnRef) and (
                    ref.type == other.type or (ref.type.name in INTEGRAL and other.type.name in INTEGRAL)
                ):
                    yield ref, other
        case _:
            return


def _keys(part: Relation) -> list[Key]:
    """Return sets of columns that no two rows of a relation share at an instant."""
    match part:
        case Scan(table=table, alias=alias) if table.key and not part.whole:
            found = [column for name in table.key if (column := table.column(name)) is not None]
            return [frozenset(ColumnRef(alias, each.name, each.type) for each in found)]
        case Grouped(alias=alias, groups=groups):
            return [frozenset(ColumnRef(alias, each.name, each.value.type) for each in groups)]
        case Distinct(input=inner):
            return [*_keys(inner), frozenset(attributes(part))]
        case Project(input=inner, alias=alias, outputs=outputs):
            if _is_single(inner):
                return [frozenset()]
            below = sources(inner)
            return [] if len(below) != 1 else list(_shown(_keys(below[0]), alias, outputs))
        case _:
            return []


def _shown(keys: list[Key], alias: str, outputs: tuple[Output, ...]) -> Iterator[Key]:
    """Yield the keys whose columns are all among the outputs, as columns of the projection."""
    names = {each.value: ColumnRef(alias, each.name, each.value.type) for each in outputs}
    for key in keys:
        if key <= names.keys():
            yield frozenset(names[ref] for ref in key)
