"""Compile a state: the SQL that finds the keys of its touched groups, and the SQL of its rows.

The state must be bound to a window and to the constants of one query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.relation import Grouped, Measure, Output, Project, Recursive, Scan, StateSchema, condition
from weft.algebra.scalar import TICK_END, TICK_START, TIME_START, Literal, Scalar
from weft.algebra.schema import INTEGRAL, TIMESTAMP, Column, DataType, TableSchema, remembered
from weft.algebra.traverse import Node, mentioned, scans, transform
from weft.derivation.access_paths import delta_paths, lives_paths
from weft.derivation.exact import deltas, with_states
from weft.derivation.incremental import changes
from weft.derivation.lift import bound_state
from weft.derivation.lives import KEYS, Lives, lives, with_bodies
from weft.derivation.stateful import ENDS, STARTS, compared_columns, key_columns, state_of
from weft.period_sql.notation import Dialect
from weft.period_sql.wide_sums import MOST_SCALE
from weft.planning.last_rows import looks_few_back
from weft.planning.plan import BEGINNING, Branch, bound, columns_of_scans, columns_read, ready
from weft.planning.state_sql import (
    bound_life,
    deltas_sql,
    inputs,
    is_settled,
    is_unbounded,
    lives_sql,
    state_sql,
)
from weft.sql.rendering import render

NO_KEY: Final = "none"
"""The column of keys without a key: a relation with at most one row."""


@dataclass(frozen=True)
class StateRows:
    """How a state is computed from its input: the access paths, and the columns that are read, by table."""

    state: StateSchema
    input: tuple[Lives, ...]
    paths: Mapping[str, Access]
    columns: Mapping[str, set[str]]
    reads: tuple[StateSchema, ...]

    def sql(self, dialect: Dialect) -> str:
        """Return the SQL of the state's rows."""
        settled = is_settled(self.state.operator, self.input)
        return state_sql(self.state, self.lives(dialect), dialect, settled=settled)

    def lives(self, dialect: Dialect) -> str:
        """Return the SQL of the lives of the input."""
        views = {alias: path.view + suffix(self.state) for alias, path in self.paths.items()}
        return lives_sql(self.input, self.state.window, views, dialect)


def window_of(state: StateSchema) -> tuple[int | None, int]:
    """Return τ and t of a bound state in microseconds.  τ is None if the window has no start."""
    tau, t, _ = (each.value if isinstance(each, Literal) else None for each in state.window)
    assert isinstance(tau, int) and isinstance(t, int), "the state must be bound to a window"
    return (None if is_unbounded(state.window) else tau), t


def begins_at(state: StateSchema) -> int:
    """Return t0 of a bound state in microseconds: the instant at which a group without keys begins."""
    t0 = state.window[2]
    assert isinstance(t0, Literal) and isinstance(t0.value, int), "the state must be bound to a window"
    return t0.value


def may_continue(state: StateSchema, at: int) -> bool:
    """Return whether totals at the instant ``at`` determine the state in its window.

    They do not if the group of a state without keys begins in the window.
    """
    return bool(key_columns(state)) or begins_at(state) < at


def continued_deltas(state: StateSchema, groups: int | OneOf["whole", "news"]) -> StateDeltas | None:
    """Return the deltas with which a tick continues what is stored, or None if it computes ``groups`` (``asked``).

    The last rows of partitions determine only the new rows of a state.
    """
    return state_deltas(state) if isinstance(state.operator, Grouped) or groups == "news" else None


@remembered
def touched_keys(state: StateSchema) -> tuple[Branch, ...]:
    """Return the branches whose outputs are the keys of the groups that change in the window.

    A recursion has no groups, and is always computed whole.
    """
    if isinstance(state.operator, Recursive):
        return ()
    inner, columns, count = inputs(state.operator)
    known = dict(zip(("tau", "t", "t0"), state.window, strict=True))
    branches = changes(inner, columns[:count])
    return tuple(ready(bound(event, known), False, suffix=suffix(state)) for event in branches)


def keys_sql(branches: Sequence[Branch], count: int) -> str:
    """Return SQL for the distinct keys of the branches, in the columns k1, k2 …."""
    names = [f"c{number} AS k{number}" for number in range(1, count + 1)] or [f"TRUE AS {NO_KEY}"]
    texts = [f"SELECT {', '.join(names)} FROM ({branch.sql}) AS b" for branch in branches]
    return f"SELECT DISTINCT * FROM ({' UNION ALL '.join(texts)}) AS keys"


def asked(state: StateSchema, same: Sequence[Access]) -> int | OneOf["whole", "news"]:
    """Return which groups access paths need: all, those that change, or those that look-ups of a key name.

    The number is the place of the key (from 0).
    """
    columns = {path.key.name for path in same if isinstance(path, Lookup)}
    if isinstance(state.operator, Recursive):
        return "whole"
    names = [name for name, _ in key_columns(state)]
    whole = any(isinstance(path, FullScan) or is_due(path) for path in same)
    if whole or len(columns) > 1 or not columns <= set(names):
        return "whole"
    return names.index(columns.pop()) if columns else "news"


def is_due(path: Access) -> bool:
    """Return whether the path reads the rows of a state whose own column reaches a threshold, such as MAX(ts) + 1 hour.

    These rows may have begun before the window, so the new rows of the state do not contain them.
    """
    return isinstance(path, DeltaScan) and path.column not in (STARTS, ENDS)


def keys_view(state: StateSchema) -> str:
    """Return the name of the view with the keys to which the rows of the state are restricted."""
    return f"keys_{state.name}"


def suffix(state: StateSchema) -> str:
    """Return the suffix of the views that the state's input reads."""
    return f"__of_{state.name}"


@dataclass(frozen=True)
class Keys:
    """The keys to which the rows of a state are restricted: their numbers (from 0), types, and which may be NULL."""

    places: tuple[int, ...]
    types: tuple[DataType, ...]
    nullable: tuple[bool, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the relation of keys."""
        return tuple(
            f"k{place + 1}{'_' if null else ''}" for place, null in zip(self.places, self.nullable, strict=True)
        )


def state_rows(state: StateSchema, keys: Keys | None) -> StateRows:
    """Return how the state's rows are computed, restricted to the keys in ``keys_view`` if ``keys`` is given."""
    inner, columns, _ = inputs(state.operator)
    rows = lives(inner, columns, None if keys is None or not keys.places else restricted(state, keys, columns))
    return StateRows(state, tuple(rows), lives_paths(rows), columns_of(rows), states_of(rows))


def restricted(state: StateSchema, keys: Keys, columns: Sequence[Output]) -> tuple[Scan, Sequence[Scalar]]:
    """Return the scan of the relation of keys, and those columns of ``inputs`` that the keys restrict."""
    named = [Column(n, name, kind) for n, (name, kind) in enumerate(zip(keys.columns, keys.types, strict=True), 1)]
    instant = Column(len(named) + 1, "_at", TIMESTAMP)
    schema = TableSchema(-2, keys_view(state), (*named, instant), "_at", None, "state")
    return Scan(schema, KEYS), [columns[place].value for place in keys.places]


def changed_sql(plan: StateRows, dialect: Dialect) -> str:
    """Return the SQL of those rows of a state that begin or end in the window."""
    tau = render.scalar(plan.state.window[0])
    return f"SELECT * FROM ({plan.sql(dialect)}) AS rows_ WHERE {STARTS} >= {tau} OR {ENDS} IS NOT NULL"


def scalars_of(rows: Iterable[Lives]) -> Iterator[Scalar]:
    """Yield the scalars that the lives compute."""
    for life in with_bodies(rows):
        yield from (*life.conditions, *life.starts, *life.ends, *(output.value for output in life.outputs))


Reads: TypeAlias = Iterator[tuple[Iterable[Access], Mapping[str, set[str]]]]
"""Access paths, and the columns that they read, by table."""


def reads_of_keys(state: StateSchema) -> Reads:
    """Yield the access paths and the columns by table with which a tick finds touched groups and looks groups up."""
    yield from _reads_of_changes(state)
    count = len(key_columns(state))
    for place in range(count) if count > 1 else ():
        yield _reads_of_groups(state, (place,))
    found = state_deltas(state)
    if found is not None:
        yield found.paths, found.columns
        for below in filter(is_partitioned, found.reads):
            yield from _reads_of_changes(below)


def _reads_of_changes(state: StateSchema) -> Reads:
    """Yield what a tick reads to compute the groups that change."""
    if key_columns(state):
        yield _reads_of_groups(state, range(len(key_columns(state))))
    for branch in touched_keys(state):
        yield branch.paths.values(), columns_read((branch,))


def _reads_of_groups(state: StateSchema, places: Sequence[int]) -> tuple[Iterable[Access], Mapping[str, set[str]]]:
    kinds = [kind for _, kind in key_columns(state)]
    rows = state_rows(state, Keys(tuple(places), tuple(kinds[place] for place in places), (False,) * len(places)))
    return rows.paths.values(), rows.columns


@dataclass(frozen=True)
class StateDeltas:
    """The SQL of the exact deltas of a state's input, and how it is read."""

    sql: str
    paths: tuple[Access, ...]
    columns: Mapping[str, set[str]]
    reads: tuple[StateSchema, ...]


@remembered
def state_deltas(state: StateSchema) -> StateDeltas | None:
    """Return the SQL of the exact deltas of the state's input in its window.

    Return None if neither running totals nor the last rows of partitions (``last_rows``) determine the state: a measure
    is not exact, the input has subqueries or tables whose rows end, or a row leaves a MIN, a MAX or a partition.
    """
    operator = state.operator
    if not looks_few_back(state) and not (isinstance(operator, Grouped) and all(map(_adds_up, operator.measures))):
        return None
    if not all(scan.table.append_only and scan.table.source == "table" for scan in base_scans(state)):
        return None
    rows = with_states(state, *inputs(operator))
    found = deltas(rows)
    lasting = not isinstance(operator, Grouped) or any(map(_is_extreme, operator.measures))
    if found is None or (lasting and not is_settled(operator, rows)):
        return None
    if not all(map(_is_looked_up, filter(is_partitioned, states_of(rows)))):
        return None
    lives_ = [bound_life(delta.life, state.window) for delta in found]
    bound_ = [replace(delta, life=life) for delta, life in zip(found, lives_, strict=True)]
    paths = [delta_paths(delta) for delta in bound_]
    views = [{alias: path.view + suffix(state) for alias, path in each.items()} for each in paths]
    text = deltas_sql(state, list(zip(bound_, views, strict=True)))
    every = tuple(path for each in paths for path in each.values())
    return StateDeltas(text, every, columns_of(lives_), states_of(lives_))


def is_partitioned(state: StateSchema) -> bool:
    """Return whether the state has the rows of a block with subqueries (``exact.with_states``)."""
    operator = state.operator
    return isinstance(operator, Project) and bool(compared_columns(condition(operator.input)))


def _is_looked_up(state: StateSchema) -> bool:
    """Return whether a tick computes the state from new rows and look-ups, without a whole table."""
    return not any(isinstance(path, FullScan) for paths, _ in _reads_of_changes(state) for path in paths)


def _adds_up(measure: Measure) -> bool:
    """Whether running totals give the measure with the same digits in both engines."""
    kind = None if measure.argument is None else measure.argument.type
    match measure.function:
        case "count":
            return not measure.distinct
        case "sum" | "avg":
            return not measure.distinct and kind is not None and _is_exact(kind)
        case "min" | "max":
            return kind is not None and kind.json is None
        case _:
            return False


def _is_extreme(measure: Measure) -> bool:
    return measure.function in ("min", "max")


def _is_exact(kind: DataType) -> bool:
    return kind.name in INTEGRAL or (kind.name == "DECIMAL" and (kind.scale or 0) <= MOST_SCALE)


@remembered
def base_scans(state: StateSchema) -> tuple[Scan, ...]:
    """Return the scans of stored tables below a state."""
    found: list[Scan] = []
    for scan in scans(state.operator):
        found += base_scans(scan.table) if isinstance(scan.table, StateSchema) else (scan,)
    return tuple(found)


def timeless(state: StateSchema) -> StateSchema:
    """Return the state without its window.  Its name identifies the stored totals."""

    def change(part: Node) -> Node:
        if isinstance(part, Scan) and isinstance(part.table, StateSchema):
            return replace(part, table=timeless(part.table))
        return part

    return state_of(transform(state.operator, change), (TICK_START, TICK_END, TIME_START))


def since(state: StateSchema, tau: Scalar) -> StateSchema:
    """Return the state, and the states below it, in the window from ``tau`` on."""
    _, t, t0 = state.window
    return bound_state(timeless(state), {"tau": tau, "t": t, "t0": t0})


def before(state: StateSchema) -> StateSchema:
    """Return the state, without a start of time, up to the start of its window."""
    tau, _, t0 = state.window
    return bound_state(timeless(state), {"tau": BEGINNING, "t": tau, "t0": t0})


def scans_of(rows: Iterable[Lives]) -> list[Scan]:
    """Return the scans of the lives and of their subqueries."""
    return [scan for life in with_bodies(rows) for source in life.sources for scan in scans(source)]


def states_of(rows: Sequence[Lives]) -> tuple[StateSchema, ...]:
    """Return the states that the lives read, each once."""
    return tuple(dict.fromkeys(scan.table for scan in scans_of(rows) if isinstance(scan.table, StateSchema)))


def columns_of(rows: Sequence[Lives]) -> dict[str, set[str]]:
    """Return the columns that the lives read, by table."""
    refs = {ref for value in scalars_of(rows) for ref in mentioned(value)}
    refs |= {ref for life in with_bodies(rows) for source in life.sources for ref in mentioned(source)}
    return columns_of_scans(scans_of(rows), refs)
