"""Pass rejected records from a task to the driver: in the result of the task, or in a file if they are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.extraction.batches import RejectedRecord
from weft.store import Store
from weft.store.store import arrow

_GROUP: Final = 8 << 20
"""The bytes of records in a row group, which the driver holds at a time. The last record may pass them."""
_RECORD_BYTES: Final = 200
_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("source", "position", "reason", "stem")] + [("raw", pa.large_binary())]
)


class RejectedFile:
    """Holds rejected records of up to ``most`` bytes. If there are more, it writes all of them into a file."""

    def __init__(self, place: Store, most: int) -> None:
        self._place = place
        self._most = min(most, _GROUP)
        self._held: list[RejectedRecord] = []
        self._size = 0
        self._writer: pq.ParquetWriter | None = None
        self._open = ExitStack()

    def __enter__(self) -> RejectedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, records: Iterable[RejectedRecord]) -> None:
        """Take records. Raise OSError if the file cannot be written."""
        for record in records:
            self._held.append(record)
            self._size += len(record.raw) + _RECORD_BYTES
            if self._size > (self._most if self._writer is None else _GROUP):
                self._write()

    def finished(self) -> tuple[tuple[RejectedRecord, ...], str | None]:
        """Return the records, or the name of the file that has them. Raise OSError as ``add`` does."""
        if self._writer is None:
            return tuple(self._held), None
        if self._held:
            self._write()
        self._open.close()
        return (), self._place.name

    def _write(self) -> None:
        if self._writer is None:
            stream = self._open.enter_context(self._place.filesystem.open_output_stream(self._place.path))
            self._writer = self._open.enter_context(pq.ParquetWriter(stream, _SCHEMA))
        self._writer.write_table(pa.Table.from_pylist([asdict(each) for each in self._held], _SCHEMA))
        self._held, self._size = [], 0


def rejected_in(place: Store) -> Iterator[tuple[RejectedRecord, ...]]:
    """Yield the records of a file that ``RejectedFile`` wrote, a row group at a time."""
    with pq.ParquetFile(**arrow(place)) as file:
        for number in range(file.num_row_groups):
            yield tuple(RejectedRecord(**row) for row in file.read_row_group(number).to_pylist())
