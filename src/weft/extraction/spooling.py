"""Rows of any number as one Arrow table, so that one commit stores all or none of them.

What is more than a process should hold is written to a file and mapped into memory from there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

import pyarrow as pa

from weft.errors import StorageError

IN_MEMORY: Final = 64 << 20
"""Bytes of rows that are held in memory."""


@contextmanager
def spooled(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of all the pieces, which have the columns of ``schema``, for the block.

    Raises StorageError where the folder for temporary files does not take them.
    """
    held: list[pa.Table] = []
    size = 0
    left = iter(pieces)
    for piece in left:
        held.append(piece)
        size += piece.nbytes
        if size > IN_MEMORY:
            break
    if size <= IN_MEMORY:
        yield pa.concat_tables([schema.empty_table(), *held])
        return
    with tempfile.NamedTemporaryFile(prefix="weft-rows-", suffix=".arrow") as file:
        _keep(file.name, chain(_taken(held), left), schema)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def _taken(held: list[pa.Table]) -> Iterator[pa.Table]:
    while held:
        yield held.pop(0)


def _keep(name: str, pieces: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Writes the pieces into a file.  What they themselves raise is not told as a failure to write."""
    with _told(name):
        sink = pa.OSFile(name, "wb")
        writer = pa.ipc.new_file(sink, schema)
    for piece in pieces:
        with _told(name):
            _write(writer, piece)
    with _told(name):
        writer.close()
        sink.close()


def _write(writer: pa.RecordBatchFileWriter, piece: pa.Table) -> None:
    writer.write_table(piece)


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows could not be kept until all were read: {error.strerror or error}",
            where=name,
            hint="Nothing was stored. Make room there, or name another folder with the variable TMPDIR.",
        ) from error
