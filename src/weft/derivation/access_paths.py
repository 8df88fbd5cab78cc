"""How a branch reaches each of its tables: the news, a look-up by key, or the whole table.

A branch begins at its driver's rows, which the window keeps few, and finds the others from there by equality.  So a
scan can be read through a relation that holds only the rows that such an equality can reach (a semi-join reduction),
and that relation serves all branches of all plans of a tick: a table's news and its look-ups are read once (design
section 5). Law: a branch gives the same rows through its access paths as over the whole tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.calendar import near
from weft.algebra.event import Event
from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Project,
    Relation,
    Scan,
    Source,
    attributes,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Param, Scalar


def access_paths(event: Event, *, null_safe: bool = False) -> dict[str, Access]:
    """For each range variable of the branch, subqueries' included, how it is read.

    With ``null_safe`` a key may be compared by <=>, for readers that find NULL by NULL; ``--from now`` asks so whether
    the same row was there before.
    """
    paths: dict[str, Access] = {}
    driver = _news(event)
    if driver is not None:
        paths[driver[0].alias] = driver[1]
    _reach(event.block, paths, {}, null_safe)
    return paths


def _news(event: Event) -> tuple[Scan, DeltaScan] | None:
    """The scan that the driver's instant restricts to the window, where that is a column and intervals, or rounded."""
    if event.driver.kind == "greatest":
        return None
    parts, slack = near(event.instant)
    if not isinstance(parts.base, ColumnRef) or any(_own(interval) for interval, _ in parts.intervals):
        return None
    for source in sources(event.block):
        if isinstance(source, Scan) and source.alias == parts.base.scan:
            return source, DeltaScan(source.table.name, parts.base.column, parts, slack)
    return None


def _own(interval: Scalar) -> bool:
    """Whether an interval differs from row to row: then no one window of the column holds the news."""
    return not isinstance(interval, (Literal, Param, ColumnRef))


def _reach(around: Relation, paths: dict[str, Access], known: Mapping[ColumnRef, ColumnRef], null_safe: bool) -> None:
    """Finds a path for every scan of a block, then for the subqueries below it."""
    demanded = condition(around)
    origins = dict(known)
    for source in sources(around):
        origins |= _copied(source, known)
    scans = {source.alias: source for source in sources(around) if isinstance(source, Scan)}
    paths.update({alias: FullScan(scan.table.name) for alias, scan in scans.items() if not scan.table.id})
    pairs = [tie for tie in _equalities(demanded, origins) if null_safe or not tie.null_safe]
    while True:
        found = next((tie for tie in pairs if tie.own.scan in scans and _reaches(tie, paths)), None)
        if found is None:
            break
        own, other = found.own, found.other
        table = scans[own.scan].table.name
        paths[own.scan] = Lookup(table, own.column, paths[other.scan], other.column, found.null_safe)
    for alias, scan in scans.items():
        paths.setdefault(alias, FullScan(scan.table.name))
    for inner in _bodies(demanded):
        _reach(inner, paths, origins, null_safe)


@dataclass(frozen=True)
class _Tie:
    """own = other, or null-safely own <=> other, between columns of one type."""

    own: ColumnRef
    other: ColumnRef
    null_safe: bool


def _reaches(tie: _Tie, paths: Mapping[str, Access]) -> bool:
    return tie.own.scan not in paths and isinstance(paths.get(tie.other.scan), (DeltaScan, Lookup))


def _equalities(demanded: Predicate, origins: Mapping[ColumnRef, ColumnRef]) -> list[_Tie]:
    """The equalities between columns, both ways round, null-safe ones last; a domain's column is what it copies."""
    ties = []
    for item in conjuncts(demanded):
        if (
            not isinstance(item, Plain)
            or not isinstance(item.condition, Call)
            or item.condition.name not in ("=", "<=>")
        ):
            continue
        left, right = item.condition.args
        if isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
            left, right = origins.get(left, left), origins.get(right, right)
            if left.type == right.type and left.scan != right.scan:
                null_safe = item.condition.name == "<=>"
                ties += [_Tie(left, right, null_safe), _Tie(right, left, null_safe)]
    return sorted(ties, key=lambda tie: tie.null_safe)


def _copied(source: Source, known: Mapping[ColumnRef, ColumnRef]) -> dict[ColumnRef, ColumnRef]:
    """Each column of a domain, and the column of a table that it copies (law of ``derivation.localize``)."""
    if not isinstance(source, Distinct) or not isinstance(source.input, Project):
        return {}
    pairs = zip(attributes(source), source.input.outputs, strict=True)
    return {ref: known.get(out.value, out.value) for ref, out in pairs if isinstance(out.value, ColumnRef)}


def _bodies(predicate: Predicate) -> list[Relation]:
    match predicate:
        case Exists(body=body) | NotExists(body=body):
            return [body]
        case And(items=items) | Or(items=items):
            return [body for item in items for body in _bodies(item)]
        case Plain() | NowFrom() | NowBefore():
            return []


def whole_tables(event: Event) -> dict[str, Access]:
    """The paths of a branch that reads every table as it is (the closed form, a first delivery)."""
    paths: dict[str, Access] = {}
    _reach(event.block, paths, {}, null_safe=False)
    return paths


def keys_of(event: Event, alias: str) -> tuple[tuple[ColumnRef, ColumnRef], ...]:
    """The columns of a range variable of the branch's block, and the columns of its others that they have to equal."""
    ties = _equalities(condition(event.block), {})
    return tuple((tie.own, tie.other) for tie in ties if tie.own.scan == alias and not tie.null_safe)


def keyless(paths: Mapping[str, Access]) -> tuple[str, ...]:
    """Range variables that no key reaches: each tick reads their tables whole."""
    return tuple(alias for alias, path in paths.items() if isinstance(path, FullScan))
