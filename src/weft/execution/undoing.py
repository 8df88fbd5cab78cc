"""A load is undone, and a table dropped, while nothing has been answered from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.load_history import LoadSummary
from weft.catalog.records import TableRecord
from weft.errors import Conflict
from weft.execution.home import Home
from weft.execution.rollback import finish_undoing, remove_quarantined
from weft.failpoint import failpoint
from weft.instants import format_instant
from weft.printable import Brief
from weft.storage.delta_log import forget_log
from weft.storage.taking_back import require_own_files

_OWN: Final = re.compile(r"\d+-\w+")
_PATIENCE_SECONDS: Final = 2.0


@dataclass(frozen=True, repr=False)
class Undone(Brief):
    """A load that was undone, as it was before, and the later loads that may have known some of its rows."""

    load: LoadSummary
    again: tuple[LoadSummary, ...]

    def _brief(self) -> str:
        return f"undone: {self.load._brief()}"


def undo_load(home: Home, load_id: int) -> Undone:
    """Takes out what a load has stored, and what it has put in quarantine; the table stays, and so do its columns.

    Raises NotFound, Conflict for a load that is at work, was undone before, or is not of a table that is loaded into,
    where this home has answered from its rows, and where these cannot be told from others any more; LeaseBusy,
    StorageError.
    """
    with home.writing(f"undo the load {load_id}") as writer:
        told = writer.load_history.one(load_id)
        table = writer.tables.by_id(told.load.table_id)
        _require_open(writer, told, table)
        require_own_files(writer.data / table.path, writer.load_history.commits(load_id))
        later = writer.load_history.latest(table.table_id)
        writer.load_history.begin_undo(load_id)
        failpoint("undo.marked")
        finish_undoing(writer)
        again = (each for each in later if each.load.load_id > load_id and each.load.known and each.state == "done")
        return Undone(told, tuple(again))


def _require_open(writer: Writer, told: LoadSummary, table: TableRecord) -> None:
    load_id, watermark = told.load.load_id, writer.reservations.effective_watermark()
    if told.state == "undone":
        raise Conflict(f"the load {load_id} was undone before", hint="`weft loads` lists them.")
    if told.active:
        raise Conflict(f"the load {load_id} is at work", hint="Wait until it is done.")
    if table.tracked:
        raise Conflict(
            f"the load {load_id} is of {table.name}, a tracked table, which records what its source held",
            hint="`weft source correct` changes what is recorded of a key.",
        )
    if told.first_ts is not None and told.first_ts < watermark:
        raise Conflict(
            f"the load {load_id} cannot be undone: this home has answered up to {format_instant(watermark)}, and its "
            f"rows begin at {format_instant(told.first_ts)}",
            hint="What was answered stays answered. A copy of the home from before can take its place.",
        )


def drop_table(home: Home, name: str) -> TableRecord:
    """Takes a table away with all its rows, its loads, and what of them is in quarantine.

    Raises NotFound, Conflict where something stands on it, LeaseBusy.
    """
    with home.writing(f"drop the table {name}") as writer:
        table = writer.tables.named(name)
        digests = writer.table_changes.drop(table.table_id)
        failpoint("table.forgotten")
        remove_quarantined(writer, digests)
        clear_forgotten(writer)
        return table


def rename_table(home: Home, old: str, new: str) -> TableRecord:
    """Gives a table another name; raises NotFound, Refused, Conflict, LeaseBusy."""
    with home.writing(f"rename the table {old}") as writer:
        return writer.table_changes.rename(writer.tables.named(old).table_id, new)


def forgotten(catalog: CatalogParts) -> list[str]:
    """The folders of tables that the catalog has forgotten, relative to the data."""
    # The folders first: one that is made afterwards belongs to a table that the catalog had before.
    named = [f"{layout.TABLES}/{name}" for name in (catalog.data / layout.TABLES).names() if _OWN.fullmatch(name)]
    known = {table.path for table in catalog.tables.all()}
    return [path for path in named if path not in known]


def clear_forgotten(writer: Writer) -> None:
    """Deletes the folders of tables that the catalog has forgotten, unless somebody is reading them."""
    for path in forgotten(writer):
        place = writer.data / path
        with place.alone(_PATIENCE_SECONDS) as alone:
            if alone:
                place.clear()
                forget_log(place)
