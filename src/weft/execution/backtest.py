"""Compute the answers that a query would have delivered in a past window. Nothing is stored.

The incremental query runs once over the whole window, not once for each tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.algebra.schema import TIMESTAMP, DataType
from weft.catalog import CatalogParts
from weft.catalog.records import FIRST_AT, Parameter, QueryRecord
from weft.execution.groups import Group, Member
from weft.execution.new_answers import NewAnswers, new_answers
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import Limits, ad_hoc, too_many
from weft.execution.tabular import Columns, Tabular, columns_text
from weft.instants import format_instant
from weft.planning.form import stored_form
from weft.planning.plan import Plan, columns_of
from weft.printable import counted
from weft.storage.values import Value, decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS: Final = 60
"""The window is divided into this number of equal intervals, and the answers of each interval are counted."""


@dataclass(frozen=True, repr=False)
class Backtest(Tabular):
    """The answers that a query would have delivered, in ordinal order (``execution.ordering``).

    All instants are microseconds UTC. ``answers`` has the first answers, each with its first instant. ``count`` is the
    number of all answers. The window begins at ``since`` and ends before ``until``. If ``since`` is None, the window
    begins at the start of time. ``counts`` is the number of new answers in each of ``PARTS`` equal intervals between
    ``begin`` and ``until``. If the query has no answer, ``nothing`` explains the reason.
    """

    columns: tuple[tuple[str, DataType], ...]
    answers: tuple[tuple[int, tuple[Value, ...]], ...]
    count: int
    since: int | None
    until: int
    begin: int
    counts: tuple[int, ...]
    session: Callable[[], SparkSession] = field(compare=False)
    nothing: str | None = None

    def _typed(self) -> Columns:
        return ((FIRST_AT, TIMESTAMP), *self.columns)

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return ((at, *values) for at, values in self.answers)

    def _total(self) -> int:
        return self.count

    def _session(self) -> SparkSession:
        return self.session()

    def _brief(self) -> str:
        since = "the start" if self.since is None else format_instant(self.since)
        window = f"from {since} to {format_instant(self.until)}"
        return f"{counted(self.count, 'answer')} {window}: {columns_text(self.columns)}"


@dataclass(frozen=True)
class BacktestWindow:
    """The window [since, until) in microseconds UTC. If ``since`` is None, the window begins at the start of time.

    ``t0`` is the start of time, or None if time has not started.
    """

    since: int | None
    until: int
    t0: int | None


def backtest(
    session: Callable[[], SparkSession],
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    plan: Plan,
    window: BacktestWindow,
    limit: int | None,
    *,
    allowed: Limits | None = None,
) -> Backtest:
    """Return the answers that the query would have delivered in the window. If ``limit`` is None, return all answers.

    Spark starts only if it must compute rows. Raise ExecutionError if the query cannot run. Raise LimitExceeded if the
    query exceeds the limits of a tick. Raise StorageError if a table is damaged.
    """
    member = Member(as_standing(plan, stored_form(plan).parameters), window.since, window.until)
    group = Group(member.query.plan_id, plan.with_numbered_columns, (member,), window.until, window.t0)

    def compute(reader: Reader, within: Limits) -> Backtest:
        new = new_answers(reader, [group], most=within.rows, by_duckdb=True)
        if new.count > within.rows:
            raise too_many(new.count, within.rows)
        return _result(session, new, plan, window, limit)

    return ad_hoc(session, catalog, tables, compute, allowed)


def as_standing(plan: Plan, parameters: tuple[Parameter, ...] = ()) -> QueryRecord:
    """Return a record of a query with the plan, as if the query were installed with the ID 0.

    ``parameters`` are the stored constants of a plan that Weft runs with parameters.
    """
    return QueryRecord(
        query_id=0,
        name="",
        user="",
        sql="",
        plan_id=0,
        parameters=parameters,
        columns=columns_of(plan.query),
        every_us=None,
        from_mode="now" if plan.from_now else "start",
        from_instant=None,
        tau=None,
        next_ordinal=1,
        state="active",
        reason=None,
        installed_at=0,
        next_due=None,
    )


def _result(
    session: Callable[[], SparkSession], new: NewAnswers, plan: Plan, window: BacktestWindow, limit: int | None
) -> Backtest:
    columns = columns_of(plan.query)
    types = [type_ for _, type_ in columns]
    begin = min(window.since if window.since is not None else new.first.get(0, window.until), window.until)
    length = max(1, -(-(window.until - begin) // PARTS))
    by_part = new.by_interval(begin, length)
    shown = new.first_rows(types, limit)
    instants = shown.column("first_at").cast(pa.int64()).to_pylist()
    rows = zip(instants, shown.column("row").to_pylist(), strict=True)
    answers = tuple((at, tuple(decode(row, types))) for at, row in rows)
    counts = tuple(by_part.get(number, 0) for number in range(-(-(window.until - begin) // length)))
    return Backtest(columns, answers, new.count, window.since, window.until, begin, counts, session)
