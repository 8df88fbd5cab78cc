"""What could not be read, kept whole: its bytes in the home, named by their SHA-256, and an index in the catalog."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from weft.catalog import Catalog, layout
from weft.catalog.records import QuarantineRecord
from weft.errors import StorageError
from weft.extraction.records import Rejected
from weft.failpoint import failpoint


def quarantine(
    home: Path,
    catalog: Catalog,
    load_id: int,
    table_id: int,
    rejected: Sequence[Rejected],
    options: dict[str, object],
    at: int,
) -> int:
    """Keeps the records' bytes, then indexes them; how many were not there yet.

    Bytes are on the disk before the index names them.  ``options`` is what a retry needs to read them as this load
    did; ``at`` is µs UTC.
    """
    if not rejected:
        return 0
    folder = layout.quarantine_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    digests = [_keep(folder, record.raw) for record in rejected]
    _sync(folder)
    failpoint("ingest.quarantined")
    new = 0
    for record, sha256 in zip(rejected, digests, strict=True):
        kept = catalog.quarantine.add(
            load_id,
            table_id,
            record.source,
            record.position,
            record.reason,
            sha256,
            len(record.raw),
            json.dumps({**options, "stem": record.stem}, sort_keys=True),
            at,
        )
        new += kept is not None
    return new


def quarantined_bytes(home: Path, record: QuarantineRecord) -> bytes:
    """The record's bytes as they lay in their source; raises StorageError where they are missing or changed."""
    path = layout.quarantine_folder(home) / record.sha256
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} cannot be read: {error.strerror or error}",
            hint="Put the file back from a copy, or load the source again.",
            where=str(path),
        ) from None
    if hashlib.sha256(raw).hexdigest() != record.sha256:
        raise StorageError(
            f"the bytes of quarantined record {record.quarantine_id} are not those that were put there",
            hint="Put the file back from a copy, or load the source again.",
            where=str(path),
        )
    return raw


def _keep(folder: Path, raw: bytes) -> str:
    """Writes the bytes under their digest unless they are there; a cut file of an earlier crash never has that name."""
    sha256 = hashlib.sha256(raw).hexdigest()
    path = folder / sha256
    if path.exists():
        return sha256
    partial = folder / f".{sha256}.{os.getpid()}"
    with partial.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return sha256


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
