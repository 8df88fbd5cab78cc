"""Answers of removed queries taken out of the ledger, without Spark, and the readers that are waited for.

Taking out is two steps: the ledger's log forgets the rows, then the files that held them go.  Whoever reads the ledger
holds it meanwhile, since it may be reading files that the log has forgotten.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from weft.catalog import layout
from weft.location import Location
from weft.storage.cleaning import delete, litter
from weft.storage.delta_log import delta_snapshot, has_commits
from weft.storage.removing import Remover, numbered, removing

WAIT_FOR_READERS_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Purged:
    """The ledger's recorded ``version`` after a purge, (path, version, rows), None where there is no ledger.

    ``complete`` is false while somebody reads: the files are still there, and the purge is to be done again.
    """

    version: tuple[str, int, int] | None
    complete: bool


def purge(data: Location, query_ids: Collection[int], remover: Remover, at: int) -> Purged:
    """Takes the queries' answers out, their files' bytes too once nobody reads the ledger any more.

    Run again after a crash it does what is left.  ``remover`` holds the lease: a compaction that was thought dead
    cannot bring anything back.  ``at`` is the wall's instant.  Raises LeaseLost, and StorageError where the ledger
    cannot be read or changed.
    """
    ledger = data / layout.LEDGER
    if not query_ids or not has_commits(ledger):
        return Purged(None, complete=True)
    wanted = ", ".join(str(int(query_id)) for query_id in sorted(query_ids))
    with removing(ledger, remover.token, "answers of removed queries were being taken out") as opened:
        opened.delete(f"query_id IN ({wanted})", commit_properties=numbered(remover.token))
    left = replace(litter(ledger, 0, at), log=())  # the log has no answers
    complete = delete(ledger, left, remover, WAIT_FOR_READERS_SECONDS)
    now = delta_snapshot(ledger, check_files=False)
    return Purged((layout.LEDGER, now.version, now.rows or 0), complete=complete)
