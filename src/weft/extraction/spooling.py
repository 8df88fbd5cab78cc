"""Rows of any number as one Arrow table, so that one commit stores all or none of them.

What is more than a process should hold is written to a file and mapped into memory from there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
        try:
            _write(file.name, held, left, schema)
        except OSError as error:
            raise StorageError(
                f"rows could not be kept until all were read: {error.strerror or error}",
                where=file.name,
                hint="Nothing was stored. Make room there, or name another folder with the variable TMPDIR.",
            ) from error
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def _write(name: str, held: list[pa.Table], left: Iterator[pa.Table], schema: pa.Schema) -> None:
    with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        while held:
            writer.write_table(held.pop(0))
        for piece in left:
            writer.write_table(piece)
