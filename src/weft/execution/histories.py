"""Read the periods of a tracked table, optionally filtered by an SQL condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, DataType
from weft.catalog.records import TableRecord
from weft.errors import Refused
from weft.execution.ad_hoc import ask
from weft.execution.history_log import log_of
from weft.execution.home import OpenHome
from weft.execution.spark_runner import Limits
from weft.execution.tabular import Columns, Tabular, columns_text
from weft.instants import MIN_INSTANT, format_instant, from_datetime
from weft.planning.plan import plan
from weft.printable import Brief, counted
from weft.sql.rendering.render import quoted
from weft.storage.periods import known_at, periods, periods_at, values_of
from weft.storage.table import Table
from weft.storage.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Stretch(Brief):
    """A row and the period [begin, end) of the row in the source (µs UTC). The end of an open period is None."""

    values: tuple[Value, ...]
    begin: int
    end: int | None

    def _brief(self) -> str:
        end = "now" if self.end is None else format_instant(self.end)
        return f"{self.values} from {format_instant(self.begin)} to {end}"


@dataclass(frozen=True, repr=False)
class History(Tabular):
    """Periods of the tracked table ``name``, sorted by key, then by time.

    ``count`` is the number of matching periods before the limit. ``columns`` are the columns of the source. The first
    ``keys`` columns form the key. ``at`` is the instant of the query. ``bounds`` are the earliest begin of all recorded
    periods and the latest end, which is None if a period is open (µs UTC). ``bounds`` is None without periods, and with
    an SQL condition or an instant that must be held.
    """

    name: str
    columns: tuple[tuple[str, DataType], ...]
    keys: int
    stretches: tuple[Stretch, ...]
    count: int
    at: int
    session: Callable[[], SparkSession] = field(compare=False)
    bounds: tuple[int, int | None] | None = None

    def _typed(self) -> Columns:
        return (*self.columns, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP))

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return ((*each.values, each.begin, each.end) for each in self.stretches)

    def _total(self) -> int:
        return self.count

    def _session(self) -> SparkSession:
        return self.session()

    def _brief(self) -> str:
        return f"{counted(self.count, 'period')} of {self.name}: {columns_text(self.columns)}"


def history(
    home: OpenHome,
    name: str,
    where: str | None,
    limit: int | None,
    known: int | None = None,
    *,
    held_at: int | None = None,
    allowed: Limits | None = None,
) -> History:
    """Return at most ``limit`` periods that satisfy the SQL condition ``where``.

    If ``limit`` is None, return all matching periods. If ``where`` is None, all periods match. The condition may use
    the table's columns, valid_from, valid_to and NOW(). Spark starts only if ``where`` is given. With ``known`` (µs
    UTC), return the periods that the log recorded up to the instant ``known``. With ``held_at`` (µs UTC), return only
    those that contain this instant. ``allowed`` are the limits of Spark's
    work, by default those of a query in a tick.

    Raise NotFound, SqlError, ExecutionError or StorageError. Raise Refused if the table is not tracked, or if
    ``where`` is given together with ``known`` or ``held_at``.
    """
    table = home.catalog.tables.named(name)
    if table.log is None:
        raise Refused(
            f"the table {table.name!r} is not a tracked table",
            hint="Query the table with `weft try`: its rows have no periods.",
        )
    at = max(_now(home), table.last_ts or MIN_INSTANT)
    ordered = [*table.keys, *(each for each in values_of(table.log) if each not in table.keys)]
    columns = tuple((each.name, each.type) for one in ordered if (each := table.schema.column(one)) is not None)
    bounds = None
    if where is None:
        recorded = _recorded(home, table, known, held_at)
        stretches, count = _stretches(recorded, ordered, len(table.keys), limit), recorded.num_rows
        bounds = _bounds(recorded) if held_at is None else None
    elif not where.strip():
        raise Refused(
            "--where is empty", hint='Write a condition, such as --where "id = 2", or omit --where to get all periods.'
        )
    elif known is None and held_at is None:
        stretches, count = _matching(home, table, ordered, where, limit, at, allowed)
    else:
        raise Refused(
            "--where applies to the whole current history, and cannot be used with --known or an instant",
            hint="Write the instant in the condition: valid_from <= … AND (valid_to IS NULL OR valid_to > …).",
        )
    return History(table.name, columns, len(table.keys), stretches, count, at, home.session, bounds)


def _now(home: OpenHome) -> int:
    record = home.catalog.home()
    if record.clock == "wall":
        return home.clock()
    return home.catalog.views.present(max(record.now or MIN_INSTANT, record.last_ts))


def _recorded(home: OpenHome, table: TableRecord, known: int | None, held_at: int | None) -> pa.Table:
    if held_at is not None:
        assert table.log is not None
        return periods_at(Table(home.catalog.data / table.path).files(), table.stored, held_at, known)
    log = log_of(home.catalog, table)
    return periods(log if known is None else known_at(log, known))


def _bounds(recorded: pa.Table) -> tuple[int, int | None] | None:
    begin, end = (recorded.column(each).cast(pa.int64()) for each in (VALID_FROM, VALID_TO))
    return (pc.min(begin).as_py(), None if end.null_count else pc.max(end).as_py()) if recorded.num_rows else None


def _stretches(found: pa.Table, ordered: Sequence[str], keys: int, limit: int | None) -> tuple[Stretch, ...]:
    by = [(each, "ascending") for each in (*ordered[:keys], VALID_FROM, *ordered[keys:])]
    shown = found.sort_by(by).slice(0, limit)
    ends = (shown.column(each).cast(pa.int64()).to_pylist() for each in (VALID_FROM, VALID_TO))
    rows = zip(*(shown.column(each).to_pylist() for each in ordered), strict=True)
    return tuple(Stretch(*each) for each in zip(rows, *ends, strict=True))


def _matching(
    home: OpenHome,
    table: TableRecord,
    ordered: list[str],
    where: str,
    limit: int | None,
    at: int,
    allowed: Limits | None,
) -> tuple[tuple[Stretch, ...], int]:
    """Treat the table as a table without an end column, because the condition must also apply to ended rows."""
    lasting = replace(table, schema=replace(table.schema, end=None))
    keys, others = ordered[: len(table.keys)], ordered[len(table.keys) :]
    listed = ", ".join(quoted(each) for each in (*keys, VALID_FROM, *others, VALID_TO))
    compiled = plan(f"SELECT {listed} FROM {quoted(table.name)} WHERE (\n{where}\n)", {table.name: lasting.schema})
    answer = ask(home.session, home.catalog, {table.name: lasting}, compiled, at, limit, allowed=allowed)
    place = len(keys)
    return tuple(
        Stretch((*row[:place], *row[place + 1 : -1]), _micros(row[place]) or 0, _micros(row[-1])) for row in answer.rows
    ), answer.count


def _micros(value: Value) -> int | None:
    """An instant beyond the range of Python's datetime is already a number."""
    if value is None or isinstance(value, int):
        return value
    return from_datetime(value)  # type: ignore[arg-type]
