"""Choose how a branch reads each of its tables: by its window, by a look-up of keys, or in full.

A branch reads only those rows of its driver that lie in the window.  If equalities connect a table to the driver,
directly or through other tables, the branch looks up only the matching rows (a semi-join reduction).  A tick reads the
new rows of a table once and makes each look-up once, for all branches (design section 5).

Law: the access paths of a branch do not change its result.

Proof: proofs/Rewrites.v: access_paths_rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from weft.algebra import relation as relational
from weft.algebra.access import Access, DeltaScan, FullScan, Key, KeyScan, Lookup, is_field_key
from weft.algebra.calendar import near
from weft.algebra.event import Event
from weft.algebra.scalar import FIELD, Call, Case, ColumnRef, Literal, Param, Scalar, children
from weft.algebra.schema import BOOLEAN, TIMESTAMP
from weft.algebra.traverse import substitute
from weft.derivation.exact import Delta
from weft.derivation.lives import KEYS, PERIODS, Lives, with_bodies
from weft.derivation.stateful import bodies, key_columns

_ANY: Final = Literal(True, BOOLEAN, fixed=True)
_Side: TypeAlias = "tuple[ColumnRef, Key]"
"""A side of an equality: a column, and the key that is the column or one of its fields."""


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
    parts, slack = near(_of_table(instant, around))
    if not isinstance(parts.base, ColumnRef) or any(_own(interval) for interval, _ in parts.intervals):
        return None
    for source in relational.sources(around):
        if isinstance(source, relational.Scan) and source.alias == parts.base.scan:
            return source, DeltaScan(source.table.name, parts.base.column, parts, slack)
    return None


def _of_table(instant: Scalar, around: relational.Relation) -> Scalar:
    """Replace a bound of a period (``lives``) by an expression over the columns from which it is computed."""
    for source in reversed(relational.sources(around)):
        if isinstance(source, relational.Unnest) and source.alias.startswith(PERIODS):
            instant = substitute(instant, dict(zip(relational.attributes(source), _bounds(source.value), strict=True)))
    return instant


def _bounds(periods: Scalar) -> tuple[Scalar, ...]:
    """Return a choice between all starts of the periods, and one between all ends.  Constants stand for no bound."""
    rows = [children(row) for row in children(periods)]
    begun, ended = (tuple(row[place] for row in rows if not isinstance(row[place], Literal)) for place in (1, 3))
    return tuple(Case(tuple((_ANY, each) for each in bounds), None, TIMESTAMP) for bounds in (begun, ended))


def _own(interval: Scalar) -> bool:
    """If an interval is computed, no single window of the column contains all new rows."""
    return not isinstance(interval, (Literal, Param, ColumnRef))


def _reach(around: relational.Relation, paths: dict[str, Access], known: Mapping[ColumnRef, ColumnRef]) -> None:
    """``known`` maps each column of an enclosing domain to the original table column."""
    demanded = relational.condition(around)
    origins = dict(known)
    for source in relational.sources(around):
        origins |= _copied(source, known)
    scans = {source.alias: source for source in relational.sources(around) if isinstance(source, relational.Scan)}
    for alias, scan in scans.items():
        if not scan.table.id and not isinstance(paths.get(alias), KeyScan):
            paths[alias] = FullScan(scan.table.name)  # the parameters of queries have no window
    pairs = [pair for pair in _equalities(demanded, origins) if _is_possible(pair[0], scans)]
    pairs.sort(key=lambda pair: _needs_all_groups(pair[0][0], scans))
    while True:
        reaching = next((pair for pair in pairs if _reaches(pair[0][0], pair[1][0], paths)), None)
        if reaching is None:
            break
        (own, key), (other, via_key), null_safe = reaching
        paths[own.scan] = Lookup(scans[own.scan].table.name, key, paths[other.scan], via_key, null_safe)
    for alias, scan in scans.items():
        paths.setdefault(alias, FullScan(scan.table.name))
    for inner in bodies(demanded):
        _reach(inner, paths, origins)


def _is_possible(own: _Side, scans: Mapping[str, relational.Scan]) -> bool:
    """Return whether the table of ``own`` can be looked up by it.  A state is looked up by columns only."""
    scan = scans.get(own[0].scan)
    return scan is not None and not (own[1].fields and isinstance(scan.table, relational.StateSchema))


def _needs_all_groups(own: ColumnRef, scans: Mapping[str, relational.Scan]) -> bool:
    """Return whether a look-up of the column computes all groups of a state, because the column is no key of it."""
    state = scans[own.scan].table if own.scan in scans else None
    return isinstance(state, relational.StateSchema) and own.column not in dict(key_columns(state))


def _reaches(own: ColumnRef, other: ColumnRef, paths: Mapping[str, Access]) -> bool:
    return own.scan not in paths and isinstance(paths.get(other.scan), (DeltaScan, KeyScan, Lookup))


def _equalities(
    demanded: relational.Predicate, origins: Mapping[ColumnRef, ColumnRef]
) -> list[tuple[_Side, _Side, bool]]:
    """Return each equality of columns or fields in both directions, with whether NULL equals NULL.

    Equalities of columns come before equalities with a field, because a field is read from JSON text.  Of two such
    equalities, the one where NULL equals NULL comes last, because many rows may have NULL.
    """
    pairs = []
    for item in relational.conjuncts(demanded):
        match item:
            case relational.Plain(Call(name="=" | "<=>" as name, args=(one, two))) if one.type == two.type:
                left, right = _side(one, origins), _side(two, origins)
                if left is not None and right is not None and left[0].scan != right[0].scan:
                    pairs += [(left, right, name == "<=>"), (right, left, name == "<=>")]
            case _:
                continue
    return sorted(pairs, key=lambda pair: (bool(pair[0][1].fields or pair[1][1].fields), pair[2]))


def _side(value: Scalar, origins: Mapping[ColumnRef, ColumnRef]) -> _Side | None:
    """Return None if the value is neither a column nor a field of a STRUCT column that can be a key."""
    if isinstance(value, ColumnRef):
        column = origins.get(value, value)
        return column, Key(column.column)
    if not is_field_key(value.type):
        return None
    fields: list[str] = []
    while True:
        match value:
            case Call(name=name, args=(of, Literal(value=str(field)))) if name == FIELD and of.type.name == "STRUCT":
                fields, value = [field, *fields], of
            case Call(name="from_json", args=(ColumnRef(type=type) as column, _)) if fields and type.json == value.type:
                column = origins.get(column, column)
                return column, Key(column.column, tuple(fields), value.type)
            case _:
                return None


def _copied(source: relational.Source, known: Mapping[ColumnRef, ColumnRef]) -> dict[ColumnRef, ColumnRef]:
    """Map each column of a domain to the original table column (law of ``derivation.localize``)."""
    if not isinstance(source, relational.Distinct) or not isinstance(source.input, relational.Project):
        return {}
    pairs = zip(relational.attributes(source), source.input.outputs, strict=True)
    return {ref: known.get(out.value, out.value) for ref, out in pairs if isinstance(out.value, ColumnRef)}


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
        (own, other)
        for (own, key), (other, other_key), null_safe in pairs
        if own.scan == alias and not (null_safe or key.fields or other_key.fields)
    )


def keyless(paths: Mapping[str, Access]) -> tuple[str, ...]:
    """Return the range variables of the tables that every tick reads in full."""
    return tuple(alias for alias, path in paths.items() if isinstance(path, FullScan))
