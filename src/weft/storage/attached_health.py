"""Say which attached tables have stopped, and which versions VACUUM may delete before they are taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.catalog import CatalogParts
from weft.catalog.records import ATTACHED
from weft.errors import WeftError
from weft.instants import format_instant

_NOTICE_US: Final = 24 * 60 * 60 * 1_000_000


def attached_problems(catalog: CatalogParts, at: int) -> Iterator[str]:
    """Yield a problem for each attached table that has stopped, and for each unread version that VACUUM may delete.

    The warning comes a day before the time from which VACUUM may delete a file of the version. ``at`` is the wall-clock
    time (µs UTC).
    """
    for source in catalog.sources.all():
        if source.kind != ATTACHED:
            continue
        if source.trouble is not None:
            yield f"the attached table {source.name} has stopped: {source.trouble}"
            continue
        # Import the readers late, because most homes have no such table.
        from weft.storage.attached_log import first_removal, head_of
        from weft.store import elsewhere

        try:
            place, version = elsewhere(catalog.data, source.location), source.seen.get("version", 0)
            removal = first_removal(place, version)
            until = None if removal is None else removal[0] + head_of(place).table.retention_us
        except WeftError as error:
            yield f"the attached table {source.name} cannot be read: {error.message}"
            continue
        if removal is not None and until is not None and until - _NOTICE_US <= at:
            yield (
                f"version {removal[1]} of the attached table {source.name} is not read yet, and VACUUM may delete its "
                f"files from {format_instant(until)} on: run `weft source poll {source.name}`"
            )
