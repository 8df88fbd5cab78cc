"""Purge the answers of removed queries from the ledger, without Spark.

A purge removes the rows from the ledger at once. The files that contained the rows are deleted after the retention, as
after a compaction, or at once (``delete_now``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from weft.catalog import layout
from weft.location import Location
from weft.storage.cleaning import deletable_files, delete
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.removing import Remover, removal_properties, removing


def purge(data: Location, query_ids: Collection[int], token: int) -> tuple[str, int, int] | None:
    """Remove the answers of the queries. Return (path, version, rows) of the new ledger, or None without a ledger.

    After a crash, another run completes the work. ``token`` is the token of the caller's lease, so a suspended
    compaction cannot restore purged rows. Raise LeaseLost if the lease is lost, and StorageError if the ledger cannot
    be read or changed.
    """
    ledger = data / layout.LEDGER
    if not query_ids or not has_commits(ledger):
        return None
    wanted = ", ".join(str(int(query_id)) for query_id in sorted(query_ids))
    with removing(ledger, token, "answers of removed queries were being taken out") as opened:
        opened.delete(f"query_id IN ({wanted})", commit_properties=removal_properties(token))
    now = delta_snapshot(ledger, check_files=False)
    return layout.LEDGER, now.version, now.rows or 0


def delete_now(data: Location, remover: Remover, at: int) -> None:
    """Delete all files that the ledger no longer needs. ``at`` is the wall-clock time (µs UTC).

    A reader that uses such a file must read again. A running compaction is repeated. Raise LeaseLost or StorageError.
    """
    unneeded = deletable_files(data / layout.LEDGER, 0, at, uncommitted_us=0)
    delete(data / layout.LEDGER, replace(unneeded, log=()), remover)  # log files contain no answers
