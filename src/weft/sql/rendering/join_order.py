"""Order the tables of a FROM clause, so that Spark joins each table by an equality.

Spark joins the tables in the order of FROM, but takes the first one that any condition connects with the tables before.
A branch compares the ts of every table with the instant of its driver.  Once the driver is joined, these comparisons
connect every table, and Spark would pair all rows of two tables whose equalities lead to a third one.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra import relation as relational
from weft.algebra.join_graph import equated
from weft.algebra.relation import Plain, Scan, Source
from weft.algebra.traverse import mentioned


def join_order(sources: Sequence[Source], predicate: relational.Predicate) -> Sequence[Source]:
    """Return the sources in another order if Spark would otherwise pair rows without an equality."""
    own = {source.alias for source in sources if isinstance(source, Scan)}
    if len(own) < max(3, len(sources)):
        return sources
    conditions = [
        (each, frozenset(ref.scan for ref in mentioned(each)) & own)
        for each in relational.conjuncts(predicate)
        if isinstance(each, Plain)
    ]
    connecting = [aliases for _, aliases in conditions if len(aliases) > 1]
    equating = [aliases for each, aliases in conditions if len(aliases) > 1 and equated(each.condition) is not None]
    ordered, rest, other = [sources[0]], list(sources[1:]), False
    while rest:
        taken = {source.alias for source in ordered if isinstance(source, Scan)}
        by_any = _next(rest, taken, connecting) or rest[0]
        chosen = _next(rest, taken, equating) or by_any
        other = other or chosen is not by_any
        ordered.append(chosen)
        rest.remove(chosen)
    return ordered if other else sources


def _next(rest: Sequence[Source], taken: set[str], conditions: Sequence[frozenset[str]]) -> Source | None:
    """Return the first source that a condition connects with those that are taken."""
    for source in rest:
        if isinstance(source, Scan) and any(
            source.alias in aliases and aliases <= taken | {source.alias} for aliases in conditions
        ):
            return source
    return None
