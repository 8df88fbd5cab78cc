"""Dated changes into a tracked table, whichever way they came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.errors import Refused
from weft.execution.home import Home
from weft.execution.tracking import Recorded, log_of, record
from weft.extraction.sources.present import keep, open_now
from weft.instants import LAST_INSTANT, format_instant
from weft.storage.changes import OWN, instants_of, log_rows, of_keys, unknown
from weft.storage.columns import stored_schema


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
    """What of dated changes was recorded, and how many transactions got another instant than their own time.

    ``clock`` is the instant of those without one, and on a wall home the latest that any gets.  ``seen`` None: they are
    not what the table's source has fed; ``digest`` is then that of their file.  With ``late_refused`` nothing is
    recorded where one would be late: Refused.
    """
    there = open_now(writer, table)
    # What is dated after all that is recorded is not known yet.
    log = stored_schema(table.stored).empty_table()
    if table.last_ts is not None and not _all_after(changes, table.last_ts):
        log = of_keys(log_of(writer, table), changes, table.keys)
    new = unknown(log, changes, table.keys)
    latest = clock if home.catalog.home().clock == "wall" else None
    given: dict[int | None, int] = {}

    def rows(floor: int) -> pa.Table:
        given.update(instants_of(new, floor, latest, clock))
        if late_refused:
            _refuse_late(given, table.name)
        return log_rows(of_keys(there, new, table.keys), new, given, table.stored, table.keys)

    if not new.num_rows:
        return Recorded(0, 0), 0
    at = home.clock()
    least = min(
        min(clock if own is None else own for own in new.column(OWN).to_pylist()),
        LAST_INSTANT if latest is None else latest,
    )
    load_id = writer.loads.begin(table.table_id, location, "changes", digest, at)
    done = record(writer, table, load_id, least, rows, seen)
    keep(writer, table.table_id, there, done.rows)
    late = sum(1 for own, instant in given.items() if own is not None and instant != own)
    writer.loads.finish(load_id, done.began + done.ended, changes.num_rows - new.num_rows, 0, late, at)
    return done, late


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
