"""Remove rows from the tables of a home: undone loads, purged answers, rows that no query needs.

The catalog marks an undo or a purge first. The process that marked it may die. The next holder of the lease therefore
completes it. Cleaning deletes the removed files later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog import Writer, layout
from weft.catalog.queries import PURGING_NOW
from weft.catalog.records import TableRecord
from weft.configuration import configuration
from weft.failpoint import failpoint
from weft.storage.cleaning import deletable_files, delete
from weft.storage.removing import DISCARDING, remove_commits, remove_rows
from weft.storage.table import Table

if TYPE_CHECKING:
    import pyarrow.compute as pc


def finish_undoing(writer: Writer) -> None:
    """Undo all marked loads: remove their rows from tables and their records from quarantine."""
    for marked in writer.load_history.being_undone():
        table = Table(writer.data / marked.path)
        if table.exists():
            remove_commits(table, marked.versions, writer.lease.token, writer.lease.acquired_at)
        failpoint("undo.written")
        digests = writer.load_history.undone(marked.load_id, _head(table))
        failpoint("undo.recorded")
        remove_quarantined(writer, digests)


def finish_purges(writer: Writer, at: int) -> None:
    """Remove the answers of removed queries from the ledger. Delete their files if the purge was with ``--now``.

    ``at`` is the wall-clock time (µs UTC).
    """
    going = {each.query_id: each for each in writer.queries.purging()}
    if not going:
        return
    import pyarrow.compute as pc

    ledger, ids = Table(writer.data / layout.LEDGER), sorted(going)
    if ledger.exists():
        remove_rows(
            ledger,
            pc.field("query_id").isin(ids),
            lambda file: any(file.may_hold("query_id", key, key) for key in ids),
            writer.lease.token,
            at,
            "answers of removed queries were being purged",
        )
    failpoint("purge.written")
    now = any(each.reason == PURGING_NOW for each in going.values())
    if now:
        delete_unneeded(writer, ledger, 0, at)
    head = _head(ledger)
    writer.queries.purged(ids, None if head is None else (layout.LEDGER, *head), at)
    if now and not _unneeded_files(ledger):
        writer.queries.purged_files_deleted(at)


def discard(writer: Writer, table: TableRecord, gone: pc.Expression, tick_id: int, at: int) -> tuple[int, int] | None:
    """Remove the rows that satisfy ``gone``. Return the new version and row count, or None if there is no table.

    ``tick_id`` is the tick that made the rows unnecessary. Removed files stay on disk for the retention; the next
    discard then deletes them. ``at`` is the wall-clock time (µs UTC). Raise StorageError or LeaseLost.
    """
    stored, also = Table(writer.data / table.path), {DISCARDING: tick_id}
    if not stored.exists():
        return None
    doing = "rows that no query needs were being discarded"
    # The commit is no data change: followers of an append-only table must not see a deletion.
    if remove_rows(stored, gone, lambda _: True, writer.lease.token, at, doing, also=also, news=False):
        failpoint("discard.committed")
        delete_unneeded(writer, stored, configuration(writer.path).retention_us, at)
    return _head(stored)


def delete_unneeded(writer: Writer, table: Table, keep_us: int, at: int) -> None:
    """Delete the data files that were removed from the table at least ``keep_us`` before ``at`` (µs UTC)."""
    if table.exists():
        unneeded = replace(deletable_files(table, keep_us, at), log=())
        delete(table, unneeded, writer.lease.token, writer.check)


def _unneeded_files(table: Table) -> bool:
    """Return whether a file of an unfinished compaction is left, which may contain purged answers."""
    named = {file.name for file in table.files()}
    return any(name.endswith(".parquet") and name not in named for name in table.place.names())


def _head(table: Table) -> tuple[int, int] | None:
    """Return the version and the row count of the table, or None if it does not exist."""
    if not table.exists():
        return None
    now = table.snapshot()
    return now.version, now.rows or 0


def remove_quarantined(writer: Writer, digests: Sequence[str]) -> None:
    """Delete the quarantined contents with these digests, except contents that a record still uses."""
    writer.quarantine.drop_unnamed(digests, (writer.data / layout.QUARANTINE).remove_all)
