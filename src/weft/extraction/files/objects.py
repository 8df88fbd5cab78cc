"""Find the files that a user names in an object store, and copy them to this machine.

A URI names an object, a folder (a prefix), or a pattern of objects, as a local path does.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.errors import NotFound, Refused
from weft.extraction.batches import printable
from weft.extraction.files.probe import InputFile, format_by_name, refuse_delta_table, unreadable
from weft.store import S3Access, Store, local_store, store_of
from weft.store.transfer import transfer, walk

_AT_ONCE: Final = 16
_SCHEME: Final = "s3://"
_HINT: Final = "Name CSV, JSON lines or Parquet files."


def objects(uri: str, access: S3Access) -> list[Store]:
    """Return the objects that a URI names, sorted by name.

    In a folder, only objects with a known suffix are named. Raise Refused for another scheme than ``s3`` and for a
    Delta table. Raise NotFound if there is no object. Raise StorageError if the store cannot be read.
    """
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME):
        raise Refused(f"{printable(uri)} names no files that Weft reads", hint="Name a local path or s3://BUCKET/PATH.")
    root = store_of(f"{_SCHEME}{bucket}", access)
    place = replace(root, path=f"{root.path}/{key.strip('/')}".rstrip("/"))
    try:
        if key and place.filesystem.get_file_info(place.path).is_file:
            return [place]
        return _matching(root, key) if glob.has_magic(key) else _below(place)
    except OSError as error:
        raise root.failure(error) or unreadable(InputFile(Path(), str(place)), error) from None


def _below(folder: Store) -> list[Store]:
    names = sorted(walk(folder))
    refuse_delta_table(printable(str(folder)), any(name.startswith("_delta_log/") for name in names))
    found = [name for name in names if format_by_name(Path(name)) is not None and not _is_hidden(name)]
    if not names:
        raise NotFound(f"no such object or folder: {printable(str(folder))}", hint=_HINT)
    if not found:
        suffixes = "(.csv, .tsv, .jsonl, .ndjson, .json, .parquet, .pq)"
        raise NotFound(f"the folder has no file with a known suffix {suffixes}: {printable(str(folder))}", hint=_HINT)
    return [replace(folder, path=f"{folder.path}/{name}") for name in found]


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _matching(root: Store, key: str) -> list[Store]:
    pattern = key.split("/")
    plain = next(number for number, part in enumerate(pattern) if glob.has_magic(part))
    folder = replace(root, path="/".join([root.path, *pattern[:plain]]))
    found = [name for name in sorted(walk(folder)) if matches(name.split("/"), pattern[plain:])]
    if not found:
        raise NotFound(f"no file matches the pattern: {printable(f'{root}/{key}')}", hint=_HINT)
    return [replace(folder, path=f"{folder.path}/{name}") for name in found]


def matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match the parts of a pattern, by the rules of local patterns.

    >>> [matches(path.split("/"), ["**", "*.csv"]) for path in ("a.csv", "x/y/a.csv", ".x/a.csv", "x/a.json")]
    [True, True, False, False]
    """
    if not path or not pattern:
        return not path and not pattern
    first, rest = pattern[0], pattern[1:]
    if path[0].startswith(".") and not first.startswith("."):
        return False
    if first == "**":
        return (len(path) == 1 and not rest) or matches(path, rest) or matches(path[1:], pattern)
    return fnmatch.fnmatchcase(path[0], first) and matches(path[1:], rest)


def input_object(place: Store, folder: Path) -> InputFile:
    """Return an object as a file to read. ``folder`` is where ``downloaded`` copies it to."""
    name = re.sub(r"[^\w.]", "_", place.name)  # the suffixes tell the format
    return InputFile(folder / name, printable(str(place)), place)


def downloaded(files: Sequence[InputFile]) -> list[InputFile]:
    """Copy the objects among the files to this machine. Each file of the result is a local file.

    Raise StorageError if an object cannot be read, or if a copy differs.
    """

    def local(file: InputFile) -> InputFile:
        if file.place is None:
            return file
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            transfer(file.place, local_store(file.path))
        except OSError as error:
            raise file.place.failure(error) or unreadable(file, error) from None
        return replace(file, place=None)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(local, files))
