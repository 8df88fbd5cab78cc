"""Answers of removed queries taken out of the ledger, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from weft.catalog import layout
from weft.errors import StorageError
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.fence import make_durable


def purge(home: Path, query_ids: Collection[int]) -> tuple[str, int, int] | None:
    """Takes the queries' answers out, their files' bytes too; the ledger's (path, version, rows) after it, or None.

    Run again after a crash it does what is left.  The caller holds the lease: nobody else writes meanwhile.  Raises
    StorageError where the ledger cannot be read or changed.
    """
    folder = layout.ledger_folder(home)
    if not query_ids or not has_commits(folder):
        return None
    import deltalake
    from deltalake.exceptions import DeltaError

    wanted = ", ".join(str(int(query_id)) for query_id in sorted(query_ids))
    try:
        table = deltalake.DeltaTable(str(folder))
        if table.delete(f"query_id IN ({wanted})").get("num_deleted_rows"):
            make_durable(folder, table.version())
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    except (DeltaError, OSError) as error:
        raise StorageError(
            f"the answers could not be taken out of the ledger: {error}",
            where=str(folder),
            hint="Nothing else was changed; remove --purge can be run again.",
        ) from error
    now = delta_snapshot(folder, check_files=False)
    return layout.LEDGER, now.version, now.rows or 0
