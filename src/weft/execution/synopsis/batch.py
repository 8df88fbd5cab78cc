"""Define the input of a synopsis (a batch of states) and its state (the relations stored between batches).

The module also computes the events of dated predicates and of time points (``algebra.formula``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.formula import POINTS, VARIABLE_TYPES, undated
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.errors import ExecutionError
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

    ``points`` has one row for each time point, with two BIGINT columns. ``tp`` is consecutive and ascending, and ``at``
    (µs UTC) never decreases. ``events`` maps each predicate to a table with the columns ``tp, c1 … ck``. The order of
    columns and rows is irrelevant, and duplicates are allowed.
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


def stored_schema(stored: Stored) -> pa.Schema:
    """Return the Arrow schema of a stored relation."""
    return pa.schema([pa.field(name, arrow_type(type)) for name, type in stored.columns])


def check(synopsis: Synopsis, state: State, batch: StateBatch) -> None:
    """Raise ExecutionError if the batch does not follow the state or if the events of a predicate lack columns."""
    tps, ats = batch.points.column("tp"), batch.points.column("at")
    rows = batch.points.num_rows
    if not rows:
        return
    first = tps[0].as_py()
    if not tps.equals(pa.chunked_array([pa.array(range(first, first + rows), pa.int64())])):
        raise ExecutionError(
            "the time points of a batch are not consecutive", hint="Number the time points consecutively."
        )
    if state.tp is not None and first != state.tp + 1:
        raise ExecutionError(f"a batch begins at time point {first}, but the previous batch ended at {state.tp}")
    steps = pc.min(pc.pairwise_diff(ats.combine_chunks())).as_py() if rows > 1 else 0
    if steps < 0 or (state.at is not None and ats[0].as_py() < state.at):
        raise ExecutionError(
            "a time point has an earlier time than the previous time point", hint="Order the states by time."
        )
    for predicate, arity in synopsis.predicates:
        rows_of_predicate = batch.events.get(predicate)
        wanted = {"tp", *(f"c{number}" for number in range(1, arity + 1))}
        if rows_of_predicate is not None and not wanted <= set(rows_of_predicate.column_names):
            raise ExecutionError(f"the events of {predicate} do not have the columns {', '.join(sorted(wanted))}")


def with_dates(synopsis: Synopsis, batch: StateBatch) -> StateBatch:
    """Add the events of dated predicates and of time points to a batch."""
    events = dict(batch.events)
    for predicate, arity in synopsis.predicates:
        if predicate == POINTS:
            tp, at = batch.points.column("tp"), batch.points.column("at")
            events[predicate] = pa.table({"tp": tp, "c1": tp, "c2": at})
        elif (plain := undated(predicate)) in events and plain is not None:
            rows = events[plain]
            events[predicate] = rows.append_column(f"c{arity}", rows.column("tp"))
    return StateBatch(batch.points, events)
