"""Answers of removed queries taken out of the ledger, without Spark, and the readers that are waited for.

Taking out is two steps: the ledger's log forgets the rows, then the files that held them go.  Whoever reads the ledger
holds it meanwhile, since it may be reading files that the log has forgotten.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.catalog import layout
from weft.errors import StorageError
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.fence import make_durable

_WAIT_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Purged:
    """The ledger's recorded ``version`` after a purge, (path, version, rows), None where there is no ledger.

    ``complete`` is false while somebody reads: the files are still there, and the purge is to be done again.
    """

    version: tuple[str, int, int] | None
    complete: bool


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Holds a Delta table's files for the block: no purge takes them away meanwhile."""
    with _locked(folder, fcntl.LOCK_SH):
        yield


def purge(home: Path, query_ids: Collection[int]) -> Purged:
    """Takes the queries' answers out, their files' bytes too once nobody reads the ledger any more.

    Run again after a crash it does what is left.  The caller holds the lease: nobody else writes meanwhile.  Raises
    StorageError where the ledger cannot be read or changed.
    """
    folder = layout.ledger_folder(home)
    if not query_ids or not has_commits(folder):
        return Purged(None, complete=True)
    import deltalake
    from deltalake.exceptions import DeltaError

    wanted = ", ".join(str(int(query_id)) for query_id in sorted(query_ids))
    try:
        table = deltalake.DeltaTable(str(folder))
        if table.delete(f"query_id IN ({wanted})").get("num_deleted_rows"):
            make_durable(folder, table.version())
        with _alone(folder) as alone:
            if alone:
                table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    except (DeltaError, OSError) as error:
        raise StorageError(
            f"the answers could not be taken out of the ledger: {error}",
            where=str(folder),
            hint="Nothing else was changed; remove --purge can be run again.",
        ) from error
    now = delta_snapshot(folder, check_files=False)
    return Purged((layout.LEDGER, now.version, now.rows or 0), complete=alone)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether nobody reads the table; for the block nobody begins to, then."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield True
            return
        except BlockingIOError:
            if time.monotonic() > until:
                break
            time.sleep(_POLL_SECONDS)
    yield False


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
