"""What could not be read, kept whole: its bytes in the home, named by their SHA-256, and an index in the catalog."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weft.catalog import Catalog, layout
from weft.catalog.loads import UnreadableRecord
from weft.catalog.records import QuarantineRecord
from weft.errors import StorageError
from weft.extraction.batches import Rejected
from weft.failpoint import failpoint
from weft.location import Location

FEED: Final = "feed"
"""The kind, among the options, of a line of a feed of changes."""


def quarantine(
    catalog: Catalog,
    load_id: int,
    table_id: int,
    rejected: Sequence[Rejected],
    options: Callable[[Rejected], Mapping[str, object]],
    at: int,
) -> int:
    """Keeps the records' bytes, then indexes them; how many were not there yet.

    Bytes are on the disk before the index names them.  ``options`` tells of each what a retry needs to read it as this
    load did; ``at`` is µs UTC.
    """
    if not rejected:
        return 0
    folder = catalog.data / layout.QUARANTINE
    digests = [hashlib.sha256(record.raw).hexdigest() for record in rejected]
    found = (
        UnreadableRecord(
            record.source,
            record.position,
            record.reason,
            sha256,
            len(record.raw),
            json.dumps({**options(record), "stem": record.stem}, sort_keys=True),
        )
        for record, sha256 in zip(rejected, digests, strict=True)
    )
    folder.make_and_force()
    folder.remove_drafts()  # put_all cannot: the folder is held around it
    with folder.shared():  # nobody deletes the bytes before the index names them
        folder.put_all({sha256: record.raw for sha256, record in zip(digests, rejected, strict=True)})
        folder.force()
        failpoint("ingest.quarantined")
        return catalog.quarantine.add(load_id, table_id, found, at)


def quarantined_bytes(data: Location, record: QuarantineRecord) -> bytes:
    """The record's bytes as they lay in their source; raises StorageError where they are missing or changed."""
    place = data / layout.QUARANTINE / record.sha256
    try:
        raw = place.read()
    except OSError as error:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} cannot be read: {error.strerror or error}",
            hint="Put the file back from a copy, or load the source again.",
            where=str(place),
        ) from None
    if hashlib.sha256(raw).hexdigest() != record.sha256:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} are not those that were put there",
            hint="Put the file back from a copy, or load the source again.",
            where=str(place),
        )
    return raw
