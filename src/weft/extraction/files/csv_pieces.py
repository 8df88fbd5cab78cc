"""Read a CSV file in chunks on several threads; the result is the same as reading record by record.

:mod:`weft.extraction.files.csv_chunks` cuts the chunks as if all of them were plain, and threads parse them ahead. If a
chunk is not plain, it and all later chunks are put back and cut smaller. The smallest chunks are read by
:class:`~weft.extraction.files.text_records.CsvRecords`, up to the first record that ends at or after the chunk's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import duckdb
import pyarrow as pa

from weft.extraction.batches import MAX_BYTES
from weft.extraction.byte_streams import PushBack
from weft.extraction.files.csv_chunks import Chunk, next_chunk
from weft.extraction.files.rows import text_table
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord
from weft.extraction.files.workers import IN_FLIGHT, Workers

CHUNK: Final = 8 << 20
SMALLEST: Final = 1 << 18
_RECORDS: Final = 50_000

_T = TypeVar("_T")

RecordsAt = Callable[[Sequence[int]], list[tuple[int, bytes]]]
"""Maps positions of records (ascending) to the number of each record's first line and its bytes."""
Work = Callable[[pa.Table, RecordsAt, duckdb.DuckDBPyConnection], _T]
"""Processes cells: VARCHAR columns under the given names."""


@dataclass(frozen=True)
class Piece(Generic[_T]):
    """The result for consecutive records. Add ``before`` to the line numbers in ``result``.

    ``problems`` are the rejected records among them; their line numbers are final.
    """

    result: _T
    before: int
    problems: tuple[TextRecord, ...] = ()


class CsvPieces(Generic[_T]):
    """The pieces of a CSV file after its header line, in order. ``names`` has one name for each cell of a record."""

    def __init__(
        self,
        stream: PushBack,
        line: int,
        dialect: Dialect,
        names: Sequence[str],
        workers: Workers,
        work: Work[_T],
    ) -> None:
        """``line`` is the number of lines of the file that ended before the next byte of the stream."""
        self._stream = stream
        self._line = line
        self._dialect = dialect
        self._names = names
        self._workers = workers
        self._work = work

    def __iter__(self) -> Iterator[Piece[_T]]:
        ahead: deque[tuple[Chunk, Future[tuple[_T, int] | None]]] = deque()
        size = CHUNK
        while True:
            while len(ahead) < IN_FLIGHT and (chunk := next_chunk(self._stream, self._dialect, size)):
                ahead.append((chunk, self._workers.submit(partial(self._tried, chunk))))
            if not ahead:
                break
            chunk, future = ahead.popleft()
            done = future.result()
            if done is not None:
                result, lines = done
                yield Piece(result, self._line)
                self._line += lines
                size = min(2 * size, CHUNK)
                continue
            self._put_back(chunk, ahead)
            if len(chunk.raw) > SMALLEST:
                size = max(len(chunk.raw) // 8, SMALLEST)
            else:
                yield from self._carefully(self._stream.position + len(chunk.raw))
        yield from self._carefully(None)  # the end of the file may be damaged, which this reports

    def _tried(self, chunk: Chunk, connection: duckdb.DuckDBPyConnection) -> tuple[_T, int] | None:
        """Return the result for a chunk and the number of lines in it; None if it must be read record by record."""
        if not chunk.is_plain:
            return None
        try:
            cells = chunk.cells(self._names)
        except pa.ArrowInvalid:
            return None
        return self._work(cells, chunk.records, connection), chunk.lines

    def _put_back(self, chunk: Chunk, ahead: deque[tuple[Chunk, Future[tuple[_T, int] | None]]]) -> None:
        while ahead:
            other, future = ahead.pop()
            future.cancel()
            self._stream.put_back(other.raw)
        self._stream.put_back(chunk.raw)

    def _carefully(self, until: int | None) -> Iterator[Piece[_T]]:
        """Read records up to the first that ends at or after the position ``until`` of the stream; all of them for
        None.
        """
        records = CsvRecords(self._stream, self._dialect, len(self._names), self._line)
        held: list[TextRecord] = []
        problems: list[TextRecord] = []
        size = 0
        for record in records:
            (held if record.problem is None else problems).append(record)
            size += len(record.raw)
            if until is not None and self._stream.position - records.held_size >= until:
                break
            if len(held) + len(problems) >= _RECORDS or size >= MAX_BYTES:
                yield self._piece(held, problems)
                held, problems, size = [], [], 0
        self._stream.put_back(records.held)
        self._line = records.line
        if held or problems:
            yield self._piece(held, problems)

    def _piece(self, held: list[TextRecord], problems: list[TextRecord]) -> Piece[_T]:
        def records_at(places: Sequence[int]) -> list[tuple[int, bytes]]:
            return [(held[place].line, held[place].raw) for place in places]

        work = partial(self._work, text_table(held, self._names), records_at)
        return Piece(self._workers.submit(work).result(), 0, tuple(problems))
