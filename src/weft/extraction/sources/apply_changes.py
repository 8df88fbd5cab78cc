"""Dated changes into a tracked table, whichever way they came."""

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
from weft.execution.current_rows_cache import keep, open_now
from weft.execution.history_log import Part, Recorded, log_of, record_together
from weft.execution.home import Home
from weft.instants import LAST_INSTANT, format_instant
from weft.storage.changes import OWN, log_of_keys, log_rows, transaction_instants, unknown
from weft.storage.columns import stored_schema


@dataclass(frozen=True)
class Incoming:
    """Dated changes of one table, given when they are told its open rows (``storage.changes``).

    ``location`` is where they come from.  ``seen`` None: they are not what the table's source has fed; ``digest`` is
    then that of their file.  ``once`` says that none of them can have been recorded before.
    """

    table: TableRecord
    location: str
    changes: Callable[[pa.Table], pa.Table]
    seen: Mapping[str, Any] | None
    digest: str | None = None
    once: bool = False


@dataclass(frozen=True)
class _New:
    """What is new to one table: open rows that were ``there``, how many changes were told, those that are ``new``."""

    incoming: Incoming
    there: pa.Table
    told: int
    new: pa.Table

    def rows(self, given: dict[int | None, int]) -> pa.Table:
        table = self.incoming.table
        return log_rows(log_of_keys(self.there, self.new, table.keys), self.new, given, table.stored, table.keys)

    def late(self, given: Mapping[int | None, int]) -> int:
        owns = set(self.new.column(OWN).to_pylist())
        return sum(1 for own in owns if own is not None and given[own] != own)


def record_changes(
    writer: Writer,
    home: Home,
    table: TableRecord,
    location: str,
    changes: pa.Table,
    clock: int,
    seen: Mapping[str, Any] | None,
    *,
    late_refused: bool = False,
    digest: str | None = None,
) -> tuple[Recorded, int]:
    """Records dated changes of one table; see ``record_feeds``."""
    incoming = Incoming(table, location, lambda _: changes, seen, digest)
    ((done, late, _),) = record_feeds(writer, home, [incoming], clock, late_refused=late_refused)
    return done, late


def record_feeds(
    writer: Writer, home: Home, incoming: Sequence[Incoming], clock: int, *, late_refused: bool = False
) -> list[tuple[Recorded, int, int]]:
    """What of dated changes of several tables was recorded, how many transactions got another instant than their own
    time, and how many rows were open before.  Those of one own time are one transaction in all tables; all are stored,
    or none.

    ``clock`` is the instant of those without an own time, and on a wall home the latest that any gets.  With
    ``late_refused`` nothing is recorded where one would be late: Refused.
    """
    found = [_new(writer, each) for each in incoming]
    coming = [each for each in found if each.new.num_rows]
    if not coming:
        return [(Recorded(0, 0), 0, each.there.num_rows) for each in found]
    latest = clock if home.catalog.home().clock == "wall" else None
    given: dict[int | None, int] = {}

    def rows(each: _New, floor: int) -> pa.Table:
        given.update(transaction_instants([other.new for other in coming], floor, latest, clock))
        if late_refused:
            _refuse_late(given, each.incoming.table.name)
        return each.rows(given)

    at = home.clock()
    parts = [
        Part(
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
        keep(writer, part.table.table_id, each.there, recorded.rows)
        known = each.told - each.new.num_rows
        writer.loads.finish(part.load_id, recorded.began + recorded.ended, known, 0, each.late(given), at)
    nothing = Recorded(0, 0)
    return [(done.get(id(each), nothing), each.late(given), each.there.num_rows) for each in found]


def _recorded(writer: Writer, parts: Sequence[Part], at_least: int) -> Sequence[Recorded]:
    """``record_together``; where it is refused the loads are forgotten that were begun for it."""
    try:
        return record_together(writer, parts, at_least)
    except Refused:
        writer.loads.forget([part.load_id for part in parts])
        raise


def _new(writer: Writer, incoming: Incoming) -> _New:
    table = incoming.table
    there = open_now(writer, table)
    changes = incoming.changes(there)
    if incoming.once:
        return _New(incoming, there, changes.num_rows, changes)
    # What is dated after all that is recorded is not known yet.
    log = stored_schema(table.stored).empty_table()
    if table.last_ts is not None and not _all_after(changes, table.last_ts):
        log = log_of_keys(log_of(writer, table), changes, table.keys)
    return _New(incoming, there, changes.num_rows, unknown(log, changes, table.keys))


def _least(coming: Sequence[_New], latest: int | None, clock: int) -> int:
    """The least instant that a change asks for."""
    owns = {own for each in coming for own in each.new.column(OWN).to_pylist()}
    return min(min(clock if own is None else own for own in owns), LAST_INSTANT if latest is None else latest)


def _all_after(changes: pa.Table, instant: int) -> bool:
    """Whether every change has an own time, and that is later."""
    own = changes.column(OWN)
    return own.null_count == 0 and bool(pc.all(pc.greater(own, instant)).as_py())


def _refuse_late(given: Mapping[int | None, int], name: str) -> None:
    late = [own for own, instant in given.items() if own is not None and instant != own]
    if late:
        raise Refused(
            f"what is dated {format_instant(min(late))} is too early: {name} has a later history, or the home has "
            "gone on to later instants",
            hint="Nothing was recorded. Load what is known of the past before the first poll and the first tick.",
        )
