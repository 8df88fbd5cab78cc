"""Attach a Delta table that another program writes as a table of the home, without copying its rows."""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import TIMESTAMP, DataType
from weft.catalog.records import ATTACHED, TS
from weft.configuration import configuration, s3_access
from weft.errors import Reasons, Refused, WeftError
from weft.execution.home import OpenHome
from weft.execution.undoing import drop_table
from weft.extraction.batches import Timing
from weft.extraction.sources.attached import take_versions
from weft.extraction.sources.source_lease import Polled
from weft.storage.attached_log import OtherTable, column_of_instants, head_of
from weft.store import S3Store, elsewhere, store_of

EVERY_US: Final = 10 * 60 * 1_000_000
"""How often ``weft run`` takes new versions if no tick does."""


def attach_table(home: OpenHome, name: str, place: str, timing: Timing) -> Polled:
    """Attach the append-only Delta table at ``place`` (a path or an ``s3://`` URI) as the table ``name``.

    ``timing.ts_from`` names the column with the instants of rows. Otherwise, the rows of a version get the time of the
    version. The present rows are taken at once. If they cannot be taken, nothing is attached.

    Raise NotFound if there is no Delta table. Raise Refused with all reasons for a table that Weft cannot read, and
    Conflict if the name is taken. Raise LeaseBusy or StorageError.
    """
    store = elsewhere(home.catalog.data, place)
    if isinstance(store, S3Store):
        store = store_of(place, s3_access(configuration(home.catalog.path)))  # which refuses invalid settings
    if timing.hold:
        raise Refused("--hold is for loads, and an attached table is no load", hint="Omit --hold.")
    table = head_of(store).table
    reasons = Reasons()
    with reasons.part():
        column = column_of_instants(table, timing.ts_from)
    with reasons.part():
        home.catalog.tables.check(name, _columns(table))
    reasons.check()
    options = {"ts_from": column, "late": timing.late, "future_us": timing.future_us}
    with home.writing(f"attach the table {name}") as writer:
        record = writer.tables.create(name, _columns(table), None, timing.ts_from)
        writer.sources.add(record.table_id, ATTACHED, str(store), options, "source", EVERY_US, home.clock())
        source = writer.sources.named(name)
    try:
        return take_versions(home, source)
    except WeftError:
        drop_table(home, name)
        raise


def _columns(table: OtherTable) -> list[tuple[str, DataType]]:
    return [(TS, TIMESTAMP) if name.lower() == TS else (name, kind) for name, kind in table.columns]
