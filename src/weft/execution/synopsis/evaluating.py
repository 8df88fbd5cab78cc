"""Evaluate a synopsis over a batch of states. The value of a subformula is a relation over all time points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from re import IGNORECASE, search

import pyarrow as pa

from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.derivation.synopsis.fixpoints import stepped
from weft.errors import ExecutionError, LimitExceeded
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine
from weft.execution.synopsis.batch import (
    EMPTY,
    EngineBatch,
    EngineState,
    State,
    StateBatch,
    arrow_type,
    in_engine,
    stored_schema,
)
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.execution.synopsis.past import PastOperators
from weft.execution.synopsis.relating import Operations
from weft.execution.synopsis.valuing import BatchValues
from weft.execution.synopsis.walking import Walk
from weft.period_sql.notation import listed
from weft.period_sql.steps import spread

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
    numbers = range(len(synopsis.formulas))
    if not batch.points.num_rows:
        return state, tuple(answer_schema(synopsis, number).empty_table() for number in numbers)
    with evaluation_errors():
        step = stepped_on(engine, synopsis, *in_engine(engine, synopsis, state, batch))
        answers = tuple(step.answer_rows(number) for number in numbers)
        relations = {stored: step.stored_rows(stored) for stored in step.stored}
    there = {stored: rows for stored, rows in relations.items() if rows.num_rows}
    return State(step.batch.extent.last, step.batch.now, there), answers


@contextmanager
def evaluation_errors() -> Iterator[None]:
    """Describe the errors of an engine in the ``with`` block as errors of a batch."""
    try:
        yield
    except (LimitExceeded, DivisionByZero):
        raise
    except ExecutionError as error:
        if not error.message.startswith("the rows cannot be computed: "):
            raise
        message = error.message.partition(": ")[2]
        hint = hint_for(message) or error.hint
        raise ExecutionError(f"a batch of states cannot be evaluated: {message}", hint=hint) from error


def hint_for(message: str) -> str | None:
    """Return a hint for the user about an error message of an engine, or None."""
    if not search("overflow|out of range|failed to cast decimal", message, IGNORECASE):
        return None
    return "A number exceeds BIGINT. Exclude large values, count DISTINCT answers, or use i2f."


def answer_schema(synopsis: Synopsis, number: int) -> pa.Schema:
    """Return the schema of the answers of the formula with this number."""
    variables = enumerate(synopsis.answers[number], 1)
    columns = [pa.field(f"c{place}", arrow_type(each.type)) for place, each in variables]
    of_any_size = stepped(synopsis.formulas[number])
    count = [pa.field("n", pa.string() if of_any_size else pa.int64())] if synopsis.semantics != "set" else []
    return pa.schema([pa.field("tp", pa.int64()), *columns, *count])


@dataclass(frozen=True)
class Step:
    """The result of one step of a synopsis, as queries of an engine.

    ``answers`` has a query for the answers of each formula, with the columns ``tp, c1 … ck [, n]``. ``stored`` has a
    query for the rows of each relation after the batch. A query is None if it has no rows.
    """

    engine: Engine
    synopsis: Synopsis
    batch: EngineBatch
    answers: tuple[str | None, ...]
    stored: Mapping[Stored, str | None]

    def answer_rows(self, number: int) -> pa.Table:
        """Return the answers of the formula with this number, sorted by all columns."""
        schema, query = answer_schema(self.synopsis, number), self.answers[number]
        if query is None:
            return schema.empty_table()
        order = ", ".join(name for name in schema.names if name != "n")
        return self.engine.rows(f"{query} ORDER BY {order}").cast(schema)

    def stored_rows(self, stored: Stored) -> pa.Table:
        """Return the rows of a relation after the batch."""
        schema, query = stored_schema(stored), self.stored[stored]
        return schema.empty_table() if query is None else self.engine.rows(query).cast(schema)


def stepped_on(engine: Engine, synopsis: Synopsis, state: EngineState, batch: EngineBatch) -> Step:
    """Take one step of a synopsis on an engine. Raise DivisionByZero if a test divides by 0."""
    operations = Operations(engine, synopsis.semantics, batch.extent, batch.now)
    values = BatchValues(operations, PastOperators(operations, state.relations, state.at), batch.events)
    walk = Walk(synopsis, state, values)
    try:
        answers = tuple(
            walk.answers(formula, answer_schema(synopsis, number))
            if stepped(formula)
            else _answers(synopsis, values, number)
            for number, formula in enumerate(synopsis.formulas)
        )
        stored = {
            each: walk.rows_to_store(each) if each.stepped else values.query_to_store(each) for each in synopsis.stored
        }
    except DivisionByZero as error:
        raise error.named(synopsis.formulas) from None
    return Step(engine, synopsis, batch, answers, stored)


def _answers(synopsis: Synopsis, values: BatchValues, number: int) -> str | None:
    value = values.value(synopsis.formulas[number])
    if value is None:
        return None
    names = [f"{value.column(each)} AS c{place}" for place, each in enumerate(synopsis.answers[number], 1)]
    count = [f"{value.count()} AS n"] if synopsis.semantics != "set" else []
    if count and not value.counted:
        count = ["CAST(1 AS BIGINT) AS n"]
    return f"SELECT {listed('tp', names, count)} FROM ({spread(value, values.operations.engine.dialect)}) AS answers"
