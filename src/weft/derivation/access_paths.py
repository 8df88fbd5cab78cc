"""Choose how a branch reads each of its tables: by its window, by a look-up of keys, or in full.

A branch reads only those rows of its driver that lie in the window.  If equalities connect a table to the driver,
directly or through other tables, the branch looks up only the matching rows (a semi-join reduction).  A tick reads the
new rows of a table once and makes each look-up once, for all branches (design section 5).

Law: the access paths of a branch do not change its result.

Proof: proofs/Rewrites.v: access_paths_rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from weft.algebra import relation as relational
from weft.algebra.access import Access, DeltaScan, FullScan, KeyScan, Lookup
from weft.algebra.calendar import near
from weft.algebra.event import Event
from weft.algebra.parts import Key, key_of
from weft.algebra.scalar import Call, ColumnRef, Literal, Param, Scalar
from weft.algebra.schema import DataType
from weft.algebra.traverse import substitute
from weft.derivation.exact import Delta
from weft.derivation.lives import KEYS, Lives, with_bodies
from weft.derivation.stateful import key_columns


def access_paths(event: Event) -> dict[str, Access]:
    """Return the access path of each range variable of the branch and of its subqueries."""
    instant = None if event.driver.kind == "greatest" else event.instant
    return _driven(event.block, instant)


def delta_paths(delta: Delta) -> dict[str, Access]:
    """Return the access path of each range variable of a delta."""
    conditions = map(relational.Plain, delta.life.conditions)
    around = relational.block(delta.life.sources, relational.conjunction(*conditions))
    return _driven(around, delta.life.start)


def _driven(around: relational.Relation, instant: Scalar | None) -> dict[str, Access]:
    paths: dict[str, Access] = {}
    driver = None if instant is None else _news(around, instant)
    if driver is not None:
        paths[driver[0].alias] = driver[1]
    _reach(around, paths, {})
    return paths


def _news(around: relational.Relation, instant: Scalar) -> tuple[relational.Scan, DeltaScan] | None:
    """Return None unless the driver's instant is a (rounded) column plus constant intervals."""
    parts, slack = near(instant)
    if not isinstance(parts.base, ColumnRef) or any(_own(interval) for interval, _ in parts.intervals):
        return None
    for source in relational.sources(around):
        if isinstance(source, relational.Scan) and source.alias == parts.base.scan:
            return source, DeltaScan(source.table.name, parts.base.column, parts, slack)
    return None


def _own(interval: Scalar) -> bool:
    """If an interval is computed, no single window of the column contains all new rows."""
    return not isinstance(interval, (Literal, Param, ColumnRef))


def _reach(around: relational.Relation, paths: dict[str, Access], known: Mapping[ColumnRef, Scalar]) -> None:
    """``known`` maps each column of an enclosing domain to the original table column, or to a part of it."""
    demanded = relational.condition(around)
    origins = dict(known)
    for source in relational.sources(around):
        origins |= _copied(source, known)
    scans = {source.alias: source for source in relational.sources(around) if isinstance(source, relational.Scan)}
    for alias, scan in scans.items():
        if not scan.table.id and not isinstance(paths.get(alias), KeyScan):
            paths[alias] = FullScan(scan.table.name)  # the parameters of queries have no window
    pairs = [pair for pair in _equalities(demanded, origins) if _is_stored(pair[0], scans)]
    pairs.sort(key=lambda pair: _needs_all_groups(pair[0], scans))
    while True:
        reaching = next((pair for pair in pairs if _reaches(pair[0], pair[1], paths)), None)
        if reaching is None:
            break
        own, other, null_safe = reaching
        paths[own.scan] = Lookup(scans[own.scan].table.name, own.key, paths[other.scan], other.key, null_safe)
    for alias, scan in scans.items():
        paths.setdefault(alias, FullScan(scan.table.name))
    for inner in _bodies(demanded):
        _reach(inner, paths, origins)


@dataclass(frozen=True)
class _Side:
    """One side of an equality: the key of a range variable.  ``ref`` is the column of the key."""

    ref: ColumnRef
    key: Key
    type: DataType

    @property
    def scan(self) -> str:
        return self.ref.scan


def _is_stored(own: _Side, scans: Mapping[str, relational.Scan]) -> bool:
    """Return whether rows have the key.  The groups of a state are looked up by columns only."""
    scan = scans.get(own.scan)
    return scan is not None and (own.key.part is None or not isinstance(scan.table, relational.StateSchema))


def _needs_all_groups(own: _Side, scans: Mapping[str, relational.Scan]) -> bool:
    """Return whether a look-up of the column computes all groups of a state, because the column is no key of it."""
    state = scans[own.scan].table
    return isinstance(state, relational.StateSchema) and own.key.column not in dict(key_columns(state))


def _reaches(own: _Side, other: _Side, paths: Mapping[str, Access]) -> bool:
    return own.scan not in paths and isinstance(paths.get(other.scan), (DeltaScan, KeyScan, Lookup))


def _equalities(demanded: relational.Predicate, origins: Mapping[ColumnRef, Scalar]) -> list[tuple[_Side, _Side, bool]]:
    """Return each equality of keys in both directions, with whether NULL equals NULL.

    Columns come before parts of columns.  Null-safe equalities come last, because many rows may have NULL, and exist
    only between columns: a look-up by a part returns the rows that may have the key, and not those without it.
    """
    pairs = []
    for item in relational.conjuncts(demanded):
        match item:
            case relational.Plain(Call(name="=" | "<=>" as name, args=(one, another))):
                left, right = _side(one, origins), _side(another, origins)
                if left is None or right is None or left.type != right.type or left.scan == right.scan:
                    continue
                if name == "=" or _of_columns(left, right):
                    pairs += [(left, right, name == "<=>"), (right, left, name == "<=>")]
            case _:
                continue
    return sorted(pairs, key=lambda pair: (pair[2], not _of_columns(pair[0], pair[1])))


def _side(value: Scalar, origins: Mapping[ColumnRef, Scalar]) -> _Side | None:
    if key_of(value) is None:
        return None
    value = substitute(value, origins)
    found = key_of(value)
    return None if found is None else _Side(*found, value.type)


def _of_columns(left: _Side, right: _Side) -> bool:
    return left.key.part is None and right.key.part is None


def _copied(source: relational.Source, known: Mapping[ColumnRef, Scalar]) -> dict[ColumnRef, Scalar]:
    """Map each column of a domain to the original table column, or to its part (law of ``derivation.localize``)."""
    if not isinstance(source, relational.Distinct) or not isinstance(source.input, relational.Project):
        return {}
    pairs = zip(relational.attributes(source), source.input.outputs, strict=True)
    return {ref: substitute(out.value, known) for ref, out in pairs if key_of(out.value) is not None}


def _bodies(predicate: relational.Predicate) -> list[relational.Relation]:
    match predicate:
        case relational.Exists(body=body) | relational.NotExists(body=body):
            return [body]
        case relational.And(items=items) | relational.Or(items=items):
            return [body for item in items for body in _bodies(item)]
        case relational.Plain() | relational.NowFrom() | relational.NowBefore():
            return []


def whole_tables(event: Event) -> dict[str, Access]:
    """Return access paths that read full tables."""
    paths: dict[str, Access] = {}
    _reach(event.block, paths, {})
    return paths


def lives_paths(rows: Iterable[Lives], keys: Collection[str] = (KEYS,)) -> dict[str, Access]:
    """Return the access path of each range variable of lives.  Without keys, each table is read in full.

    ``keys`` are the range variables of relations in memory, by which the others are looked up.  Lives share range
    variables.  A table is also read in full if two lives need different rows of it.
    """
    every, whole = tuple(with_bodies(rows)), dict[str, Access]()
    while True:
        paths: dict[str, Access] = {}
        unlike: dict[str, Access] = {}
        for life in every:
            for alias, path in _keyed_paths(life, keys, whole).items():
                if paths.setdefault(alias, path) != path:
                    unlike[alias] = FullScan(path.table)
        if not unlike:
            return paths
        whole |= unlike


def _keyed_paths(life: Lives, keys: Collection[str], whole: Mapping[str, Access]) -> dict[str, Access]:
    """``whole`` has the range variables that are read in full."""
    paths: dict[str, Access] = {}
    for scan in life.sources:
        if isinstance(scan, relational.Scan) and scan.alias in keys:
            paths[scan.alias] = KeyScan(scan.table.name)
        elif isinstance(scan, relational.Scan) and scan.alias in whole:
            paths[scan.alias] = whole[scan.alias]
    conditions = map(relational.Plain, life.conditions)
    _reach(relational.block(life.sources, relational.conjunction(*conditions)), paths, {})
    return paths


def in_reading_order(paths: Iterable[Access]) -> list[list[Access]]:
    """Group access paths for one reading per group.  Include the paths that supply keys to look-ups."""
    groups: dict[tuple[int, str], dict[Access, None]] = {}
    for path in paths:
        step: Access = path
        while True:
            # Group whole tables and new rows by view, and look-ups by step and table.
            key = (step.step, step.table) if isinstance(step, Lookup) else (0, step.view)
            groups.setdefault(key, {})[step] = None
            if not isinstance(step, Lookup):
                break
            step = step.via
    return [list(groups[key]) for key in sorted(groups, key=lambda each: each[0])]


def keys_of(event: Event, alias: str) -> tuple[tuple[ColumnRef, ColumnRef], ...]:
    """Return pairs (column of ``alias``, equal column of another source of the branch)."""
    pairs = _equalities(relational.condition(event.block), {})
    return tuple(
        (own.ref, other.ref)
        for own, other, null_safe in pairs
        if own.scan == alias and not null_safe and _of_columns(own, other)
    )


def keyless(paths: Mapping[str, Access]) -> tuple[str, ...]:
    """Return the range variables of the tables that every tick reads in full."""
    return tuple(alias for alias, path in paths.items() if isinstance(path, FullScan))
