"""Inspect a text file before a load, and find its CSV dialect, its columns and their types."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

import duckdb
import pyarrow as pa

from weft.algebra.schema import NULL, STRING, DataType
from weft.errors import Refused
from weft.extraction.files.columns import check_names
from weft.extraction.files.inference import Evidence, Inference, of_json
from weft.extraction.files.shapes import with_text
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord

_SAMPLE: Final = 1 << 18
_AT_ONCE: Final = 10_000
_BYTES_AT_ONCE: Final = 16 << 20
_LONGEST_NAME: Final = 10_000
"""The maximum length of a column name in JSON, in characters. The limit bounds the memory use."""


def csv_layout(
    opened: Callable[[], AbstractContextManager[io.BufferedReader]], where: str, connection: duckdb.DuckDBPyConnection
) -> tuple[tuple[str, ...], Dialect]:
    """Return the column names in the header line, and the CSV dialect that DuckDB detects.

    Raise Refused if no line can be read as the header. ``where`` names the file.
    """
    with opened() as stream:
        sample = stream.read(_SAMPLE)
    dialect = _dialect(sample[: sample.rfind(b"\n") + 1] or sample, connection)
    with opened() as stream:
        first, _ = CsvRecords(stream, dialect).names()
    if first is None or not isinstance(first.cells, list):
        hint = "Write the column names in the first line of the CSV file."
        raise Refused("the file has no header line", hint=hint, where=where)
    return tuple((name or "").strip() for name in first.cells), dialect


def _dialect(sample: bytes, connection: duckdb.DuckDBPyConnection) -> Dialect:
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(sample)
        file.flush()
        try:
            rows = connection.execute(
                'SELECT "Delimiter", "Quote", "Escape" FROM sniff_csv(?, ignore_errors = true)', [file.name]
            ).fetchall()
        except duckdb.Error:
            return Dialect()
    if not rows:
        return Dialect()
    # DuckDB writes "(empty)" for a character that it did not detect.
    delimiter, quote, escape = (value if value is not None and len(value) == 1 else "" for value in rows[0])
    return Dialect(delimiter or ",", quote or '"', escape if escape not in ("", quote) else None)


def infer_json(
    records: Iterable[TextRecord],
    where: str,
    connection: duckdb.DuckDBPyConnection,
    besides: Collection[str] = (),
) -> dict[str, DataType]:
    """Return the column names and the inferred types of JSON records. Columns are ordered by first appearance.

    Raise Refused for an invalid column name that is not in ``besides``. ``where`` names the file.
    """

    def look(names: Sequence[str]) -> None:
        check_names([name for name in names if name not in besides], where)

    return {name: each.type or STRING for name, each in json_evidence(records, connection, look).items()}


def json_evidence(
    records: Iterable[TextRecord], connection: duckdb.DuckDBPyConnection, look: Callable[[Sequence[str]], None]
) -> dict[str, Evidence]:
    """Return the column names of JSON records and the evidence for their types, in order of first appearance.

    The records are processed in groups. Before each group, ``look`` is called with the column names of the group.
    """
    inference = Inference(())
    kinds: dict[str, set[str]] = {}
    shapes: dict[str, DataType] = {}
    good = (record for record in records if isinstance(record.cells, dict))
    for piece in _pieces(good):
        names: dict[str, None] = {}
        for record in piece:
            names.update(dict.fromkeys(record.cells if isinstance(record.cells, dict) else ()))
            if (longest := max(map(len, names), default=0)) > _LONGEST_NAME:
                raise Refused(f"a column name has {longest:,} characters", where=f"line {record.line}")
            for name, kind in (record.kinds or {}).items():
                kinds.setdefault(name, set()).add(kind)
                if kind == "nested" and isinstance(record.cells, dict):
                    shapes[name] = with_text(shapes.get(name, NULL), str(record.cells[name]))
        look(list(names))
        cells = {
            name: pa.array([r.cells.get(name) if isinstance(r.cells, dict) else None for r in piece], pa.string())
            for name in names
        }
        inference.observe(connection, pa.table(cells))
    return {
        name: of_json(each, frozenset(kinds.get(name, ())), shapes.get(name))
        for name, each in inference.evidence().items()
    }


def _pieces(records: Iterable[TextRecord]) -> Iterator[list[TextRecord]]:
    piece: list[TextRecord] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.raw)
        if len(piece) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
