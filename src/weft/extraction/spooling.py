"""Collect any number of rows in one Arrow table, so that one commit stores all of them or none.

Rows beyond a memory limit are written to a file and memory-mapped.
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
"""The most bytes of rows that are held in memory."""


@contextmanager
def spooled(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of all pieces, which have the columns of ``schema``, as a table that is valid in the context.

    Raise StorageError if the folder for temporary files is full.
    """
    held: list[pa.Table] = []
    size = 0
    rest = iter(pieces)
    for piece in rest:
        held.append(piece)
        size += piece.nbytes
        if size > IN_MEMORY:
            break
    if size <= IN_MEMORY:
        yield pa.concat_tables([schema.empty_table(), *held])
        return
    with tempfile.NamedTemporaryFile(prefix="weft-rows-", suffix=".arrow") as file:
        _write_all(file.name, chain(_drained(held), rest), schema)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def _drained(held: list[pa.Table]) -> Iterator[pa.Table]:
    while held:
        yield held.pop(0)


def _write_all(name: str, pieces: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write the pieces to a file. Errors that the pieces raise are not reported as write errors."""
    with _storage_errors(name):
        sink = pa.OSFile(name, "wb")
        writer = pa.ipc.new_file(sink, schema)
    for piece in pieces:
        with _storage_errors(name):
            _write(writer, piece)
    with _storage_errors(name):
        writer.close()
        sink.close()


def _write(writer: pa.RecordBatchFileWriter, piece: pa.Table) -> None:
    writer.write_table(piece)


@contextmanager
def _storage_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows cannot be written to a temporary file: {error.strerror or error}",
            where=name,
            hint="Nothing was stored. Free some space there, or set TMPDIR to another folder.",
        ) from error
