"""Cast the columns of a file to the columns of a table, with one DuckDB SELECT for each batch.

A row is rejected if a value does not fit its column's type. The reason names the columns with invalid values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import STRING, TIMESTAMP, DataType
from weft.extraction.batches import MAX_BYTES, MAX_ROWS, Batch, RejectedRecord, arrow_schema
from weft.extraction.files.casting import as_text, from_text, from_typed
from weft.extraction.files.options import in_microseconds
from weft.extraction.files.text_records import DEFAULT_DIALECT, Dialect, TextRecord
from weft.extraction.nested_values import is_of
from weft.storage.local_sql import quoted

Format = Literal["csv", "json", "parquet"]
_BAD: Final = "_bad"
_OWN: Final = "_own"


@dataclass(frozen=True)
class Layout:
    """The layout of a file: its format, its columns with their DuckDB types, and the CSV dialect.

    ``names`` are the stored column names. ``written`` contains the names in the JSON if they differ from ``names``.
    """

    format: Format
    names: tuple[str, ...]
    types: tuple[str, ...]
    dialect: Dialect = DEFAULT_DIALECT
    written: tuple[str, ...] = ()


@dataclass(frozen=True)
class OwnTimes:
    """The column and the format of the rows' event times.

    ``column`` contains the event times, in the format ``form``. ``column`` is None if rows have no event times.
    ``form`` is None for a column of timestamps. If ``arrival`` is True, the running maximum replaces each event time.
    Rows with an event time after ``latest`` are rejected with the reason ``too_far``. ``latest`` is in µs UTC, or None
    for no limit.
    """

    column: str | None = None
    arrival: bool = False
    latest: int | None = None
    too_far: str = ""
    form: str | None = None


@dataclass(frozen=True)
class Converted:
    """A converted piece of ``count`` rows.

    ``rows`` are the valid rows. ``places`` are the positions of the invalid rows in the piece. ``reasons`` are the
    reasons for rejecting the invalid rows. ``left_out`` are the indexes of rows that an earlier run quarantined.
    """

    rows: pa.Table
    places: Sequence[int]
    reasons: Sequence[str]
    count: int
    left_out: Sequence[int] = ()

    @property
    def good(self) -> list[int]:
        """The positions of the valid rows in the piece."""
        bad = set(self.places)
        return [place for place in range(self.count) if place not in bad]


class Caster:
    """Casts the columns of a file to the columns of the table.

    The row count and the running maximum of event times continue from batch to batch.

    - If ``origins`` is True, every batch also contains the records of its rows.
    - ``aside`` contains the positions of records to leave out.
    - ``counted`` is the unit of a text record's position, such as "line".
    - ``sound`` are nested columns with only valid values.
    """

    def __init__(
        self,
        layout: Layout,
        own_times: OwnTimes,
        columns: Sequence[tuple[str, DataType]],
        source: str,
        *,
        origins: bool = False,
        aside: frozenset[str] = frozenset(),
        counted: str = "line",
        sound: frozenset[str] = frozenset(),
    ) -> None:
        self.aside = aside
        self._counted = counted
        self.names = layout.names
        self._written = layout.written
        self._schema = arrow_schema(columns)
        self._source = source
        self._own_times = own_times
        self._origins = origins
        self._sql = _casting(layout, own_times, columns)
        shaped = ((place, name, kind.shape) for place, (name, kind) in enumerate(columns))
        self._shaped = [(place, name, shape) for place, name, shape in shaped if shape and name not in sound]
        self._read = 0
        self._rows = 0
        self._latest: int | None = None

    def text_batches(self, records: Iterable[TextRecord], connection: duckdb.DuckDBPyConnection) -> Iterator[Batch]:
        """Yield the text records in batches. Records with a problem are rejected."""
        held: list[TextRecord] = []
        rejected: list[RejectedRecord] = []
        size = 0
        for record in records:
            size += len(record.raw)
            if record.problem is not None:
                rejected.append(
                    RejectedRecord(self._source, f"{self._counted} {record.line}", record.problem, record.raw)
                )
            else:
                held.append(record)
            if len(held) + len(rejected) >= MAX_ROWS or size >= MAX_BYTES:
                yield self._text_batch(held, rejected, connection)
                held, rejected, size = [], [], 0
        if held or rejected:
            yield self._text_batch(held, rejected, connection)

    def _text_batch(
        self, held: list[TextRecord], rejected: list[RejectedRecord], connection: duckdb.DuckDBPyConnection
    ) -> Batch:
        batch = self.cast(text_table(held, self.names, self._written), held, connection)
        return Batch(batch.rows, (*rejected, *batch.rejected), batch.read + len(rejected), batch.origins)

    def cast(
        self, cells: pa.Table, records: Sequence[TextRecord] | None, connection: duckdb.DuckDBPyConnection
    ) -> Batch:
        """Return the cells cast to the table's types, as one batch.

        ``records`` contains the bytes of the rows. If ``records`` is None, rejected rows are quarantined as JSON.
        """
        done = self.converted(cells, connection)
        rejected = tuple(
            replace(origin, reason=reason)
            for reason, origin in zip(
                done.reasons, self._records_at(done.places, cells, records, connection), strict=True
            )
        )
        origins: tuple[RejectedRecord, ...] = ()
        if self._origins or self.aside:
            origins = self._records_at(done.good, cells, records, connection)
            done = self.without_aside(done, [origin.position for origin in origins])
            left_out = set(done.left_out)
            origins = tuple(origin for n, origin in enumerate(origins) if n not in left_out)
        return self.batch([done], rejected, origins if self._origins else ())

    def without_aside(self, done: Converted, positions: Iterable[str]) -> Converted:
        """Mark the rows at the positions in ``aside`` as left out, and return the piece."""
        return replace(done, left_out=[n for n, position in enumerate(positions) if position in self.aside])

    def converted(self, cells: pa.Table, connection: duckdb.DuckDBPyConnection) -> Converted:
        """Return the cells cast to the table's types. The method is thread-safe."""
        connection.register("cells", cells)
        try:
            cast_rows = connection.sql(self._sql).to_arrow_table()
        finally:
            connection.unregister("cells")
        reasons = self._reasons(self._of_their_shapes(cast_rows))
        cast_rows = cast_rows.drop_columns([_BAD])
        if reasons.null_count == len(reasons):
            return Converted(cast_rows, (), (), cells.num_rows)
        good = pc.is_null(reasons)
        places = pc.indices_nonzero(pc.invert(good))
        return Converted(cast_rows.filter(good), places.to_pylist(), reasons.take(places).to_pylist(), cells.num_rows)

    def _of_their_shapes(self, cast_rows: pa.Table) -> pa.Table:
        for place, name, shape in self._shaped:
            wrong = [text is not None and not is_of(text, shape) for text in cast_rows.column(place).to_pylist()]
            if any(wrong):
                bad = cast_rows[_BAD]
                joined = pc.if_else(pc.equal(bad, ""), name, pc.binary_join_element_wise(bad, name, ", "))
                at = cast_rows.schema.get_field_index(_BAD)
                cast_rows = cast_rows.set_column(at, _BAD, pc.if_else(pa.array(wrong, pa.bool_()), joined, bad))
        return cast_rows

    def batch(
        self,
        pieces: Sequence[Converted],
        rejected: tuple[RejectedRecord, ...],
        origins: tuple[RejectedRecord, ...] = (),
    ) -> Batch:
        """Return the pieces as one batch. ``pieces`` must be the next pieces of the file."""
        read = sum(piece.count for piece in pieces)
        self._read += read
        if not pieces:
            return Batch(self._schema.empty_table(), rejected, read, origins)
        rows = pa.concat_tables([piece.rows for piece in pieces])
        own = self._running_maximum(rows[_OWN]) if self._own_times.arrival else rows[_OWN].cast(pa.int64())
        seq = _counting(self._rows, rows.num_rows)
        self._rows += rows.num_rows
        arrays = [rows[i].cast(self._schema.field(i).type) for i in range(len(self._schema) - 2)]
        table = pa.Table.from_arrays([*arrays, own, seq], schema=self._schema)
        if any(piece.left_out for piece in pieces):
            table = table.take(pa.array(_remaining(pieces), pa.int64()))
        return Batch(table, rejected, read, origins)

    def _reasons(self, cast_rows: pa.Table) -> pa.ChunkedArray:
        bad, own, own_times = cast_rows[_BAD], cast_rows[_OWN], self._own_times
        nothing = pa.scalar(False)
        missing = pc.is_null(own) if own_times.column is not None and not own_times.arrival else nothing
        ahead = pc.fill_null(pc.greater(own, own_times.latest), False) if own_times.latest is not None else nothing
        return pc.if_else(
            pc.not_equal(bad, ""),
            pc.binary_join_element_wise("not of the column's type: ", bad, ""),
            pc.if_else(
                missing,
                f"{own_times.column} is empty: the row has no time of its own",
                pc.if_else(ahead, f"{own_times.column} is {own_times.too_far}", pa.scalar(None, pa.string())),
            ),
        )

    def _records_at(
        self,
        places: Sequence[int],
        cells: pa.Table,
        records: Sequence[TextRecord] | None,
        connection: duckdb.DuckDBPyConnection,
    ) -> tuple[RejectedRecord, ...]:
        if records is not None:
            lines = ((f"{self._counted} {records[place].line}", records[place].raw) for place in places)
            return tuple(RejectedRecord(self._source, line, "", raw) for line, raw in lines)
        return tuple(
            RejectedRecord(self._source, f"row {self._read + place + 1}", "", raw)
            for place, raw in zip(places, rows_as_json(cells, places, connection), strict=True)
        )

    def _running_maximum(self, own: pa.ChunkedArray) -> pa.Array:
        flat = own.combine_chunks().cast(pa.int64())
        if len(flat) == 0:
            return flat
        carried = pa.concat_arrays([pa.array([self._latest], pa.int64()), flat])
        latest = pc.fill_null_forward(pc.cumulative_max(carried, skip_nulls=True)).slice(1)
        self._latest = latest[-1].as_py()
        return latest


def rows_as_json(cells: pa.Table, places: Sequence[int], connection: duckdb.DuckDBPyConnection) -> list[bytes]:
    """Return the rows at ``places`` as JSON objects. BINARY values are in base64, as ``from_text`` expects."""
    if not places:
        return []
    kinds = zip(cells.column_names, cells.schema.types, strict=True)
    binary = [quoted(name) for name, kind in kinds if pa.types.is_binary(kind) or pa.types.is_large_binary(kind)]
    encoded = ", ".join(f"to_base64({name}) AS {name}" for name in binary)
    taken = f"* REPLACE ({encoded})" if encoded else "*"
    connection.register("cells", cells.take(pa.array(places, pa.int64())))
    try:
        rows = connection.execute(
            f"SELECT CAST(to_json(c) AS VARCHAR) FROM (SELECT {taken} FROM cells) AS c"
        ).fetchall()
    finally:
        connection.unregister("cells")
    return [str(json).encode() for (json,) in rows]


def _remaining(pieces: Iterable[Converted]) -> list[int]:
    rows: list[int] = []
    first = 0
    for piece in pieces:
        left_out = set(piece.left_out)
        rows += [first + n for n in range(piece.rows.num_rows) if n not in left_out]
        first += piece.rows.num_rows
    return rows


def _counting(first: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def text_table(records: Sequence[TextRecord], names: Sequence[str], written: Sequence[str] = ()) -> pa.Table:
    """Return the cells of the records as VARCHAR columns. For ``written``, see ``Layout``."""
    if records and isinstance(records[0].cells, list):
        columns = list(zip(*(record.cells or () for record in records), strict=True))
    else:
        columns = [
            tuple(record.cells.get(name) if isinstance(record.cells, dict) else None for record in records)
            for name in written or names
        ]
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in zip(names, columns, strict=True)})


def _casting(layout: Layout, own_times: OwnTimes, columns: Sequence[tuple[str, DataType]]) -> str:
    """Return a SELECT over ``cells`` that casts a batch.

    The SELECT returns the table's columns by position and the event time in microseconds. The SELECT also returns the
    names of the columns with invalid values.
    """
    own_time = own_times.column
    columns_by_name = {n.lower(): (n, t) for n, t in zip(layout.names, layout.types, strict=True)}
    pairs = [(name, kind) for name, kind in columns if name.lower() in columns_by_name]
    if own_time is not None and own_time.lower() not in {name.lower() for name, _ in pairs}:
        pairs.append((own_time, TIMESTAMP if own_times.form is None else STRING))
    inner: list[str] = []
    faults: list[str] = []
    casts: dict[str, str] = {}
    for number, (name, kind) in enumerate(pairs):
        written, type_found = columns_by_name[name.lower()]
        source = quoted(written)
        cast = from_text(source, kind) if layout.format != "parquet" else from_typed(source, type_found, kind)
        inner.append(f"{source} AS s{number}, {cast} AS v{number}")
        fault = "'" + name.replace("'", "''") + "'"
        wrong = f"v{number} IS NULL"
        if own_times.form is not None and own_time is not None and name.lower() == own_time.lower():
            inner.append(f"{in_microseconds(as_text(source, type_found), own_times.form)} AS o")
            wrong = f"({wrong} OR o IS NULL)"
        faults.append(f"CASE WHEN s{number} IS NOT NULL AND {wrong} THEN {fault} END")
        casts[name.lower()] = f"v{number}"
    values = [f"{casts.get(name.lower(), _null(kind))} AS c{index}" for index, (name, kind) in enumerate(columns)]
    own = "NULL" if own_time is None else "o"
    if own_time is not None and own_times.form is None:
        own = f"epoch_us(CAST({casts[own_time.lower()]} AS TIMESTAMPTZ))"
    bad = f"concat_ws(', ', {', '.join(faults)})" if faults else "''"
    listed = "".join(f"{value}, " for value in values)
    cells = f"(SELECT {', '.join(inner)} FROM cells)" if inner else "cells"
    return f"SELECT {listed}CAST({own} AS BIGINT) AS {_OWN}, {bad} AS {_BAD} FROM {cells}"


def _null(kind: DataType) -> str:
    return from_text("CAST(NULL AS VARCHAR)", kind)
