"""Load files in batches of up to a million rows. Several threads read and cast pieces ahead of the writer.

The rows, their order and the rejected records are the same as when reading record by record.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import duckdb
import pyarrow as pa

from weft.extraction.batches import Batch, RejectedRecord
from weft.extraction.files.csv_pieces import CsvPieces, RecordsAt
from weft.extraction.files.inference import Inference, Seen
from weft.extraction.files.part import Part
from weft.extraction.files.rows import Caster, Converted, rows_as_json
from weft.extraction.files.text_records import Dialect, TextRecord
from weft.extraction.files.workers import Workers

ROWS: Final = 1_000_000
BYTES: Final = 256 << 20
"""The approximate maximum size of a batch: ``ROWS`` rows or ``BYTES`` bytes."""


def csv_batches(
    stream: io.BufferedReader,
    dialect: Dialect,
    caster: Caster,
    source: str,
    connection: duckdb.DuckDBPyConnection,
    part: Part | None = None,
) -> Iterator[Batch]:
    """Yield the batches of a CSV file. The stream begins where ``part`` begins, by default with the header line."""

    def cast(
        cells: pa.Table, records_at: RecordsAt, connection: duckdb.DuckDBPyConnection
    ) -> tuple[Converted, list[RejectedRecord]]:
        done = caster.converted(cells, connection)
        if caster.aside:
            done = caster.without_aside(done, (f"line {line}" for line, _ in records_at(done.good)))
        bad = zip(done.reasons, records_at(done.places) if done.places else (), strict=True)
        return done, [RejectedRecord(source, f"line {line}", reason, raw) for reason, (line, raw) in bad]

    building = _Building(caster)
    with Workers(connection) as workers:
        for piece in CsvPieces(stream, dialect, caster.names, workers, cast, part):
            done, rejected = piece.result
            building.add([done], [*_unreadable(piece.problems, source), *rejected], len(piece.problems))
            yield from building.full()
        yield from building.rest()


def _unreadable(records: Iterable[TextRecord], source: str) -> list[RejectedRecord]:
    return [RejectedRecord(source, f"line {record.line}", record.problem or "", record.raw) for record in records]


def parquet_batches(
    pieces: Iterable[pa.Table], caster: Caster, source: str, connection: duckdb.DuckDBPyConnection, before: int = 0
) -> Iterator[Batch]:
    """Yield the batches of a Parquet file. ``pieces`` are tables with the rows behind the first ``before`` rows."""

    def cast(cells: pa.Table, connection: duckdb.DuckDBPyConnection) -> tuple[Converted, list[bytes]]:
        done = caster.converted(cells, connection)
        return done, rows_as_json(cells, done.places, connection)

    building = _Building(caster)
    with Workers(connection) as workers:
        for done, records in workers.in_order(pieces, cast):
            bad = zip(done.places, done.reasons, records, strict=True)
            rejected = [RejectedRecord(source, f"row {before + p + 1}", why, raw) for p, why, raw in bad]
            if caster.aside:
                done = caster.without_aside(done, (f"row {before + place + 1}" for place in done.good))
            building.add([done], rejected)
            before += done.count
            yield from building.full()
        yield from building.rest()


def infer_types(
    stream: io.BufferedReader,
    dialect: Dialect,
    names: Sequence[str],
    connection: duckdb.DuckDBPyConnection,
    part: Part | None = None,
) -> Seen:
    """Return the evidence for the column types of a CSV file. Every record of ``part`` is read, without the header."""
    inference = Inference(names)

    def look(cells: pa.Table, _records_at: RecordsAt, connection: duckdb.DuckDBPyConnection) -> Seen:
        return inference.seen(connection, cells)

    with Workers(connection) as workers:
        for piece in CsvPieces(stream, dialect, names, workers, look, part):
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
