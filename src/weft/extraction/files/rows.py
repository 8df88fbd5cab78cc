"""Foreign columns of a file to the columns of a table, a batch at a time, by one SELECT of DuckDB.

A row with a value that is not of its column's type is left out and comes back as rejected, with the columns at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.extraction.files.casting import from_text, from_typed, quoted
from weft.extraction.files.text_records import DEFAULT_DIALECT, Dialect, TextRecord
from weft.extraction.records import MAX_BYTES, MAX_ROWS, Batch, Rejected, arrow_schema

Format = Literal["csv", "json", "parquet"]
_BAD: Final = "_bad"
_OWN: Final = "_own"


@dataclass(frozen=True)
class Layout:
    """What casting needs to know of a file: its format, its columns as written (DuckDB's type of each), CSV's
    dialect."""

    format: Format
    names: tuple[str, ...]
    types: tuple[str, ...]
    dialect: Dialect = DEFAULT_DIALECT


class Caster:
    """Casts foreign columns to the table's; keeps count of the rows and the running maximum from batch to batch."""

    def __init__(
        self, layout: Layout, own_time: str | None, columns: Sequence[tuple[str, DataType]], source: str
    ) -> None:
        self._layout = layout
        self._schema = arrow_schema(columns)
        self._source = source
        self._sql = _casting(layout, own_time, columns)
        self._read = 0
        self._rows = 0
        self._latest: int | None = None

    def text_batches(self, records: Iterable[TextRecord], connection: duckdb.DuckDBPyConnection) -> Iterator[Batch]:
        """Batches of text records; those with a problem are among the rejected."""
        held: list[TextRecord] = []
        rejected: list[Rejected] = []
        size = 0
        for record in records:
            size += len(record.raw)
            if record.problem is not None:
                rejected.append(Rejected(self._source, f"line {record.line}", record.problem, record.raw))
            else:
                held.append(record)
            if len(held) + len(rejected) >= MAX_ROWS or size >= MAX_BYTES:
                yield self._text_batch(held, rejected, connection)
                held, rejected, size = [], [], 0
        if held or rejected:
            yield self._text_batch(held, rejected, connection)

    def _text_batch(
        self, held: list[TextRecord], rejected: list[Rejected], connection: duckdb.DuckDBPyConnection
    ) -> Batch:
        batch = self.cast(text_table(held, self._layout.names), held, connection)
        return Batch(batch.rows, (*rejected, *batch.rejected), batch.read + len(rejected))

    def cast(
        self, cells: pa.Table, records: Sequence[TextRecord] | None, connection: duckdb.DuckDBPyConnection
    ) -> Batch:
        """One batch; ``records`` are the bytes of its rows, or None where a row is kept as its JSON."""
        connection.register("cells", cells)
        try:
            found = connection.sql(self._sql).to_arrow_table()
        finally:
            connection.unregister("cells")
        rejected = tuple(self._rejected(found, records))
        rows = found.filter(pc.equal(found[_BAD], ""))
        own = self._running_maximum(rows[_OWN])
        seq = pa.array(range(self._rows, self._rows + rows.num_rows), pa.int64())
        self._rows += rows.num_rows
        self._read += cells.num_rows
        arrays = [rows[i].cast(self._schema.field(i).type) for i in range(len(self._schema) - 2)]
        return Batch(pa.Table.from_arrays([*arrays, own, seq], schema=self._schema), rejected, cells.num_rows)

    def _rejected(self, found: pa.Table, records: Sequence[TextRecord] | None) -> Iterator[Rejected]:
        for index in pc.indices_nonzero(pc.not_equal(found[_BAD], "")).to_pylist():
            reason = f"not of the column's type: {found[_BAD][index].as_py()}"
            if records is None:
                raw = str(found["_raw"][index].as_py()).encode()
                yield Rejected(self._source, f"row {self._read + index + 1}", reason, raw)
            else:
                yield Rejected(self._source, f"line {records[index].line}", reason, records[index].raw)

    def _running_maximum(self, own: pa.ChunkedArray) -> pa.Array:
        flat = own.combine_chunks().cast(pa.int64())
        if len(flat) == 0:
            return flat
        carried = pa.concat_arrays([pa.array([self._latest], pa.int64()), flat])
        latest = pc.fill_null_forward(pc.cumulative_max(carried, skip_nulls=True)).slice(1)
        self._latest = latest[-1].as_py()
        return latest


def text_table(records: Sequence[TextRecord], names: Sequence[str]) -> pa.Table:
    """The records' cells as VARCHAR columns of those names."""
    if records and isinstance(records[0].cells, list):
        columns = list(zip(*(record.cells or () for record in records), strict=True))
    else:
        columns = [
            tuple(record.cells.get(name) if isinstance(record.cells, dict) else None for record in records)
            for name in names
        ]
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in zip(names, columns, strict=True)})


def _casting(layout: Layout, own_time: str | None, columns: Sequence[tuple[str, DataType]]) -> str:
    """SQL from the table ``cells``: the columns by position, the own time in µs, the columns at fault, the row."""
    found = {n.lower(): (n, t) for n, t in zip(layout.names, layout.types, strict=True)}
    values: list[str] = []
    faults: list[str] = []
    pairs = [(name, kind) for name, kind in columns if name.lower() in found]
    if own_time is not None and own_time.lower() not in {name.lower() for name, _ in pairs}:
        pairs.append((own_time, DataType("TIMESTAMP")))
    casts: dict[str, str] = {}
    for name, kind in pairs:
        written, type_found = found[name.lower()]
        source = quoted(written)
        casts[name.lower()] = (
            from_text(source, kind) if layout.format != "parquet" else from_typed(source, type_found, kind)
        )
        fault = "'" + name.replace("'", "''") + "'"
        faults.append(f"CASE WHEN {source} IS NOT NULL AND ({casts[name.lower()]}) IS NULL THEN {fault} END")
    for index, (name, kind) in enumerate(columns):
        values.append(f"{casts.get(name.lower(), _null(kind))} AS c{index}")
    own = "NULL" if own_time is None else f"epoch_us(CAST(({casts[own_time.lower()]}) AS TIMESTAMPTZ))"
    bad = f"concat_ws(', ', {', '.join(faults)})" if faults else "''"
    raw = f", CASE WHEN {bad} <> '' THEN CAST(to_json(cells) AS VARCHAR) END AS _raw"
    listed = "".join(f"{value}, " for value in values)
    keep = raw if layout.format == "parquet" else ""
    return f"SELECT {listed}CAST({own} AS BIGINT) AS {_OWN}, {bad} AS {_BAD}{keep} FROM cells"


def _null(kind: DataType) -> str:
    return from_text("CAST(NULL AS VARCHAR)", kind)
