"""Purge the answers of removed queries from the ledger, without Spark.

A purge removes the rows from the ledger's log before it deletes files. Readers hold a shared lock on the ledger,
because a reader may still use files that the log no longer names.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from weft.catalog import layout
from weft.location import Location
from weft.storage.cleaning import deletable_files, delete
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.removing import Remover, removal_properties, removing

WAIT_FOR_READERS_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Purged:
    """The result of a purge. ``version`` is (path, version, rows) of the new ledger, or None if there is no ledger.

    If ``complete`` is false, a reader prevented the deletion of files, and the purge must run again.
    """

    version: tuple[str, int, int] | None
    complete: bool


def purge(data: Location, query_ids: Collection[int], remover: Remover, at: int) -> Purged:
    """Delete the answers of the queries from the ledger. Old files are deleted only if no process reads the ledger.

    After a crash, another run completes the work. ``remover`` holds the lease, so a suspended compaction cannot restore
    deleted rows. ``at`` is the wall-clock time. Raise LeaseLost if the lease is lost, and StorageError if the ledger
    cannot be read or changed.
    """
    ledger = data / layout.LEDGER
    if not query_ids or not has_commits(ledger):
        return Purged(None, complete=True)
    wanted = ", ".join(str(int(query_id)) for query_id in sorted(query_ids))
    with removing(ledger, remover.token, "answers of removed queries were being taken out") as opened:
        opened.delete(f"query_id IN ({wanted})", commit_properties=removal_properties(remover.token))
    unneeded = replace(deletable_files(ledger, 0, at), log=())  # log files contain no answers
    complete = delete(ledger, unneeded, remover, WAIT_FOR_READERS_SECONDS)
    now = delta_snapshot(ledger, check_files=False)
    return Purged((layout.LEDGER, now.version, now.rows or 0), complete=complete)
