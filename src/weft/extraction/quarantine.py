"""Store records that could not be read.

The home stores the bytes of a record under their SHA-256. The catalog contains an index of the records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weft.catalog import Catalog, layout
from weft.catalog.loads import UnreadableRecord
from weft.catalog.records import QuarantineRecord
from weft.errors import StorageError
from weft.extraction.batches import RejectedRecord
from weft.failpoint import failpoint
from weft.store import Store

FEED: Final = "feed"
"""The ``kind`` option of a quarantined line of a change feed."""


def quarantine(
    catalog: Catalog,
    load_id: int,
    table_id: int,
    rejected: Sequence[RejectedRecord],
    options: Callable[[RejectedRecord], Mapping[str, object]],
    at: int,
) -> int:
    """Store the bytes of the records, then add the records to the index. Return the number of new records.

    The bytes are durable before the index refers to them. ``options`` computes the options for a retry. ``at`` is in
    µs.
    """
    if not rejected:
        return 0
    folder = catalog.data / layout.QUARANTINE
    digests = [hashlib.sha256(record.raw).hexdigest() for record in rejected]
    entries = (
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

    def write() -> None:
        folder.put_all({sha256: record.raw for sha256, record in zip(digests, rejected, strict=True)})

    def store() -> None:
        write()
        folder.force()
        failpoint("ingest.quarantined")

    write()  # most of the bytes are then there before the transaction, in which other writers wait
    return catalog.quarantine.add(load_id, table_id, entries, at, store)


def quarantined_bytes(data: Store, record: QuarantineRecord) -> bytes:
    """Return the original bytes of a quarantined record. Raises StorageError if the bytes are missing or damaged."""
    place = data / layout.QUARANTINE / record.sha256
    try:
        raw = place.read()
    except OSError as error:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} cannot be read: {error.strerror or error}",
            hint="Restore the file from a backup, or load the source again.",
            where=str(place),
        ) from None
    if hashlib.sha256(raw).hexdigest() != record.sha256:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} do not match their SHA-256",
            hint="Restore the file from a backup, or load the source again.",
            where=str(place),
        )
    return raw
