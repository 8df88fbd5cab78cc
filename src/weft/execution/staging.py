"""Rows that several tables get as one, kept until each of them has its own.

Delta commits one table at a time.  So the rows of all are on the disk, with their instants, before the first commit;
a writer that died in between is followed by one that commits what is missing (``execution.tables.settle``), and no tick
sees one table's part without the others'.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.errors import StorageError
from weft.location import Location


def stage(data: Location, reservation_id: int, rows: pa.Table) -> None:
    """Keeps the rows of a reservation, on the disk; raises StorageError."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows)
    place = _place(data, reservation_id)
    try:
        place.put(sink.getvalue().to_pybytes())
        place.parent.force()
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}") from error


def staged(data: Location, reservation_id: int) -> pa.Table | None:
    """The rows kept of a reservation, None where there are none; raises StorageError."""
    place = _place(data, reservation_id)
    if not place.exists():
        return None
    try:
        return pa.ipc.open_file(pa.BufferReader(place.read())).read_all()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{place} cannot be read: {error}") from error


def unstage(data: Location, reservation_ids: Iterable[int]) -> None:
    """Forgets the rows of reservations that are open no more."""
    for number in reservation_ids:
        place = _place(data, number)
        if place.exists():
            place.remove()


def unstage_all(writer: Writer) -> None:
    """Removes all rows, no reservation being open; raises LeaseLost.

    The lease is checked after the folder was read: rows that a later writer stages are not among those removed.
    """
    folder = writer.data / layout.STAGED
    left = folder.names()
    writer.check()
    for name in left:
        with suppress(FileNotFoundError):
            (folder / name).remove()


def _place(data: Location, reservation_id: int) -> Location:
    return data / f"{layout.STAGED}/{reservation_id}.arrow"
