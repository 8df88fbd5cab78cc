"""Read a CSV file in chunks on several threads. The result is the same as that of reading record by record.

A *chunk* consists of whole records. In a *plain* chunk, every quote conforms to RFC 4180. Also, the record reader
(:mod:`weft.extraction.files.text_records`) neither rejects nor specially treats any part of a plain chunk. For a plain
chunk, Arrow returns the same cells as the record reader, or an error. Every line end outside quotes ends a record.

The module cuts the chunks as if all of them were plain, and threads parse the chunks ahead. If a chunk is not plain,
the module puts back this chunk and all later chunks, and then cuts smaller chunks. If a smallest chunk is not plain,
its records, and those that begin in it, are read with :class:`~weft.extraction.files.text_records.CsvRecords`. While
chunks are not plain, the module parses no chunk ahead, and each time it reads twice as much record by record. Reading a
file without a plain chunk therefore takes little longer than reading it record by record.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from weft.extraction.batches import MAX_BYTES, MAX_LINE
from weft.extraction.byte_streams import BOM, PushBack, damage
from weft.extraction.files.part import Part
from weft.extraction.files.rows import text_table
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord, broken_off
from weft.extraction.files.workers import IN_FLIGHT, Workers

CHUNK: Final = 8 << 20
SMALLEST: Final = 1 << 18
_RECORDS: Final = 50_000

_T = TypeVar("_T")

RecordsAt = Callable[[Sequence[int]], list[tuple[int, bytes]]]
"""A function that maps ascending record positions to pairs (number of the first line, bytes of the record)."""
Work = Callable[[pa.Table, RecordsAt, duckdb.DuckDBPyConnection], _T]
"""A function that processes cells, given as VARCHAR columns."""


@dataclass(frozen=True)
class Piece(Generic[_T]):
    """The result for consecutive records. ``problems`` are the rejected records."""

    result: _T
    problems: Sequence[TextRecord] = ()


class CsvPieces(Generic[_T]):
    """The pieces of a CSV file after the header line, in order. ``names`` has one name for each cell of a record.

    The stream begins where ``part`` begins. The part advances with the pieces. Raise ExtractionError if the stream is
    damaged in a part that has an end.
    """

    def __init__(
        self,
        stream: io.BufferedReader,
        dialect: Dialect,
        names: Sequence[str],
        workers: Workers,
        work: Work[_T],
        part: Part | None = None,
    ) -> None:
        self._stream = PushBack(stream)
        self._part = part or Part()
        self._dialect = dialect
        self._names = names
        self._workers = workers
        self._work = work

    def __iter__(self) -> Iterator[Piece[_T]]:
        if self._part.position == 0:
            records = CsvRecords(self._stream, self._dialect)
            _, before = records.names()
            self._go_on_after(records)
            if before:
                yield self._piece([], before)
        size, most, careful = CHUNK, IN_FLIGHT, SMALLEST
        ahead: deque[tuple[Chunk, Future[Piece[_T] | None]]] = deque()
        while True:
            while len(ahead) < most and (chunk := self._next_chunk(size)):
                ahead.append((chunk, self._workers.submit(partial(self._tried, chunk))))
            if not ahead:
                break
            chunk, future = ahead.popleft()
            piece = future.result()
            if piece is not None:
                yield piece
                size, most, careful = min(2 * size, CHUNK), min(2 * most, IN_FLIGHT), SMALLEST
                continue
            self._put_back(chunk, ahead)
            most = 1
            if len(chunk.raw) > SMALLEST:
                size = max(len(chunk.raw) // 8, SMALLEST)
            else:
                yield from self._carefully(careful)
                careful = min(2 * careful, CHUNK)
        if self._part.end is None:
            yield from self._carefully(None)  # the end of the file may be damaged, which this reports
        elif (reason := damage(self._stream.of)) is not None:
            raise broken_off(reason)

    def _next_chunk(self, size: int) -> Chunk | None:
        """Return the next chunk of about ``size`` bytes, or None at the end of the file or the part."""
        size = self._at_most(size)
        raw = self._stream.read(size)
        last = len(raw) < size
        end = len(raw) if last else end_of_records(raw, self._dialect.quote.encode())
        self._stream.put_back(raw[end:])
        chunk = Chunk(raw[:end], self._part.before, self._dialect, last)
        self._part.advance(end, chunk.before + chunk.raw.count(_NEWLINE))
        return chunk if raw else None

    def _at_most(self, size: int) -> int:
        left = self._part.size
        return size if left is None else min(size, left)

    def _tried(self, chunk: Chunk, connection: duckdb.DuckDBPyConnection) -> Piece[_T] | None:
        if not chunk.is_plain:
            return None
        try:
            cells = chunk.cells(self._names)
        except pa.ArrowInvalid:
            return None
        return Piece(self._work(cells, chunk.records, connection))

    def _put_back(self, chunk: Chunk, ahead: deque[tuple[Chunk, Future[Piece[_T] | None]]]) -> None:
        size = len(chunk.raw)
        while ahead:
            other, future = ahead.pop()
            future.cancel()
            self._stream.put_back(other.raw)
            size += len(other.raw)
        self._stream.put_back(chunk.raw)
        self._part.advance(-size, chunk.before)

    def _go_on_after(self, records: CsvRecords) -> None:
        self._stream.put_back(records.held)
        self._part.advance(records.position, records.line)

    def _carefully(self, size: int | None) -> Iterator[Piece[_T]]:
        """Read the records that begin in the next ``size`` bytes, record by record."""
        size = None if size is None else self._at_most(size)
        records = CsvRecords(self._stream, self._dialect, len(self._names), self._part.before, size)
        read: list[TextRecord] = []
        held = 0
        for record in records:
            read.append(record)
            held += len(record.raw)
            if len(read) >= _RECORDS or held >= MAX_BYTES:
                yield self._read(read)
                read, held = [], 0
        self._go_on_after(records)
        if read:
            yield self._read(read)

    def _read(self, records: Sequence[TextRecord]) -> Piece[_T]:
        good = [record for record in records if record.problem is None]
        return self._piece(good, [record for record in records if record.problem is not None])

    def _piece(self, good: Sequence[TextRecord], problems: Sequence[TextRecord]) -> Piece[_T]:
        def records_at(places: Sequence[int]) -> list[tuple[int, bytes]]:
            return [(good[place].line, good[place].raw) for place in places]

        work = partial(self._work, text_table(good, self._names), records_at)
        return Piece(self._workers.submit(work).result(), problems)


_HALF: Final = MAX_LINE // 2
_NEWLINE: Final = b"\n"


@dataclass(frozen=True)
class Chunk:
    """A piece of a file. A plain chunk consists of whole records.

    ``before`` is the number of lines before the chunk. ``last`` is True for the last chunk of the file.
    """

    raw: bytes
    before: int
    dialect: Dialect
    last: bool = False

    @property
    def is_plain(self) -> bool:
        """True if Arrow may parse the chunk."""
        raw, dialect = self.raw, self.dialect
        signs = {dialect.delimiter, dialect.quote, *filter(None, [dialect.escape])}
        if not all(sign.isascii() and sign not in "\r\n\0" for sign in signs) or dialect.delimiter == dialect.quote:
            return False
        if b"\0" in raw or raw.startswith(BOM) or not (self.last or raw.endswith(_NEWLINE)):
            return False
        if b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n"):
            return False
        if dialect.escape is not None and dialect.escape.encode() in raw:
            return False
        # If each window of half the maximum length contains a line end, no line is longer than two windows.
        if any(raw.find(_NEWLINE, at, at + _HALF) < 0 for at in range(0, len(raw) - _HALF, _HALF)):
            return False
        return dialect.quote.encode() not in raw or _are_quotes_plain(raw, dialect)

    def cells(self, names: Sequence[str]) -> pa.Table:
        """Return the cells as VARCHAR columns under the given names. An empty cell is NULL.

        Raise pyarrow.ArrowInvalid for a wrong number of cells, for invalid UTF-8, or for a chunk of blank lines.
        """
        return arrow_csv.read_csv(
            pa.BufferReader(self.raw),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(self.raw) + 1, column_names=list(names)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.dialect.delimiter,
                quote_char=self.dialect.quote,
                double_quote=self.dialect.escape is None,
                newlines_in_values=True,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                null_values=[""],
            ),
        )

    def records(self, places: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return the number of the first line and the bytes of each record at ``places``."""
        wanted, quote = set(places), self.dialect.quote.encode()
        positions: list[tuple[int, bytes]] = []
        held: list[bytes] = []
        place = quotes = 0
        for number, line in enumerate(io.BytesIO(self.raw), self.before + 1):
            held.append(line)
            quotes += line.count(quote)
            if quotes % 2:
                continue
            record = b"".join(held)
            if record.strip(b"\r\n"):
                if place in wanted:
                    positions.append((number - len(held) + 1, record))
                place += 1
            held = []
        return positions


def end_of_records(raw: bytes, quote: bytes) -> int:
    """Return the position after the last line end outside quotes, or the end of ``raw`` if there is none."""
    end = raw.rfind(_NEWLINE) + 1
    odd = raw.count(quote, 0, end) % 2
    while odd:
        earlier = raw.rfind(_NEWLINE, 0, raw.rfind(quote, 0, end)) + 1  # every line end in between is in quotes, too
        odd = (odd + raw.count(quote, earlier, end)) % 2
        end = earlier
    return end or len(raw)


def _are_quotes_plain(raw: bytes, dialect: Dialect) -> bool:
    """Return whether all quotes conform to RFC 4180 and no quoted cell is longer than ``MAX_LINE``.

    Each quote must open a cell, close a cell, or be half of a doubled quote inside a cell. Doubled quotes are allowed
    only if the dialect has no escape character.
    """
    framed = _NEWLINE + raw + _NEWLINE
    signs = pa.Array.from_buffers(pa.uint8(), len(framed), [None, pa.py_buffer(framed)])
    at = pc.indices_nonzero(pc.equal(signs, pa.scalar(ord(dialect.quote), pa.uint8()))).cast(pa.int64())
    if len(at) % 2:
        return False
    pairs = pa.FixedSizeListArray.from_arrays(at, 2)
    opening, closing = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    # In a doubled quote inside a cell, the first quote does not close the cell. The second quote does not open one.
    goes_on = pc.equal(pc.add(closing.slice(0, len(closing) - 1), 1), opening.slice(1))
    if dialect.escape is not None and pc.any(goes_on).as_py():
        return False
    no = pa.array([False])
    again, further = pa.concat_arrays([no, goes_on]), pa.concat_arrays([goes_on, no])
    ends = pa.array([ord(dialect.delimiter), ord("\n"), ord("\r")], pa.uint8())
    opens = pc.or_(again, pc.is_in(signs.take(pc.subtract(opening, 1)), value_set=ends[:2]))
    closes = pc.or_(further, pc.is_in(signs.take(pc.add(closing, 1)), value_set=ends))
    if not (pc.all(opens).as_py() and pc.all(closes).as_py()):
        return False
    lengths = pc.subtract(closing.filter(pc.invert(further)), opening.filter(pc.invert(again)))
    return bool(pc.max(lengths).as_py() <= MAX_LINE)
