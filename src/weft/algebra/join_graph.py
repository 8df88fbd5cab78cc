"""Find the tables of a FROM clause that no equality connects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.algebra.relation import Scan, Source, attributes
from weft.algebra.scalar import Call, Scalar
from weft.algebra.traverse import free_columns, mentioned


def equated(condition: Scalar) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the range variables of both sides of an equality that a hash join can use, or None."""
    match condition:
        case Call(name="=" | "<=>", args=(left, right)):
            one, other = (frozenset(ref.scan for ref in mentioned(side)) for side in (left, right))
            return (one, other) if one and other and not one & other else None
        case _:
            return None


def selected(condition: Scalar) -> str | None:
    """Return the range variable whose rows an equality with a constant selects, or None for another condition."""
    match condition:
        case Call(name="=" | "<=>", args=(left, right)):
            found = [frozenset(ref.scan for ref in mentioned(side)) for side in (left, right)]
            one, other = sorted(found, key=len)
            return next(iter(other)) if not one and len(other) == 1 else None
        case _:
            return None


def unconnected(sources: Sequence[Source], conditions: Iterable[Scalar]) -> tuple[tuple[Scan, ...], ...]:
    """Return the connected components of the scans of a FROM clause.  Equalities of two relations connect them.

    The result is empty if there is only one component.  Range variables that begin with _ are Weft's own.  They connect
    relations, but are not in the result.
    """
    aliases = [next((ref.scan for ref in attributes(source)), "") for source in sources]
    met = [{alias} | {ref.scan for ref in free_columns(source)} for alias, source in zip(aliases, sources, strict=True)]
    sides = filter(None, map(equated, conditions))
    met += [set(one | other) for one, other in sides if len(one) == len(other) == 1]
    part_of = {alias: {alias} for alias in aliases}
    for each in met:
        merged = set[str]().union(*(part_of[alias] for alias in each & part_of.keys()))
        part_of |= dict.fromkeys(merged, merged)
    named = [source for source in sources if isinstance(source, Scan) and not source.alias.startswith("_")]
    parts = {id(part_of[scan.alias]): part_of[scan.alias] for scan in named}.values()
    found = tuple(tuple(scan for scan in named if scan.alias in part) for part in parts)
    return found if len(found) > 1 else ()
