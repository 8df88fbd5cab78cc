"""Read the rows of a Parquet file in pieces that fit into memory.

A page is decompressed as a whole. A file with an oversized page is therefore refused before decoding. The page headers
state the sizes (Parquet's parquet.thrift, ``PageHeader``, in Thrift's compact protocol).

A value stored once in a dictionary may occur in millions of rows. Text is therefore decoded only after a piece is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.errors import ExtractionError
from weft.extraction.batches import MAX_BYTES, MAX_RECORD, MAX_ROWS
from weft.extraction.files.part import Part

MAX_PAGE: Final = 256 << 20
"""The maximum size of an uncompressed page, in bytes. Most programs write pages of about one MiB."""
_HEADER: Final = 1 << 12
_LONGEST_HEADER: Final = 1 << 24


def parquet_file(source: Path | BinaryIO, stream: BinaryIO, name: str, part: Part | None = None) -> pq.ParquetFile:
    """Open a file so that text columns are dictionary-encoded. The pages of the row groups in ``part`` are checked.

    ``source`` and ``stream`` are the same file. ``name`` is its name in messages. Raises ExtractionError, OSError and
    pyarrow's errors.
    """
    metadata = pq.read_metadata(stream)
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    for group in _groups(metadata, part):
        for number in range(metadata.num_columns):
            _check_pages(stream, metadata.row_group(group).column(number), name)
    texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", read_dictionary=texts, metadata=metadata)


def _groups(metadata: pq.FileMetaData, part: Part | None) -> range:
    part = part or Part()
    return range(part.position, metadata.num_row_groups if part.end is None else part.end)


def pieces(file: pq.ParquetFile, rows: int | None, part: Part | None = None) -> Iterator[pa.Table]:
    """Yield tables with decoded text. Each table has at most ``rows`` rows, or about ``MAX_BYTES`` if ``rows`` is None.

    ``part`` restricts the row groups, and advances to its end. Raise ExtractionError if a row has more than
    ``MAX_RECORD`` bytes. Errors of pyarrow pass through unchanged.
    """
    part = part or Part()
    groups, before = _groups(file.metadata, part), part.before
    rows = rows or _rows_at_once(file.metadata)
    # A reader of several row groups would keep all texts that are not in a dictionary of the file.
    for batch in (batch for group in groups for batch in file.iter_batches(rows, row_groups=[group])):
        at = 0
        ends = _ends(batch, before)
        for end in ends:
            yield pa.Table.from_batches([_decoded(batch.slice(at, end - at))])
            at = end
        before += batch.num_rows
    part.advance(len(groups), before)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionary-encoded text replaced by plain text."""
    return pa.schema([_decoded_field(each) for each in schema])


def _decoded_field(field: pa.Field) -> pa.Field:
    return field.with_type(_decoded_type(field.type))


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_decoded_field(kind.key_field), _decoded_field(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_decoded_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_decoded_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_decoded_field(kind.value_field))
    return pa.struct([_decoded_field(each) for each in kind]) if pa.types.is_struct(kind) else kind


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = decoded_schema(batch.schema)
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if field.type != column.type:
            if pa.types.is_nested(field.type):  # casting a sliced list would also cast the values outside the slice
                column = column.take(pa.array(range(len(column)), pa.int64()))
            column = column.cast(field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _sizes(values: pa.Array) -> pa.Array | None:
    """Return the size of the text in each value, in bytes. Return None for a type without text."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pc.fill_null(pc.binary_length(values.dictionary).cast(pa.int64()).take(values.indices), 0)
    if pa.types.is_struct(kind):
        return _sum(map(_sizes, values.flatten()))
    if not pa.types.is_nested(kind):
        return None
    below = _sizes(values.values)
    if below is None:
        return None
    if pa.types.is_fixed_size_list(kind):
        first = values.offset * kind.list_size
        offsets = pa.array(range(first, first + len(values) * kind.list_size + 1, kind.list_size), pa.int64())
    else:
        offsets = values.offsets
    before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(below)]).take(offsets)
    return pc.subtract(before.slice(1), before.slice(0, len(values)))


def _sum(sizes: Iterable[pa.Array | None]) -> pa.Array | None:
    known = [each for each in sizes if each is not None]
    return reduce(pc.add, known) if known else None


def _ends(batch: pa.RecordBatch, before: int) -> list[int]:
    sizes = _sum(map(_sizes, batch.columns))
    if sizes is None or not len(sizes) or pc.sum(sizes).as_py() <= MAX_BYTES:
        return [batch.num_rows] if batch.num_rows else []
    largest = pc.max(sizes).as_py()
    if largest > MAX_RECORD:
        row = before + pc.index(sizes, largest).as_py() + 1
        raise ExtractionError(
            f"row {row} has {largest >> 20:,} MiB of text; the limit is {MAX_RECORD >> 20} MiB",
            hint="Remove the row. Weft did not read the rest of the file.",
        )
    ends, begun = [], 0
    totals = pc.cumulative_sum(sizes).to_pylist()
    for number, total in enumerate(totals):
        if total - begun > MAX_BYTES and number:
            ends.append(number)
            begun = totals[number - 1]
    return [*ends, batch.num_rows]


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
    return int(max(1, min(MAX_ROWS, MAX_BYTES * metadata.num_rows // max(size, 1))))


def _check_pages(file: BinaryIO, column: pq.ColumnChunkMetaData, name: str) -> None:
    """Raise ExtractionError for a page that is too large. Unreadable page headers are left to pyarrow."""
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    while at < end:
        header = _page_header(file, at)
        if header is None:
            return
        length, size, compressed = header
        if size > MAX_PAGE:
            raise ExtractionError(
                f"cannot be read: {name} (a page of the column "
                f"{column.path_in_schema!r} has {size >> 20:,} MiB; the limit is {MAX_PAGE >> 20} MiB)",
                hint="Write the file with smaller pages.",
            )
        at += length + compressed


def _page_header(file: BinaryIO, at: int) -> tuple[int, int, int] | None:
    """Return the sizes of the header, the uncompressed page and the compressed page."""
    length = _HEADER
    while length <= _LONGEST_HEADER:
        file.seek(at)
        raw = file.read(length)
        try:
            return _read_header(raw)
        except IndexError:
            if len(raw) < length:
                return None
            length *= 16
        except (ValueError, RecursionError):
            return None
    return None


def _read_header(raw: bytes) -> tuple[int, int, int]:
    """Return the sizes as ``_page_header`` does. Raise IndexError or ValueError for a bad header."""
    thrift = _Thrift(raw)
    sizes: dict[int, int] = {}
    field = 0
    while kind := raw[thrift.at]:
        thrift.at += 1
        field = field + (kind >> 4) if kind >> 4 else thrift.signed()
        if field in (2, 3) and kind & 15 == 5:
            sizes[field] = thrift.signed()
        else:
            thrift.skip(kind & 15)
    if len(sizes) < 2 or min(sizes.values()) < 0:
        raise ValueError
    return thrift.at + 1, sizes[2], sizes[3]


class _Thrift:
    """A reader of values in Thrift's compact protocol."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def number(self) -> int:
        """Read an unsigned integer (varint)."""
        value = shift = 0
        while True:
            byte = self._raw[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int) -> None:
        match kind:
            case 1 | 2:
                pass
            case 3:
                self.at += 1
            case 4 | 5 | 6:
                self.number()
            case 7:
                self.at += 8
            case 8:
                size = self.number()
                self.at += size
            case 12:
                while each := self._raw[self.at]:
                    self.at += 1
                    if not each >> 4:
                        self.signed()
                    self.skip(each & 15)
                self.at += 1
            case _:  # a page header has no lists or maps
                raise ValueError
