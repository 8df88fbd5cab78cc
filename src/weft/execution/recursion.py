"""Compute the rows of a recursion in the window of a tick, round by round (``derivation.recursion``).

DuckDB computes the rounds in this process if the driver's memory holds the rows of all inputs, and if DuckDB computes
each expression as Spark does. Otherwise Spark computes them.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from weft.algebra.relation import Recursive, StateSchema
from weft.errors import ExecutionError, LimitExceeded
from weft.execution.engines import choosing
from weft.execution.engines.duckdb import BeyondBounds, duckdb_engine
from weft.execution.engines.spark import SparkEngine
from weft.execution.reader import Reader
from weft.execution.relations import ResultsTable
from weft.execution.temp_views import TempViews
from weft.period_sql.notation import VALID_TIME, Dialect, listed
from weft.period_sql.sweep import Sweep
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_plan import RecursionPlan
from weft.planning.state_sql import state_sql
from weft.storage.columns import conformed, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Rounds(Protocol):
    """The part of an engine (``engines.engine``) that stores the rounds."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def table(self, name: str, sql: str) -> bool:
        """Create the table ``name`` from a query. Return False if the table certainly has no rows."""

    def view(self, name: str, sql: str) -> None:
        """Create the view ``name`` from a query."""


def recursive_rows(plan: RecursionPlan, views: TempViews, reader: Reader) -> pa.Table | DataFrame:
    """Return the rows of the recursion. ``views`` has the inputs. Raise LimitExceeded for too many rounds."""
    if views.small and _is_local(plan, views):
        try:
            return _by_duckdb(plan, views, reader.deepest)
        except LimitExceeded:
            raise
        except (BeyondBounds, ExecutionError):
            pass  # Spark computes a result where DuckDB raises an error, such as an overflow
    views.register()
    engine = SparkEngine(reader.spark, probing=True)
    return reader.keep(reader.spark.sql(fixpoint(engine, plan, reader.deepest)))


def _is_local(plan: RecursionPlan, views: TempViews) -> bool:
    """Whether DuckDB can read all inputs, and gives the values that Spark gives."""
    read = all(not isinstance(rows.relation, ResultsTable) for rows in views.local.values())
    return read and same_in_duckdb(plan.state)


def _by_duckdb(plan: RecursionPlan, views: TempViews, deepest: int) -> pa.Table:
    with duckdb_engine(2, choosing.BOUNDS.steps) as engine:
        for view, rows in views.local.items():
            engine.given(view + views.suffix, rows.table(views.columns))
        return conformed(engine.rows(fixpoint(engine, plan, deepest)), stored_schema(plan.state))


def fixpoint(engine: Rounds, plan: RecursionPlan, deepest: int) -> str:
    """Compute the rounds as tables of the engine, and return SQL for the rows of the recursion.

    A row that follows from the first rows by at most ``deepest`` steps is in the recursion. Raise LimitExceeded if
    there are further rows.
    """
    operator, dialect = _operator(plan.state), engine.dialect
    sweep, width = Sweep(VALID_TIME, dialect), len(plan.state.columns) - 2
    every, text, rounds = f"every{plan.last_round}", plan.first(dialect), list[str]()
    columns = listed(VALID_TIME.columns(width), VALID_TIME.period)
    for number in count():
        name = f"found{number}{plan.last_round}"
        if not operator.duplicates:
            text = sweep.coalesced(text, width)
            if rounds:
                text = sweep.subtracted(_once(engine, f"candidates{plan.last_round}", text), every, width)
        if not engine.table(name, f"SELECT {columns} FROM ({text}) AS found"):
            break
        if number > deepest:
            raise _too_deep(operator, deepest)
        rounds.append(name)
        engine.view(plan.last_round, f"SELECT * FROM {name}")
        engine.view(every, " UNION ALL ".join(f"SELECT * FROM {each}" for each in rounds))
        text = plan.next(dialect)
    return state_sql(plan.state, f"SELECT * FROM {every if rounds else name}", dialect)


def _once(engine: Rounds, name: str, text: str) -> str:
    """Return a name or a query in parentheses for the rows of ``text``, which the engine computes once."""
    if not engine.dialect.materialized:
        return f"({text})"
    engine.table(name, text)
    return name


def _operator(state: StateSchema) -> Recursive:
    assert isinstance(state.operator, Recursive), "the state must be a recursion"
    return state.operator


def _too_deep(operator: Recursive, deepest: int) -> LimitExceeded:
    hint = "Raise limits.depth in weft.toml (WEFT_QUERY_DEPTH)."
    if operator.duplicates:
        hint = "If rows lead back to themselves, write UNION instead of UNION ALL. Otherwise, r" + hint[1:]
    return LimitExceeded(
        f"the recursion {operator.name} has rows that are more than {deepest} steps away from its first rows", hint=hint
    )
