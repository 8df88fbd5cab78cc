"""Copy files from one store to another, and compare the copies with the originals by SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Final

from weft.errors import StorageError
from weft.store.store import Store

_CHUNK_BYTES: Final = 4 << 20


def walk(folder: Store) -> dict[str, int]:
    """Return the size in bytes of each file below the folder, by its path relative to the folder."""
    from pyarrow.fs import FileSelector

    with folder.faults():
        found = folder.filesystem.get_file_info(FileSelector(folder.path, allow_not_found=True, recursive=True))
    return {each.path[len(folder.path) :].lstrip("/"): each.size for each in found if each.is_file}


def transfer(source: Store, target: Store) -> int:
    """Copy a file, and return its size in bytes. Keep a target that has the same bytes.

    The copy is read back: raise StorageError if its bytes differ from those of the original. Raise OSError.
    """
    with source.faults(), target.faults():
        return _transfer(source, target)


def _transfer(source: Store, target: Store) -> int:
    if target.exists() and _digest(target) == (wanted := _digest(source)):
        return wanted[1]
    chunks, hashed, size = _chunks(source), hashlib.sha256(), 0
    first = next(chunks, b"")  # a missing source leaves no target
    target.parent.make()
    with target.filesystem.open_output_stream(target.path, compression=None) as stream:
        for chunk in chain((first,), chunks):
            hashed.update(chunk)
            size += len(chunk)
            stream.write(chunk)
    target.follow()
    target.force()
    if _digest(target) != (hashed.hexdigest(), size):
        raise StorageError(
            f"the copy differs from {source}", where=str(target), hint="Check the disk or the store, and copy again."
        )
    return size


def _digest(file: Store) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    for chunk in _chunks(file):
        hashed.update(chunk)
        size += len(chunk)
    return hashed.hexdigest(), size


def _chunks(file: Store) -> Iterator[bytes]:
    with file.filesystem.open_input_stream(file.path, compression=None) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk
