"""Run a query once at one instant, without installing it (``weft try``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from weft.algebra.schema import DataType
from weft.algebra.sort_key import Key
from weft.catalog import CatalogParts
from weft.execution.backtest import as_standing
from weft.execution.groups import Group, Member, instant
from weft.execution.new_answers import new_answers
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import Limits, ad_hoc, too_many
from weft.execution.tabular import Columns, Tabular, columns_text
from weft.instants import format_instant
from weft.planning.plan import Branch, Plan, at_instant, columns_of
from weft.printable import counted
from weft.storage.values import Value, decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Answer(Tabular):
    """The answer of a query at one instant: distinct, sorted rows.

    ``rows`` has at most ``limit`` rows; ``count`` is the number of all rows. ``at`` is the instant (µs UTC).
    ``session`` returns the home's Spark session.
    """

    columns: tuple[tuple[str, DataType], ...]
    rows: tuple[tuple[Value, ...], ...]
    count: int
    at: int
    session: Callable[[], SparkSession] = field(compare=False)

    def _typed(self) -> Columns:
        return self.columns

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return iter(self.rows)

    def _total(self) -> int:
        return self.count

    def _session(self) -> SparkSession:
        return self.session()

    def _brief(self) -> str:
        shown = "" if len(self.rows) == self.count else f", {len(self.rows):,} of them here"
        return f"{counted(self.count, 'row')}{shown}, as of {format_instant(self.at)}: {columns_text(self.columns)}"


@dataclass(frozen=True)
class _Snapshot(Group):
    """Compute the answers of a query at the instant ``t`` - 1."""

    @cached_property
    def _branches(self) -> tuple[Branch, ...]:
        return at_instant(self.shape.query, instant(self.t - 1))

    def branches(self) -> tuple[Branch, ...]:
        return self._branches


def ask(
    session: Callable[[], SparkSession],
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    plan: Plan,
    s: int,
    limit: int | None,
    order: Sequence[Key] = (),
    *,
    allowed: Limits | None = None,
) -> Answer:
    """Run the query at the instant ``s`` (microseconds UTC) and return its answer.

    NOW equals ``s``. The query reads the rows that are alive at ``s``. If ``limit`` is None, the answer contains all
    rows. The rows are sorted by the keys of ``order``, then by all columns. Spark starts only if it must compute rows.

    Raise ExecutionError if the query cannot run. Raise LimitExceeded, a subclass of ExecutionError, if the query
    exceeds the limits of a tick. Raise StorageError if a table is damaged.
    """
    columns = columns_of(plan.query)
    types = [type_ for _, type_ in columns]
    group = _Snapshot(0, plan.with_numbered_columns, (Member(as_standing(plan), None, s + 1),), s + 1)

    def compute(reader: Reader, within: Limits) -> Answer:
        new = new_answers(reader, [group], most=within.rows, by_duckdb=True)
        if new.count > within.rows:
            raise too_many(new.count, within.rows)
        shown = new.first_rows(types, limit, order).column("row").to_pylist()
        rows = tuple(decode(row, types) for row in shown)
        return Answer(columns, rows, new.count, s, session)

    return ad_hoc(session, catalog, tables, compute, allowed)
