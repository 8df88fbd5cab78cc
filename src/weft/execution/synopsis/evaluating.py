"""Evaluate a synopsis over a batch of states. The value of a subformula is a relation over all time points."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.derivation.synopsis.fixpoints import stepped
from weft.execution.synopsis.batch import EMPTY, State, StateBatch, arrow_type, check, stored_schema, with_dates
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.execution.synopsis.engine import Engine, duckdb_engine
from weft.execution.synopsis.past import PastOperators
from weft.execution.synopsis.relating import Operations
from weft.execution.synopsis.valuing import BatchValues
from weft.execution.synopsis.walking import Walk
from weft.period_sql.notation import listed
from weft.period_sql.past import TIME_POINTS
from weft.period_sql.steps import Extent, spread

__all__ = ["EMPTY", "State", "StateBatch", "evaluate", "evaluate_shared"]


def evaluate(synopsis: Synopsis, state: State, batch: StateBatch) -> tuple[State, pa.Table]:
    """Evaluate a synopsis with one formula over a batch. Return the next state and the answers at each time point.

    The answers have the columns ``tp, c1 … ck [, n]`` and are sorted by all columns. The columns ``c1 … ck`` are the
    free variables of the formula, in order. The count ``n`` is a BIGINT. If the formula has a fixpoint, ``n`` is a
    string of decimal digits. Raise ExecutionError if the batch does not follow the state or if a count exceeds BIGINT.
    Raise DivisionByZero if a test divides by 0.
    """
    after, (answers,) = evaluate_shared(synopsis, state, batch)
    return after, answers


def evaluate_shared(synopsis: Synopsis, state: State, batch: StateBatch) -> tuple[State, tuple[pa.Table, ...]]:
    """Evaluate a synopsis on DuckDB. Return the next state and one table of answers per formula."""
    with duckdb_engine() as engine:
        return evaluate_on(synopsis, state, batch, engine)


def evaluate_on(
    synopsis: Synopsis, state: State, batch: StateBatch, engine: Engine
) -> tuple[State, tuple[pa.Table, ...]]:
    """Evaluate a synopsis on an engine. Return the next state and one table of answers per formula."""
    batch = with_dates(synopsis, batch)
    check(synopsis, state, batch)
    step = _Step(synopsis, state, batch, engine)
    if not batch.points.num_rows:
        return state, tuple(step.no_answers(number) for number in range(len(synopsis.formulas)))
    try:
        return step.taken()
    except DivisionByZero as error:
        raise error.named(synopsis.formulas) from None


@dataclass
class _Step:
    synopsis: Synopsis
    state: State
    batch: StateBatch
    engine: Engine

    def taken(self) -> tuple[State, tuple[pa.Table, ...]]:
        """Return the state after the batch, and the answers of each formula."""
        ats = self.batch.points.column("at")
        first = self.batch.points.column("tp")[0].as_py()
        extent = Extent(first, first + self.batch.points.num_rows)
        earlier = pa.concat_arrays([pa.array([self.state.at], pa.int64()), ats.combine_chunks()])[:-1]
        points = {"tp": self.batch.points.column("tp"), "instant": ats, "earlier": earlier}
        self.engine.register(TIME_POINTS, pa.table(points))
        now = ats[-1].as_py()
        operations = Operations(self.engine, self.synopsis.semantics, extent, now)
        values = BatchValues(
            operations, PastOperators(operations, self.state.relations, self.state.at), self.batch.events
        )
        walk = Walk(self.synopsis, self.state, self.batch.points, values)
        answers = tuple(
            walk.answers(formula, self._schema(number)) if stepped(formula) else self._answers(values, number)
            for number, formula in enumerate(self.synopsis.formulas)
        )
        tables = {
            stored: walk.rows_to_store(stored) if stored.stepped else self._stored_rows(values, stored)
            for stored in self.synopsis.stored
        }
        there = {stored: rows for stored, rows in tables.items() if rows is not None and rows.num_rows}
        return State(extent.last, now, there), answers

    def _answers(self, values: BatchValues, number: int) -> pa.Table:
        value = values.value(self.synopsis.formulas[number])
        if value is None:
            return self.no_answers(number)
        variables = self.synopsis.answers[number]
        names = [f"{value.column(each)} AS c{place}" for place, each in enumerate(variables, 1)]
        count = [f"{value.count()} AS n"] if self.synopsis.semantics != "set" else []
        if count and not value.counted:
            count = ["CAST(1 AS BIGINT) AS n"]
        rows = f"SELECT {listed('tp', names, count)} FROM ({spread(value, TIME_POINTS)}) AS answers"
        order = listed("tp", (f"c{place}" for place in range(1, len(variables) + 1)))
        return self.engine.rows(f"{rows} ORDER BY {order}").cast(self._schema(number))

    def no_answers(self, number: int) -> pa.Table:
        """Return an empty table with the answer columns of the formula with this number."""
        return self._schema(number).empty_table()

    def _schema(self, number: int) -> pa.Schema:
        variables = enumerate(self.synopsis.answers[number], 1)
        columns = [pa.field(f"c{place}", arrow_type(each.type)) for place, each in variables]
        of_any_size = stepped(self.synopsis.formulas[number])
        count = [pa.field("n", pa.string() if of_any_size else pa.int64())] if self.synopsis.semantics != "set" else []
        return pa.schema([pa.field("tp", pa.int64()), *columns, *count])

    def _stored_rows(self, values: BatchValues, stored: Stored) -> pa.Table | None:
        query = values.query_to_store(stored)
        return None if query is None else self.engine.rows(query).cast(stored_schema(stored))
