"""Load large files in batches of a million rows. Several threads read and cast pieces ahead of the writer.

The rows, their order and the rejected records are the same as when reading record by record.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from weft.extraction.batches import Batch, RejectedRecord
from weft.extraction.byte_streams import PushBack
from weft.extraction.files.csv_pieces import CsvPieces, RecordsAt
from weft.extraction.files.inference import Inference, Seen
from weft.extraction.files.rows import Caster, Converted, rows_as_json
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord
from weft.extraction.files.workers import Workers

LARGE: Final = 1 << 20
"""The minimum size of a CSV or Parquet file for this module, in bytes. The measured speedup for CSV is 1.4 at one
megabyte and 2.9 at four megabytes. Parquet files load at the same speed.
"""
ROWS: Final = 1_000_000
BYTES: Final = 256 << 20
"""The approximate maximum size of a batch: ``ROWS`` rows or ``BYTES`` bytes."""


def is_large(path: Path) -> bool:
    """Return whether the file is large enough for this module."""
    return path.stat().st_size >= LARGE


def csv_batches(stream: io.BufferedReader, dialect: Dialect, caster: Caster, source: str) -> Iterator[Batch]:
    """Yield the batches of a CSV file. The stream starts with the header line."""

    def cast(
        cells: pa.Table, records_at: RecordsAt, connection: duckdb.DuckDBPyConnection
    ) -> tuple[Converted, list[tuple[int, bytes]], list[int]]:
        done = caster.converted(cells, connection)
        lines = [line for line, _ in records_at(done.good)] if caster.aside else []
        return done, records_at(done.places) if done.places else [], lines

    pushback = PushBack(stream)
    records = CsvRecords(pushback, dialect)
    _, before = records.names()
    pushback.put_back(records.held)
    building = _Building(caster)
    building.add([], _unreadable(before, source), len(before))
    with Workers() as workers:
        for piece in CsvPieces(pushback, records.line, dialect, caster.names, workers, cast):
            done, bad, lines = piece.result
            if caster.aside:
                done = caster.without_aside(done, (f"line {piece.before + line}" for line in lines))
            rejected = _unreadable(piece.problems, source)
            for reason, (line, raw) in zip(done.reasons, bad, strict=True):
                rejected.append(RejectedRecord(source, f"line {piece.before + line}", reason, raw))
            building.add([done], rejected, len(piece.problems))
            yield from building.full()
        yield from building.rest()


def _unreadable(records: Iterable[TextRecord], source: str) -> list[RejectedRecord]:
    return [RejectedRecord(source, f"line {record.line}", record.problem or "", record.raw) for record in records]


def parquet_batches(pieces: Iterable[pa.Table], caster: Caster, source: str) -> Iterator[Batch]:
    """Yield the batches of a Parquet file. ``pieces`` are tables with the rows of the file."""

    def cast(cells: pa.Table, connection: duckdb.DuckDBPyConnection) -> tuple[Converted, list[bytes]]:
        done = caster.converted(cells, connection)
        return done, rows_as_json(cells, done.places, connection)

    building = _Building(caster)
    before = 0
    with Workers() as workers:
        for done, records in workers.in_order(pieces, cast):
            bad = zip(done.places, done.reasons, records, strict=True)
            rejected = [RejectedRecord(source, f"row {before + p + 1}", why, raw) for p, why, raw in bad]
            if caster.aside:
                done = caster.without_aside(done, (f"row {before + place + 1}" for place in done.good))
            building.add([done], rejected)
            before += done.count
            yield from building.full()
        yield from building.rest()


def infer_types(stream: io.BufferedReader, dialect: Dialect, names: Sequence[str]) -> Seen:
    """Return the evidence for the column types of a CSV file. Every record after the header line is read."""
    inference = Inference(names)

    def look(cells: pa.Table, _records_at: RecordsAt, connection: duckdb.DuckDBPyConnection) -> Seen:
        return inference.seen(connection, cells)

    lines = PushBack(stream)
    records = CsvRecords(lines, dialect)
    records.names()
    lines.put_back(records.held)
    with Workers() as workers:
        for piece in CsvPieces(lines, records.line, dialect, names, workers, look):
            inference.take(piece.result)
    return inference.evidence()


class _Building:
    def __init__(self, caster: Caster) -> None:
        self._caster = caster
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[Converted] = []
        self._rejected: list[RejectedRecord] = []
        self._unread = 0
        self._rows = 0
        self._bytes = 0

    def add(self, pieces: Sequence[Converted], rejected: Sequence[RejectedRecord], unread: int = 0) -> None:
        """Add pieces and their rejected records. ``unread`` counts the rejected records outside the pieces."""
        self._pieces += pieces
        self._rejected += rejected
        self._unread += unread
        self._rows += sum(piece.count for piece in pieces) + unread
        self._bytes += sum(piece.rows.nbytes for piece in pieces) + sum(len(record.raw) for record in rejected)

    def full(self) -> Iterator[Batch]:
        if self._rows >= ROWS or self._bytes >= BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Batch]:
        if self._rows:
            batch = self._caster.batch(self._pieces, tuple(self._rejected))
            yield replace(batch, read=batch.read + self._unread)
        self._begin()
