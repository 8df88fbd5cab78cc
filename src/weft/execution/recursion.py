"""Compute the rows of a recursion in the window of a tick, round by round (``derivation.recursion``).

DuckDB computes the rounds in this process if the driver's memory holds the rows of all inputs, and if DuckDB computes
each expression as Spark does. Otherwise Spark computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from weft.algebra.relation import Recursive, StateSchema
from weft.algebra.scalar import MICROSECOND, minus
from weft.derivation.recursion import DEPTH, ROUND
from weft.errors import LimitExceeded
from weft.execution.engines import choosing
from weft.execution.engines.duckdb import BeyondBounds, DuckdbEngine, DuckdbFailed, duckdb_engine, duckdb_failures
from weft.execution.engines.spark import SparkEngine
from weft.execution.reader import Reader
from weft.execution.relations import ResultsTable
from weft.execution.temp_views import TempViews
from weft.period_sql.notation import VALID_TIME, Dialect, conjunction, listed, same
from weft.period_sql.sweep import Sweep
from weft.planning.recursion_plan import ContinuedRecursion, Derived, RecursionPlan
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_plan import Keys, keys_view
from weft.planning.state_sql import state_sql
from weft.sql.rendering import render
from weft.storage.columns import conformed, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Read: TypeAlias = Callable[[Sequence[Derived], Mapping[str, pa.Table]], None]
"""Reads the inputs of lives into the engine. The mapping has relations of keys, by the names of their views."""


class TooDeep(LimitExceeded):
    """The error for a recursion with too many rounds."""


class Rounds(Protocol):
    """The part of an engine (``engines.engine``) that stores the rounds."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""

    def table(self, name: str, sql: str) -> bool:
        """Create the table ``name`` from a query. Return False if the table certainly has no rows."""

    def view(self, name: str, sql: str) -> None:
        """Create the view ``name`` from a query."""

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""

    def size(self, name: str) -> int | None:
        """Return the number of rows of a table, or None if it is unknown."""


@dataclass(frozen=True)
class Found:
    """SQL for the rows that a computation derived.

    ``rows`` has the columns of the state. ``last`` has the rows at the end of the window: the columns c1, c2 … and the
    depths.
    """

    rows: str
    last: str


def all_rows(plan: RecursionPlan, views: TempViews, reader: Reader) -> tuple[pa.Table | DataFrame, ...]:
    """Return all rows of the recursion, and its rows at the end of the window with their depths.

    ``views`` has the inputs. Raise TooDeep for too many rounds.
    """
    if views.in_memory and _is_local(plan, views):
        try:
            with duckdb_failures(), duckdb_engine(2, choosing.BOUNDS.steps) as engine:
                give(engine, views)
                return results(engine, plan, fixpoint(engine, plan, reader.deepest))
        except DuckdbFailed:
            pass
    views.register()
    found = fixpoint(SparkEngine(reader.spark, probing=True), plan, reader.deepest)
    return reader.keep(reader.spark.sql(found.rows)), reader.spark.sql(found.last)


def _is_local(plan: RecursionPlan, views: TempViews) -> bool:
    """Whether DuckDB can read all inputs, and gives the values that Spark gives."""
    read = all(not isinstance(rows.relation, ResultsTable) for rows in views.local.values())
    return read and same_in_duckdb(plan.state)


def give(engine: DuckdbEngine, views: TempViews) -> None:
    """Give an engine the relations that the driver's memory holds."""
    for view, rows in views.local.items():
        engine.given(view + views.suffix, rows.table(views.columns))


def results(engine: DuckdbEngine, plan: RecursionPlan, found: Found) -> tuple[pa.Table, pa.Table]:
    """Return the rows of ``found.rows`` and of ``found.last``."""
    rows = conformed(engine.rows(found.rows), stored_schema(plan.state))
    return rows, conformed(engine.rows(found.last), last_schema(plan.state))


def last_schema(state: StateSchema) -> pa.Schema:
    """Return the columns of the rows at the end of a window."""
    fields = list(stored_schema(state))[:-2]
    named = [pa.field(f"c{number}", field.type) for number, field in enumerate(fields, 1)]
    return pa.schema([*named, pa.field(DEPTH, pa.int32())])


def continued(engine: Rounds, plan: ContinuedRecursion, deepest: int, read: Read) -> Found:
    """Compute the rounds that continue the rows in the table ``plan.stored``, and return SQL for the derived rows.

    The table ``plan.touched`` then has the stored rows that are no longer valid. Raise TooDeep as ``fixpoint`` does,
    also if only a stored depth is too great. Raise BeyondBounds if it costs less to derive all rows again.
    """
    keys = _touched(engine, plan, read)
    named = touched_keys(plan, keys)
    # Both look tables up by the same names, so they are read together.
    parts = (*plan.first, *plan.again(named)) if keys.num_rows else plan.first
    read(parts, {keys_view(plan.state): keys.rename_columns(list(named.columns))})
    texts = [plan.first_sql(engine.dialect)]
    if keys.num_rows:
        texts.append(plan.again_sql(named, engine.dialect))
    first, depths = f"first_{plan.last_round}", list[int]()
    if any(texts) and engine.table(first, "\nUNION ALL ".join(filter(None, texts))):
        depths = engine.rows(f"SELECT DISTINCT {DEPTH} FROM {first}").column(0).to_pylist()
    columns = listed(VALID_TIME.columns(plan.width), VALID_TIME.period)
    entering = {depth: f"SELECT {columns} FROM {first} WHERE {DEPTH} = {depth}" for depth in depths}

    def read_step(last: str) -> None:
        rows = engine.rows(f"SELECT {listed(VALID_TIME.columns(plan.width), DEPTH)} FROM {last}")
        read(plan.steps, {ROUND: rows})

    return fixpoint(engine, plan, deepest, entering, read_step)


def _touched(engine: Rounds, plan: ContinuedRecursion, read: Read) -> pa.Table:
    """Create the tables of touched and of kept rows.

    Return the touched rows, and other rows that the same changes touch, without depths and each once.
    """
    heads, met = VALID_TIME.columns(plan.width), conjunction(same(VALID_TIME.columns(plan.width), "s", "o"))
    engine.view(plan.touched, f"SELECT * FROM {plan.stored} WHERE FALSE")
    given, tables, found = f"given_{plan.touched}", list[str](), ""
    if plan.touching:
        read(plan.touching, {})
        found = f"SELECT DISTINCT {listed(heads)} FROM ({plan.touching_sql(engine.dialect)}) AS o"
        found = f"SELECT * FROM {given}" if engine.table(given, found) else ""
    keys = [text for text in (found, f"SELECT {listed(heads)} FROM {plan.touched}") if text]
    while found:
        tables.append(f"touched{len(tables)}{plan.last_round}")
        news = f"SELECT s.* FROM {plan.stored} AS s SEMI JOIN ({found}) AS o ON {met}"
        if not engine.table(tables[-1], f"SELECT s.* FROM ({news}) AS s ANTI JOIN {plan.touched} AS o ON {met}"):
            break
        _require_few(sum(engine.size(each) or 0 for each in tables), engine.size(plan.stored))
        engine.view(plan.touched, " UNION ALL ".join(f"SELECT * FROM {each}" for each in tables))
        engine.view(plan.last_round, f"SELECT * FROM {tables[-1]}")
        if plan.steps:
            read(plan.steps, {ROUND: engine.rows(f"SELECT {listed(heads, DEPTH)} FROM {tables[-1]}")})
        found = plan.next_sql(engine.dialect)
    if tables:
        engine.table(plan.kept, f"SELECT s.* FROM {plan.stored} AS s ANTI JOIN {plan.touched} AS o ON {met}")
    else:
        engine.view(plan.kept, f"SELECT * FROM {plan.stored}")
    return engine.rows(" UNION ".join(keys))


def _require_few(touched: int, stored: int | None) -> None:
    bounds = choosing.BOUNDS
    if stored is not None and touched > max(bounds.touched, stored / bounds.kept):
        raise BeyondBounds(f"{touched:,} of {stored:,} stored rows are touched")


def touched_keys(plan: ContinuedRecursion, rows: pa.Table) -> Keys:
    """Return the description of touched rows as keys."""
    columns = plan.state.columns[: plan.width]
    null = tuple(bool(column.null_count) for column in rows.columns)
    return Keys(tuple(range(plan.width)), tuple(column.type for column in columns), null)


def with_periods(plan: RecursionPlan, rows: str) -> str:
    """Return SQL for stored rows with the periods that they have in the window of the plan."""
    start, end = VALID_TIME.period
    before = f"CAST({render.scalar(minus(plan.state.window[0], MICROSECOND))} AS TIMESTAMP) AS {start}"
    never = f"CAST(NULL AS TIMESTAMP) AS {end}"
    return f"SELECT {listed(VALID_TIME.columns(plan.width), before, never, DEPTH)} FROM {rows}"


def fixpoint(
    engine: Rounds,
    plan: RecursionPlan,
    deepest: int,
    entering: Mapping[int, str] | None = None,
    read: Callable[[str], None] = lambda _: None,
) -> Found:
    """Compute the rounds as tables of the engine, and return SQL for the rows that they derive.

    The number of a round is the depth of its rows. ``entering`` maps the depths to SQL for the rows that do not follow
    from the round before. By default, these are the first rows, at depth 0. ``read`` reads the inputs of the step for
    the rows of a round, in the table of the given name.

    A row that follows from the first rows by at most ``deepest`` steps is in the recursion. Raise TooDeep if there are
    further rows.
    """
    rounds = _Rounds(engine, plan)
    pending = dict(entering if entering is not None else {0: plan.first_sql(engine.dialect)})
    depth, following = 0, ""
    while following or pending:
        depth = depth if following else min(pending)
        texts = [text for text in (following, pending.pop(depth, "")) if text]
        some = rounds.add(depth, "\nUNION ALL ".join(texts))
        if some and depth > deepest:
            raise _too_deep(plan.operator, deepest)
        following = ""
        if some and plan.steps:
            read(rounds.tables[-1])
            following = plan.next_sql(engine.dialect)
        depth += 1
    return rounds.found()


class _Rounds:
    """The rounds of a computation, each in a table of the engine."""

    def __init__(self, engine: Rounds, plan: RecursionPlan) -> None:
        self.engine, self.plan = engine, plan
        self.width, self.tables = plan.width, list[str]()
        self.columns = listed(VALID_TIME.columns(self.width), VALID_TIME.period)
        self.derived = f"derived{plan.last_round}"
        if isinstance(plan, ContinuedRecursion):
            engine.view(self.derived, f"SELECT * FROM {plan.stored} WHERE FALSE")

    def add(self, depth: int, text: str) -> bool:
        """Add a round, and return False if it certainly has no rows.

        With UNION, a round has only the rows that are neither kept nor in an earlier round.
        """
        plan, sweep = self.plan, Sweep(VALID_TIME, self.engine.dialect)
        if not plan.operator.duplicates:
            text = sweep.coalesced(text, self.width)
            if isinstance(plan, ContinuedRecursion):  # a kept row has no end
                met = conjunction(same(VALID_TIME.columns(self.width), "g", "o"))
                text = f"SELECT g.* FROM {self._once('coalesced', text)} AS g ANTI JOIN {plan.kept} AS o ON {met}"
            if self.tables:
                text = sweep.subtracted(self._once("candidates", text), self.derived, self.width)
        name = f"found{depth}{plan.last_round}"
        some = self.engine.table(name, f"SELECT {self.columns}, {depth} AS {DEPTH} FROM ({text}) AS found")
        self.tables.append(name)
        self.engine.view(plan.last_round, f"SELECT * FROM {name}")
        self.engine.view(self.derived, " UNION ALL ".join(f"SELECT * FROM {each}" for each in self.tables))
        return some

    def found(self) -> Found:
        """Return SQL for the rows of all rounds."""
        heads = listed(VALID_TIME.columns(self.width), DEPTH)
        rows = state_sql(self.plan.state, f"SELECT * FROM {self.derived}", self.engine.dialect)
        return Found(rows, f"SELECT {heads} FROM {self.derived} WHERE {VALID_TIME.end} IS NULL")

    def _once(self, name: str, text: str) -> str:
        """Return a name or a query in parentheses for the rows of ``text``, which the engine computes once."""
        if not self.engine.dialect.materialized:
            return f"({text})"
        name += self.plan.last_round
        self.engine.table(name, text)
        return name


def _too_deep(operator: Recursive, deepest: int) -> TooDeep:
    hint = "Raise limits.depth in weft.toml (WEFT_QUERY_DEPTH)."
    if operator.duplicates:
        hint = "If rows lead back to themselves, write UNION instead of UNION ALL. Otherwise, r" + hint[1:]
    return TooDeep(
        f"the recursion {operator.name} has rows that are more than {deepest} steps away from its first rows", hint=hint
    )
