"""The second half of undoing a load: its rows are taken out of Delta and of what the catalog counts.

Whoever takes the lease does that for loads that are marked, since who marked them may have died.
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
    """Takes out what the loads that are marked have stored, and what they have put in quarantine."""
    for marked in writer.load_history.being_undone():
        stored = roll_back(writer.data / marked.path, marked.versions, writer.lease.token, writer.lease.acquired_at)
        failpoint("undo.written")
        digests = writer.load_history.undone(marked.load_id, stored)
        failpoint("undo.recorded")
        remove_quarantined(writer, digests)


def remove_quarantined(writer: Writer, digests: Sequence[str]) -> None:
    """Deletes bytes in quarantine, by their digests, unless a record names them.

    The index is read while nobody puts records in quarantine: a load takes bytes that are there for its own record.
    Where others put records there for longer than ``_PATIENCE_SECONDS`` the bytes stay.
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
