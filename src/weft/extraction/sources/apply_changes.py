"""Apply dated changes from any kind of feed to tracked tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.errors import Refused
from weft.execution.current_rows_cache import current_rows, update_cache
from weft.execution.history_log import ChangesToRecord, Recorded, log_of, record_together
from weft.execution.home import OpenHome
from weft.instants import LAST_INSTANT, format_instant
from weft.storage.changes import OWN, log_of_keys, log_rows, transaction_instants, unknown
from weft.storage.columns import stored_schema


@dataclass(frozen=True)
class Incoming:
    """Dated changes of one table.

    ``changes`` is a function that returns the changes, given the open rows of the table (``storage.changes``).
    ``location`` is the origin of the changes. ``seen`` is the feed position after the changes. If the changes come from
    a file, ``seen`` is None, and ``digest`` is the digest of the file. If ``once`` is True, the changes are not yet
    recorded.
    """

    table: TableRecord
    location: str
    changes: Callable[[pa.Table], pa.Table]
    seen: Mapping[str, Any] | None
    digest: str | None = None
    once: bool = False


@dataclass(frozen=True)
class _New:
    incoming: Incoming
    there: pa.Table
    count: int
    new: pa.Table

    def rows(self, instants: dict[int | None, int]) -> pa.Table:
        table = self.incoming.table
        return log_rows(log_of_keys(self.there, self.new, table.keys), self.new, instants, table.stored, table.keys)

    def late(self, instants: Mapping[int | None, int]) -> int:
        owns = set(self.new.column(OWN).to_pylist())
        return sum(1 for own in owns if own is not None and instants[own] != own)


def record_changes(
    writer: Writer,
    home: OpenHome,
    table: TableRecord,
    location: str,
    changes: pa.Table,
    clock: int,
    *,
    late_refused: bool = False,
    digest: str | None = None,
) -> tuple[Recorded, int]:
    """Apply dated changes of one table. Return the recorded changes and the number of late transactions.

    See ``record_feeds``.
    """
    incoming = Incoming(table, location, lambda _: changes, None, digest)
    ((done, late, _),) = record_feeds(writer, home, [incoming], clock, late_refused=late_refused)
    return done, late


def record_feeds(
    writer: Writer, home: OpenHome, incoming: Sequence[Incoming], clock: int, *, late_refused: bool = False
) -> list[tuple[Recorded, int, int]]:
    """Apply dated changes of several tables, all or none.

    For each table, return the recorded changes, the number of late transactions, and the previous number of open rows.
    A late transaction is recorded at a later time than its event time.

    Changes with the same event time form one transaction, even in different tables. Changes without an event time get
    the time ``clock``. On a wall-clock home, no change is recorded at a time after ``clock``. If a change would be late
    and ``late_refused`` is True, raise Refused and record nothing.
    """
    fresh = [_new(writer, each) for each in incoming]
    coming = [each for each in fresh if each.new.num_rows]
    if not coming:
        return [(Recorded(0, 0), 0, each.there.num_rows) for each in fresh]
    latest = clock if home.catalog.home().clock == "wall" else None
    instants: dict[int | None, int] = {}

    def rows(each: _New, floor: int) -> pa.Table:
        instants.update(transaction_instants([other.new for other in coming], floor, latest, clock))
        if late_refused:
            _refuse_late(instants, each.incoming.table.name)
        return each.rows(instants)

    at = home.clock()
    parts = [
        ChangesToRecord(
            each.incoming.table,
            writer.loads.begin(
                each.incoming.table.table_id, each.incoming.location, "changes", each.incoming.digest, at
            ),
            partial(rows, each),
            each.incoming.seen,
        )
        for each in coming
    ]
    done = dict(zip(map(id, coming), _recorded(writer, parts, _least(coming, latest, clock)), strict=True))
    for each, part in zip(coming, parts, strict=True):
        recorded = done[id(each)]
        update_cache(writer, part.table.table_id, each.there, recorded.rows)
        known = each.count - each.new.num_rows
        writer.loads.finish(part.load_id, recorded.began + recorded.ended, known, 0, each.late(instants), at)
    nothing = Recorded(0, 0)
    return [(done.get(id(each), nothing), each.late(instants), each.there.num_rows) for each in fresh]


def _recorded(writer: Writer, parts: Sequence[ChangesToRecord], at_least: int) -> Sequence[Recorded]:
    """If ``record_together`` refuses the changes, delete the loads registered for them."""
    try:
        return record_together(writer, parts, at_least)
    except Refused:
        writer.loads.forget([part.load_id for part in parts])
        raise


def _new(writer: Writer, incoming: Incoming) -> _New:
    table = incoming.table
    there = current_rows(writer, table)
    changes = incoming.changes(there)
    if incoming.once:
        return _New(incoming, there, changes.num_rows, changes)
    # Do not read the log: changes after the last recorded time are always new.
    log = stored_schema(table.stored).empty_table()
    if table.last_ts is not None and not _all_after(changes, table.last_ts):
        log = log_of_keys(log_of(writer, table), changes, table.keys)
    return _New(incoming, there, changes.num_rows, unknown(log, changes, table.keys))


def _least(coming: Sequence[_New], latest: int | None, clock: int) -> int:
    """Return the earliest time that any change requests, but at most ``latest``."""
    owns = {own for each in coming for own in each.new.column(OWN).to_pylist()}
    return min(min(clock if own is None else own for own in owns), LAST_INSTANT if latest is None else latest)


def _all_after(changes: pa.Table, instant: int) -> bool:
    own = changes.column(OWN)
    return own.null_count == 0 and bool(pc.all(pc.greater(own, instant)).as_py())


def _refuse_late(instants: Mapping[int | None, int], name: str) -> None:
    late = [own for own, instant in instants.items() if own is not None and instant != own]
    if late:
        raise Refused(
            f"a change dated {format_instant(min(late))} is too early: the history of {name} or the home's "
            "clock is already later",
            hint="Nothing was recorded. Load past changes before the first poll and the first tick.",
        )
