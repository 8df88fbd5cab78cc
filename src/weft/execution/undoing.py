"""Undo a load, drop a table, or rename a table.

A load can be undone only while no delivered answer can depend on its rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.loads import LoadSummary
from weft.catalog.records import TableRecord
from weft.errors import Conflict
from weft.execution.current_rows_cache import remove_dropped
from weft.execution.home import OpenHome
from weft.failpoint import failpoint
from weft.instants import format_instant
from weft.printable import Brief
from weft.storage.cleaning import clear
from weft.storage.removing import require_own_files
from weft.storage.table import Table
from weft.writing.removals import finish_undoing, remove_quarantined

_OWN: Final = re.compile(r"\d+-\w+")


@dataclass(frozen=True, repr=False)
class Undone(Brief):
    """``load`` is the state of an undone load before the undo. ``again`` has later loads that may have skipped rows
    because of this load.
    """

    load: LoadSummary
    again: tuple[LoadSummary, ...]

    def _brief(self) -> str:
        return f"undone: {self.load._brief()}"


def undo_load(home: OpenHome, load_id: int) -> Undone:
    """Remove the rows and records of a load from its table and from quarantine.

    The table and its columns stay. Raise NotFound, LeaseBusy or StorageError. Raise Conflict in these cases:

    - The load is running, was undone before, or belongs to a tracked table.
    - The rows of the load can no longer be distinguished from others.
    - This home has delivered answers up to an instant after the load's first row.
    """
    with home.writing(f"undo the load {load_id}") as writer:
        load = writer.load_history.one(load_id)
        table = writer.tables.by_id(load.load.table_id)
        _require_open(writer, load, table)
        require_own_files(Table(writer.data / table.path), writer.load_history.commits(load_id))
        later = writer.load_history.latest(table.table_id)
        writer.load_history.begin_undo(load_id)
        failpoint("undo.marked")
        finish_undoing(writer)
        again = (each for each in later if each.load.load_id > load_id and each.load.known and each.state == "done")
        return Undone(load, tuple(again))


def _require_open(writer: Writer, load: LoadSummary, table: TableRecord) -> None:
    load_id, watermark = load.load.load_id, writer.reservations.effective_watermark()
    if load.state == "undone":
        raise Conflict(f"the load {load_id} is already undone", hint="List the loads with `weft loads`.")
    if load.active:
        raise Conflict(f"the load {load_id} is still running", hint="Wait until the load has ended.")
    if table.tracked:
        raise Conflict(
            f"the load {load_id} belongs to {table.name}, a tracked table, and cannot be undone",
            hint="Change the recorded history of a key with `weft source correct`.",
        )
    if table.attached:
        raise Conflict(
            f"the load {load_id} belongs to {table.name}, an attached table, and cannot be undone",
            hint="Another program writes the table: detach the table with `weft table drop`.",
        )
    if load.first_ts is not None and load.first_ts < watermark:
        raise Conflict(
            f"the load {load_id} cannot be undone: this home has delivered answers up to {format_instant(watermark)}, "
            f"and the rows of the load begin at {format_instant(load.first_ts)}",
            hint=(
                "Restore a copy of the home from before the load, or leave the load as it is: delivered answers "
                "cannot be withdrawn."
            ),
        )


def drop_table(home: OpenHome, name: str) -> TableRecord:
    """Drop a table with its rows, its loads, and their records in quarantine. Return the dropped table.

    Raise NotFound or LeaseBusy. Raise Conflict if another object depends on the table.
    """
    with home.writing(f"drop the table {name}") as writer:
        table = writer.tables.named(name)
        digests = writer.table_changes.drop(table.table_id)
        failpoint("table.forgotten")
        remove_quarantined(writer, digests)
        clear_dropped_folders(writer)
        remove_dropped(writer)
        return table


def rename_table(home: OpenHome, old: str, new: str) -> TableRecord:
    """Rename a table and return its new record. Raise NotFound, Refused, Conflict or LeaseBusy."""
    with home.writing(f"rename the table {old}") as writer:
        return writer.table_changes.rename(writer.tables.named(old).table_id, new)


def dropped_folders(catalog: CatalogParts) -> list[str]:
    """Return the folders of dropped tables, relative to the home's data."""
    # List the folders before reading the catalog. If a folder appears later, the catalog already has its table.
    named = [f"{layout.TABLES}/{name}" for name in (catalog.data / layout.TABLES).names() if _OWN.fullmatch(name)]
    known = {table.path for table in catalog.tables.all()}
    return [path for path in named if path not in known]


def clear_dropped_folders(writer: Writer) -> None:
    """Delete the folders of dropped tables."""
    for path in dropped_folders(writer):
        clear(Table(writer.data / path))
