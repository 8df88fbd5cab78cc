"""Take the lease on the tables of sources, and record the result of a poll in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord
from weft.errors import Conflict, Refused
from weft.execution.driver_reader import count_text
from weft.execution.history_log import Recorded
from weft.execution.home import OpenHome, renewing_lease
from weft.extraction.batches import RejectedRecord
from weft.printable import Brief
from weft.storage.periods import values_of
from weft.storage.verify import require_undamaged
from weft.writing.reserved import settle

LEASE_WAIT_US: Final = 120 * 1_000_000
Added = Sequence[tuple[str, DataType]]


@dataclass(frozen=True, repr=False)
class Polled(Brief):
    """The result of polling the source of the table ``name``.

    - ``began`` and ``ended`` are the numbers of periods that began and ended.
    - ``at`` is the time of the last change in microseconds UTC, or None if nothing changed.
    - ``late`` is the number of transactions recorded later than their event time.
    - ``open_rows`` is the number of rows in the source now.
    - ``quarantined`` is the number of quarantined feed lines or messages.
    - ``appends`` is True for an attached table and for mail. Rows only begin, and ``late`` counts rows.
    """

    name: str
    began: int
    ended: int
    open_rows: int
    at: int | None = None
    late: int = 0
    quarantined: int = 0
    appends: bool = False

    def _brief(self) -> str:
        return f"{self.name}: {self.began:,} began, {self.ended:,} ended, {self.open_rows:,} rows now"


@dataclass(frozen=True)
class Accepting:
    """Conditions that a poll refuses by default.

    ``evolve`` accepts new columns. ``empty`` accepts an empty source. ``bad_lines`` quarantines invalid feed lines.
    """

    evolve: bool = False
    empty: bool = False
    bad_lines: bool = False


def refuse_emptied(there: pa.Table, count: int, name: str, where: str, *, empty: bool) -> None:
    """Raise Refused if a source has become empty, unless ``empty`` is True.

    ``count`` is the number of rows in the source. ``there`` contains the table's open rows.
    """
    if there.num_rows and not count and not empty:
        raise Refused(
            f"the source of {name} is empty, but had {count_text(there.num_rows)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {name} --allow-empty` records all these rows as deleted.",
        )


def source_schema(table: TableRecord) -> TableSchema:
    """Return the stored schema of the table, restricted to the columns that come from the source."""
    names = values_of(table.stored)
    return replace(table.stored, columns=tuple(each for each in table.stored.columns if each.name in names))


@contextmanager
def polling(home: OpenHome, source: SourceRecord, added: Added = ()) -> Iterator[tuple[Writer, TableRecord]]:
    """Take the lease. Yield the writer and the source's table, after adding the columns in ``added``.

    See ``polling_together``.
    """
    with polling_together(home, [source], [added]) as (writer, (table,)):
        yield writer, table


@contextmanager
def polling_together(
    home: OpenHome, sources: Sequence[SourceRecord], added: Sequence[Added]
) -> Iterator[tuple[Writer, list[TableRecord]]]:
    """Take the lease, and settle the work of dead writers. Yield the writer and the tables of the sources.

    ``added`` contains the columns that are first added to each table. Raises Conflict if a source was polled or removed
    after ``sources`` were read, because the rows of this poll may be older than the recorded rows.
    """
    purpose = f"poll {', '.join(source.name for source in sources)}"
    with home.catalog.writing(purpose, home.clock, wait_us=LEASE_WAIT_US) as writer, renewing_lease(writer, home.clock):
        settle(writer)
        require_undamaged(writer)
        tables = [_unchanged(writer, source) for source in sources]
        for number, (table, more) in enumerate(zip(tables, added, strict=True)):
            if more:
                tables[number] = writer.tables.evolve(table.name, more)
        yield writer, tables


def settle_polls(home: OpenHome) -> None:
    """Record the feed positions of polls that were interrupted after they had recorded their changes.

    Call this function before a poll.
    """
    if not home.catalog.sources.unsettled():
        return
    with (
        home.catalog.writing("settle polls", home.clock, wait_us=LEASE_WAIT_US) as writer,
        renewing_lease(writer, home.clock),
    ):
        settle(writer)
        for source in writer.sources.all():
            writer.sources.settle(source.table_id)


def _unchanged(writer: Writer, source: SourceRecord) -> TableRecord:
    writer.sources.settle(source.table_id)
    now = writer.sources.named(source.name)
    if (now.table_id, now.polled_at, now.seen) != (source.table_id, source.polled_at, source.seen):
        raise Conflict(f"another process has polled {source.name} in the meantime", hint="Poll the source again.")
    return writer.tables.by_id(source.table_id)


def finished(
    writer: Writer,
    home: OpenHome,
    source: SourceRecord,
    done: Recorded,
    open_rows: int,
    seen: Mapping[str, Any],
    late: int,
) -> Polled:
    """Record the end of a poll in the catalog, and return the result of the poll."""
    writer.sources.settle(source.table_id)
    writer.sources.polled(source.table_id, home.clock(), open_rows, seen)
    return Polled(source.name, done.began, done.ended, open_rows, done.last, late)


Changes = Callable[[pa.Table], pa.Table]
"""A function that maps the open rows of a table to its changes (``storage.changes``)."""


def _nothing() -> None:
    """Do nothing. Some feeds need no acknowledgement."""


@dataclass(frozen=True)
class TableFeed:
    """The changes of one table, the columns to add (``added``), and the feed position after the changes (``seen``).

    ``seen`` is JSON-able. If ``once`` is True, the changes are not yet recorded. ``rejected`` contains the lines that
    are not changes.
    """

    changes: Changes
    added: tuple[tuple[str, DataType], ...]
    seen: Mapping[str, Any]
    once: bool = False
    rejected: Sequence[RejectedRecord] = ()


@dataclass(frozen=True)
class FeedBatch:
    """The changes of several tables from one feed. The poll calls ``recorded`` after it has recorded all changes."""

    tables: Sequence[TableFeed]
    recorded: Callable[[], None] = _nothing
