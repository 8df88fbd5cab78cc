"""Complete the undo of a load: remove the load's rows from Delta, and subtract the rows from the catalog's counts.

The process that marked a load for undo may have died. The next holder of the lease therefore completes the undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from weft.catalog import Writer, layout
from weft.failpoint import failpoint
from weft.storage.taking_back import roll_back

_PATIENCE_SECONDS: Final = 30.0


def finish_undoing(writer: Writer) -> None:
    """Undo all marked loads: remove their rows from tables and their records from quarantine."""
    for marked in writer.load_history.being_undone():
        stored = roll_back(writer.data / marked.path, marked.versions, writer.lease.token, writer.lease.acquired_at)
        failpoint("undo.written")
        digests = writer.load_history.undone(marked.load_id, stored)
        failpoint("undo.recorded")
        remove_quarantined(writer, digests)


def remove_quarantined(writer: Writer, digests: Sequence[str]) -> None:
    """Delete the quarantined contents with these digests, except contents that a record still uses.

    The quarantine is locked during the deletion, because a load reuses stored content with the same digest. If the lock
    is not free within ``_PATIENCE_SECONDS``, the content stays.
    """
    folder = writer.data / layout.QUARANTINE
    if not digests or not folder.exists():
        return
    with folder.alone(_PATIENCE_SECONDS) as alone:
        named = writer.quarantine.named(digests)
        for digest in digests if alone else ():
            if digest not in named:
                with suppress(FileNotFoundError):
                    (folder / digest).remove()
