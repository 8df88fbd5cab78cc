"""The second half of undoing a load: its rows are taken out of Delta and of what the catalog counts.

Whoever takes the lease does that for loads that are marked, since who marked them may have died.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from weft.catalog import Writer, layout
from weft.failpoint import failpoint
from weft.storage.taking_back import take_back


def finish_undoing(writer: Writer) -> None:
    """Takes out what the loads that are marked have stored, and what they have put in quarantine."""
    for marked in writer.load_history.half_undone():
        stored = take_back(writer.data / marked.path, marked.versions, writer.lease.token, writer.lease.acquired_at)
        failpoint("undo.written")
        digests = writer.load_history.undone(marked.load_id, stored)
        failpoint("undo.recorded")
        remove_quarantined(writer, digests)


def remove_quarantined(writer: Writer, digests: Iterable[str]) -> None:
    """Deletes bytes in quarantine that no record names any more."""
    for digest in digests:
        with suppress(FileNotFoundError):
            (writer.data / layout.QUARANTINE / digest).remove()
