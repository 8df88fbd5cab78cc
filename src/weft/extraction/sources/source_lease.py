"""The tracked tables of sources, held to be written: the lease, and what a poll tells the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord
from weft.errors import Conflict, Refused
from weft.execution.append_rows import settle
from weft.execution.driver_reader import counted
from weft.execution.history_log import Recorded
from weft.execution.home import Home, kept
from weft.printable import Brief
from weft.storage.periods import values_of
from weft.storage.verify import require_undamaged

LEASE_WAIT_US: Final = 120 * 1_000_000
Added = Sequence[tuple[str, DataType]]


@dataclass(frozen=True, repr=False)
class Polled(Brief):
    """What a poll of the source of the tracked table ``name`` found: rows that ``began`` and that ``ended``.

    ``at`` is the instant of the (last) change (µs UTC; None: nothing changed).  ``late`` counts transactions whose own
    time was not open any more.  ``open_rows`` is how many rows the source has now, ``quarantined`` how many lines of
    its feed went to quarantine.
    """

    name: str
    began: int
    ended: int
    open_rows: int
    at: int | None = None
    late: int = 0
    quarantined: int = 0

    def _brief(self) -> str:
        return f"{self.name}: {self.began:,} began, {self.ended:,} ended, {self.open_rows:,} rows now"


@dataclass(frozen=True)
class Accepting:
    """What a poll takes that is refused otherwise: columns that are new, a source that is empty now, and a feed with
    lines that are no changes, which go to quarantine."""

    evolve: bool = False
    empty: bool = False
    bad_lines: bool = False


def refuse_emptied(there: pa.Table, count: int, name: str, where: str, *, empty: bool) -> None:
    """Raises Refused where a source has no rows (of ``count``) though its open ones are ``there``, unless ``empty``."""
    if there.num_rows and not count and not empty:
        raise Refused(
            f"the source of {name} is empty, and had {counted(there.num_rows)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {name} --allow-empty` takes them all as gone.",
        )


def source_schema(table: TableRecord) -> TableSchema:
    """The columns of a tracked table that are its source's."""
    names = values_of(table.stored)
    return replace(table.stored, columns=tuple(each for each in table.stored.columns if each.name in names))


@contextmanager
def polling(home: Home, source: SourceRecord, added: Added = ()) -> Iterator[tuple[Writer, TableRecord]]:
    """The lease, and the source's table with the columns added; see ``polling_together``."""
    with polling_together(home, [source], [added]) as (writer, (table,)):
        yield writer, table


@contextmanager
def polling_together(
    home: Home, sources: Sequence[SourceRecord], added: Sequence[Added]
) -> Iterator[tuple[Writer, list[TableRecord]]]:
    """The lease, and the tables of the sources, each with the columns added; what dead writers left is settled.

    Raises Conflict where one of them was polled or taken away since it was read: what was read of it since may be older
    than what is recorded.
    """
    purpose = f"poll {', '.join(source.name for source in sources)}"
    with home.catalog.writing(purpose, home.clock, wait_us=LEASE_WAIT_US) as writer, kept(writer, home.clock):
        settle(writer)
        require_undamaged(writer)
        tables = [_unchanged(writer, source) for source in sources]
        for number, (table, more) in enumerate(zip(tables, added, strict=True)):
            if more:
                tables[number] = writer.tables.evolve(table.name, more)
        yield writer, tables


def settle_polls(home: Home) -> None:
    """Has what dead polls recorded count as read, before it is read how far each source was."""
    if not home.catalog.sources.unsettled():
        return
    with home.catalog.writing("settle polls", home.clock, wait_us=LEASE_WAIT_US) as writer, kept(writer, home.clock):
        settle(writer)
        for source in writer.sources.all():
            writer.sources.settle(source.table_id)


def _unchanged(writer: Writer, source: SourceRecord) -> TableRecord:
    writer.sources.settle(source.table_id)
    now = writer.sources.named(source.name)
    if (now.table_id, now.polled_at, now.seen) != (source.table_id, source.polled_at, source.seen):
        raise Conflict(f"another process has polled {source.name} meanwhile", hint="Poll it again.")
    return writer.tables.by_id(source.table_id)


def finished(
    writer: Writer,
    home: Home,
    source: SourceRecord,
    done: Recorded,
    open_rows: int,
    seen: Mapping[str, Any],
    late: int,
) -> Polled:
    """Notes that a poll came to its end, and tells what it found."""
    writer.sources.settle(source.table_id)
    writer.sources.polled(source.table_id, home.clock(), open_rows, seen)
    return Polled(source.name, done.began, done.ended, open_rows, done.last, late)
