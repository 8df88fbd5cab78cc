"""Buffer the rows of a log by table until the whole log has been read without error.

A log mixes the rows of all predicates, and a load stores the rows of one table. The rows of each table are written to a
temporary Arrow file, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.extraction.batches import MAX_BYTES, MAX_ROWS, Batch, arrow_schema


@dataclass
class LogRows:
    """The rows of one table in the file ``path``. ``rows`` counts them; ``number`` names the column of time point
    numbers.
    """

    path: Path
    columns: Sequence[tuple[str, DataType]]
    number: str
    rows: int = 0
    _values: list[Sequence[object]] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _held: int = 0
    _writer: pa.RecordBatchStreamWriter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return arrow_schema(self.columns)

    def add(self, values: Sequence[object], at: int) -> None:
        """Add a row with the time ``at`` (µs UTC); its time point is numbered from the start of the log."""
        self._values.append(values)
        self._times.append(at)
        self._held += sum(len(each) for each in values if isinstance(each, str))
        if len(self._values) >= MAX_ROWS or self._held >= MAX_BYTES:
            self._write()

    def end(self) -> None:
        """Write the buffered rows and close the file."""
        self._write()
        if self._writer is not None:
            self._writer.close()

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the rows in order, with the log's first time point numbered ``first``."""
        if not self.rows:
            return
        place = self.schema.names.index(self.number)
        with pa.ipc.open_stream(self.path) as stream:
            for each in stream:
                rows = pa.Table.from_batches([each])
                numbers = pc.add(rows.column(place), pa.scalar(first, pa.int64()))
                yield Batch(rows.set_column(place, self.schema.field(place), numbers), (), rows.num_rows)

    def _write(self) -> None:
        if not self._values:
            return
        columns = dict(zip((name for name, _ in self.columns), zip(*self._values, strict=True), strict=True))
        last = self.rows + len(self._values)
        values = {**columns, OWN_TIME: self._times, SEQ: range(self.rows, last)}
        arrays = [pa.array(values[field.name], field.type) for field in self.schema]
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self.path, self.schema)
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows, self._values, self._times, self._held = last, [], [], 0
