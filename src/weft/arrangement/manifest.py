"""Read and write the manifest of an arrangement, and delete arrangements.

The manifest is one file that lists the runs of the arrangement and the covered data files. The file has one line of
JSON and one line with the CRC-32 of the JSON. A new manifest replaces the whole file. Store and size identify a data
file, because Delta never changes a file.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from weft.access import follow_folder
from weft.arrangement.run import ArrangementError, RunRecord, keep_open
from weft.failpoint import failpoint
from weft.storage.compaction import Compaction
from weft.storage.delta_log import DataFile

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
UNFINISHED: Final = "manifest.json.unfinished"


class StateRefused(Exception):
    """Raised if the stored state is damaged or has another format, key, schema or hash."""


@dataclass(frozen=True)
class Manifest:
    """The state of an arrangement. ``files`` maps the location of each covered file to its size in bytes."""

    hash_version: str
    key: tuple[str, ...]
    schema: tuple[tuple[str, str], ...]
    files: Mapping[str, int]
    runs: tuple[RunRecord, ...]

    @property
    def rows(self) -> int:
        """The number of rows in the covered files."""
        return sum(run.rows for run in self.runs)

    def missing(self, files: Sequence[DataFile], moved: Sequence[Compaction]) -> list[DataFile] | None:
        """Return the ``files`` that are not yet covered. Return None if the arrangement must be built again.

        ``moved`` contains the compactions since the last write of the manifest, in log order. If all input files of a
        compaction are covered, its output files count as covered. If any other covered file is missing in ``files``,
        the result is None.
        """
        covered = dict(self.files)
        for compaction in moved:
            removed = sizes(compaction.removed)
            there = [place for place, size in removed.items() if covered.get(place) == size]
            if not there:
                continue
            if len(there) < len(removed):
                return None
            for place in there:
                del covered[place]
            covered.update(sizes(compaction.added))
        new = [file for file in files if covered.get(str(file.location)) != file.size]
        return None if covered.items() - sizes(files).items() else new


def sizes(files: Sequence[DataFile]) -> dict[str, int]:
    """Return the size in bytes of each file, by location."""
    return {str(file.location): file.size for file in files}


def columns_of(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """Return the name and the type of each column as text."""
    return tuple((field.name, str(field.type)) for field in schema)


def manifest_bytes(folder: Path) -> bytes | None:
    """Return the content of the manifest, or None if the file is missing. Raise StateRefused if a read fails."""
    try:
        return (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateRefused(f"the manifest cannot be read: {error.strerror}") from error


def carried_columns(folder: Path) -> tuple[str, ...]:
    """Return the column names of the arrangement in ``folder``, or () if the manifest cannot be read."""
    try:
        raw = manifest_bytes(folder)
        return tuple(name for name, _ in json.loads(raw.rpartition(b"\n")[0])["schema"]) if raw else ()
    except (StateRefused, ValueError, KeyError, TypeError):
        return ()


def parsed(raw: bytes, hash_version: str, key: Sequence[str], schema: pa.Schema) -> Manifest:
    """Parse a manifest. Raise StateRefused if the manifest is damaged or has another format, hash, key or schema."""
    body, _, check = raw.rpartition(b"\n")
    if check != _check(body):
        raise StateRefused("the manifest is damaged")
    content: dict[str, Any] = json.loads(body)
    if content["format"] != FORMAT:
        raise StateRefused(f"the manifest has format {content['format']}, but this version of Weft writes {FORMAT}")
    if content["hash_version"] != hash_version:
        raise StateRefused("the arrangement was sorted with the hash of another version of DuckDB")
    if tuple(content["key"]) != tuple(key):
        raise StateRefused(f"the key is {', '.join(content['key'])}")
    stored = tuple((name, kind) for name, kind in content["schema"])
    if stored != columns_of(schema):
        raise StateRefused("the arrangement has other columns")
    runs = tuple(
        RunRecord(run["name"], run["rows"], run["size"], run["crc"], tuple((a, b) for a, b in run["values"]))
        for run in content["runs"]
    )
    return Manifest(content["hash_version"], tuple(content["key"]), stored, content["files"], runs)


def write_manifest(folder: Path, manifest: Manifest, new: Sequence[RunRecord]) -> bytes:
    """Force the ``new`` runs to disk, replace the manifest, and return its content. Raise OSError if a write fails."""
    for run in new:
        _force(folder / run.name)
    failpoint("arrangement.forced")
    body = json.dumps({"format": FORMAT, **asdict(manifest)}, ensure_ascii=False, separators=(",", ":"))
    raw = body.encode("utf-8", "surrogatepass")
    raw += b"\n" + _check(raw)
    unfinished = folder / UNFINISHED
    with open(unfinished, "wb") as stream:
        stream.write(raw[: len(raw) // 2])
        stream.flush()
        failpoint("arrangement.torn")
        stream.write(raw[len(raw) // 2 :])
        stream.flush()
        os.fsync(stream.fileno())
    follow_folder(unfinished)
    failpoint("arrangement.noted")
    os.replace(unfinished, folder / MANIFEST)
    failpoint("arrangement.renamed")
    _force(folder)
    failpoint("arrangement.committed")
    return raw


def _check(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)


def _force(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Delete the arrangement. The manifest is deleted first, so an interrupted deletion leaves files but no state.

    The caller must hold the home's lease. Raise ArrangementError if a file cannot be deleted.
    """
    keep_open(folder, ())
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
        failpoint("arrangement.forgotten")
        shutil.rmtree(folder)
    except OSError as error:
        raise ArrangementError(f"an arrangement cannot be deleted: {error.strerror}", where=str(folder)) from error
