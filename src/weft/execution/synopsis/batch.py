"""Define the input of a synopsis (a batch of states) and its state (the relations stored between batches).

Both exist in two forms: as Arrow tables in this process, and as tables of an engine. The module also computes the
events of dated predicates and of time points (``algebra.formula``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weft.algebra.formula import POINTS, VARIABLE_TYPES, undated
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.errors import ExecutionError
from weft.execution.engines.engine import Engine
from weft.period_sql.past import TIME_POINTS
from weft.period_sql.steps import Extent
from weft.storage import columns


def arrow_type(type: DataType) -> pa.DataType:
    """Return the Arrow type for a variable. Raise ExecutionError if formulas do not support ``type``."""
    if type.name not in VARIABLE_TYPES:
        raise ExecutionError(
            f"a formula's variable cannot be of type {type}", hint="Cast the variable to BIGINT, DOUBLE or STRING."
        )
    return columns.arrow_type(type)


@dataclass(frozen=True)
class StateBatch:
    """Consecutive states of a log.

    ``points`` has one row for each time point, with two BIGINT columns. ``tp`` is consecutive, and ``at`` (µs UTC)
    never decreases. ``events`` maps each predicate to a table with the columns ``tp, c1 … ck``. The order of columns
    and rows is irrelevant, and duplicates are allowed.
    """

    points: pa.Table
    events: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The relations that a synopsis stores after a time point.

    ``tp`` is the number of the time point, and ``at`` is its instant. Before the first time point, ``tp`` and ``at``
    are None. ``relations`` may omit empty relations.
    """

    tp: int | None = None
    at: int | None = None
    relations: Mapping[Stored, pa.Table] = field(default_factory=dict)

    @property
    def tuples(self) -> int:
        """The number of stored tuples."""
        return sum(table.num_rows for table in self.relations.values())


EMPTY = State()
"""The state before the first time point."""


@dataclass(frozen=True)
class EngineState:
    """A state whose relations are tables of an engine. ``relations`` has their names, without empty relations."""

    tp: int | None = None
    at: int | None = None
    relations: Mapping[Stored, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineBatch:
    """A batch whose rows are tables of an engine.

    The table ``TIME_POINTS`` has the time points in ``extent``. ``now`` is the instant of the last time point (µs UTC).
    ``events`` has the names of the tables of events by predicate, without empty tables.
    """

    extent: Extent
    now: int
    events: Mapping[str, str]


def stored_schema(stored: Stored) -> pa.Schema:
    """Return the Arrow schema of a stored relation."""
    return pa.schema([pa.field(name, arrow_type(type)) for name, type in stored.columns])


def given_state(engine: Engine, state: State) -> EngineState:
    """Give a state to an engine."""
    relations = {}
    for number, (stored, rows) in enumerate(state.relations.items(), 1):
        if rows.num_rows:
            relations[stored] = f"stored_{number}"
            engine.given(relations[stored], rows)
    return EngineState(state.tp, state.at, relations)


def in_engine(engine: Engine, synopsis: Synopsis, state: State, batch: StateBatch) -> tuple[EngineState, EngineBatch]:
    """Give a state and a batch to an engine. The errors are those of ``prepared``."""
    engine.given("points", batch.points)
    events = {}
    for number, (predicate, arity) in enumerate(synopsis.predicates, 1):
        rows = batch.events.get(predicate)
        if rows is not None and rows.num_rows:
            _require_columns(predicate, arity, rows)
        rows = batch.events.get(undated(predicate) or predicate)
        if rows is not None and rows.num_rows:
            events[undated(predicate) or predicate] = f"events_{number}"
            engine.given(f"events_{number}", rows)
    before = given_state(engine, state)
    return before, prepared(engine, synopsis, before, "points", events)


def _require_columns(predicate: str, arity: int, rows: pa.Table) -> None:
    wanted = {"tp", *(f"c{number}" for number in range(1, arity + 1))}
    if not wanted <= set(rows.column_names):
        raise ExecutionError(f"the events of {predicate} do not have the columns {', '.join(sorted(wanted))}")


def prepared(
    engine: Engine, synopsis: Synopsis, state: EngineState, points: str, events: Mapping[str, str]
) -> EngineBatch:
    """Return the batch of the time points in the table ``points``, which has the columns ``tp`` and ``at``.

    ``events`` has the names of the tables of events by predicate. Raise ExecutionError if the time points are not
    consecutive, do not follow the state, or are not ordered by time.
    """
    before = "CAST(NULL AS BIGINT)" if state.at is None else str(state.at)
    earlier = f"LAG(`at`, 1, {before}) OVER (ORDER BY tp) AS earlier"
    engine.table(TIME_POINTS, f"SELECT tp, `at` AS instant, {earlier} FROM {points}")
    bounds = ("MIN(tp) AS first", "MAX(tp) AS last", "COUNT(DISTINCT tp) AS points", "COUNT(*) AS rows_given")
    times = ("MAX(instant) AS now", "COUNT(CASE WHEN instant < earlier THEN 1 END) AS back")
    (found,) = engine.rows(f"SELECT {', '.join((*bounds, *times))} FROM {TIME_POINTS}").to_pylist()
    first, last = found["first"], found["last"]
    if not last - first + 1 == found["points"] == found["rows_given"]:
        raise ExecutionError(
            "the time points of a batch are not consecutive", hint="Number the time points consecutively."
        )
    if state.tp is not None and first != state.tp + 1:
        raise ExecutionError(f"a batch begins at time point {first}, but the previous batch ended at {state.tp}")
    if found["back"]:
        raise ExecutionError(
            "a time point has an earlier time than the previous time point", hint="Order the states by time."
        )
    return EngineBatch(Extent(first, last + 1), found["now"], _with_dates(engine, synopsis, events))


def _with_dates(engine: Engine, synopsis: Synopsis, events: Mapping[str, str]) -> dict[str, str]:
    """Add the events of dated predicates and of time points."""
    every = dict(events)
    for number, (predicate, arity) in enumerate(synopsis.predicates, 1):
        name, plain = f"dated_{number}", undated(predicate)
        if predicate == POINTS:
            engine.view(name, f"SELECT tp, tp AS c1, instant AS c2 FROM {TIME_POINTS}")
        elif plain in events and plain is not None:
            engine.view(name, f"SELECT *, tp AS c{arity} FROM {events[plain]}")
        else:
            continue
        every[predicate] = name
    return every
