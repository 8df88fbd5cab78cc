"""Stage the rows of an append to several tables on disk until all tables have their rows.

Delta commits one table at a time. The rows of all tables are therefore on disk before the first commit. If the writer
dies between two commits, the next writer completes the append (``writing.reserved.settle``). A tick sees either
the rows of all these tables or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.errors import StorageError
from weft.store import Store


def stage(data: Store, reservation_id: int, rows: pa.Table) -> None:
    """Write the rows of a reservation to disk. Raise StorageError."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows)
    place = _place(data, reservation_id)
    try:
        place.put(sink.getvalue().to_pybytes())
        place.parent.force()
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}") from error


def staged(data: Store, reservation_id: int) -> pa.Table | None:
    """Return the staged rows of a reservation, or None if no rows are staged. Raise StorageError."""
    place = _place(data, reservation_id)
    if not place.exists():
        return None
    try:
        return pa.ipc.open_file(pa.BufferReader(place.read())).read_all()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{place} cannot be read: {error}") from error


def unstage(data: Store, reservation_ids: Iterable[int]) -> None:
    """Delete the staged rows of closed reservations."""
    for number in reservation_ids:
        place = _place(data, number)
        if place.exists():
            place.remove()


def unstage_all(writer: Writer) -> None:
    """Delete all staged rows if no reservation is open. Raise LeaseLost.

    The lease is checked after the folder is listed. The rows of a later writer are therefore not deleted.
    """
    folder = writer.data / layout.STAGED
    names = folder.names()
    writer.check()
    for name in names:
        with suppress(FileNotFoundError):
            (folder / name).remove()


def _place(data: Store, reservation_id: int) -> Store:
    return data / f"{layout.STAGED}/{reservation_id}.arrow"
