"""Read rows that a Python program passes: dicts, JSON lines, Arrow, and DataFrames of pandas, polars and Spark.

Weft does not import pandas, polars or PySpark here. A program that has a DataFrame has already imported the library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa

from weft.errors import Refused
from weft.extraction.batches import MAX_LINE, Row, batches_of
from weft.extraction.byte_streams import long_line
from weft.extraction.row_values import Columns, listed, shown, wrong_value
from weft.extraction.strict_rows import check_names, from_arrow, from_dicts, value_of
from weft.extraction.typed_rows import CsvRows, TextRow, from_csv, from_json, from_texts
from weft.printable import counted
from weft.storage.columns import arrow_type

Pieces: TypeAlias = Iterator[pa.Table]
"""Rows in Arrow tables of bounded size."""
Reader: TypeAlias = Callable[[Columns], Pieces]
"""A function that returns rows with exactly the given columns, or raises Refused if a row does not fit."""
Written: TypeAlias = Callable[[Any], AbstractContextManager[Iterable[pa.Table]]]
"""A function that returns the rows of a Spark DataFrame in Arrow tables of bounded size."""

_ROWS: Final = 10_000

_FORMS: Final = "Pass dicts, lines of JSON, or a table of pyarrow, pandas, polars or Spark."


def reader_of(rows: Any, written: Written) -> tuple[Reader, str]:
    """Return a reader for ``rows``, and a name for messages. Raise Refused if the object does not contain rows."""
    if isinstance(rows, TextRow):
        return _texts(rows), "given values"
    if isinstance(rows, CsvRows):
        return lambda columns: _in_pieces(from_csv(rows.stream, columns, "the rows"), columns), "the rows"
    if isinstance(rows, Mapping):
        return _python([rows]), "this row"
    if isinstance(rows, str | bytes):
        raise Refused(
            f"a single {type(rows).__name__} is not a sequence of rows",
            hint="Pass lines, such as the lines of open(path, 'rb').",
        )
    if _is(rows, "pandas", "DataFrame"):
        return partial(_pandas, rows), "the DataFrame"
    if _is(rows, "pyspark.sql", "DataFrame"):
        return partial(_spark, rows, written), "the DataFrame"
    if _is(rows, "polars", "LazyFrame"):
        raise Refused("a LazyFrame has no rows yet", hint="Pass rows.collect().")
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):  # pyarrow, polars, DuckDB
        return partial(_arrow, rows), "these rows"
    if not isinstance(rows, Iterable):
        raise Refused(f"an object of type {type(rows).__name__} does not contain rows", hint=_FORMS)
    return _iterable(rows)


def _is(rows: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(rows, kind)


def _in_pieces(rows: Iterable[dict[str, object]], columns: Columns) -> Pieces:
    names = [name for name, _ in columns]
    for batch in batches_of((Row(row, None) for row in rows), columns, max_rows=_ROWS):
        yield batch.rows.select(names)


def _texts(row: TextRow) -> Reader:
    return lambda columns: _in_pieces([from_texts(row.values, columns, "given values")], columns)


def _python(rows: Iterable[object], source: str = "these rows") -> Reader:
    return lambda columns: _in_pieces(from_dicts(rows, columns, source), columns)


def _iterable(rows: Iterable[object]) -> tuple[Reader, str]:
    name = getattr(rows, "name", None)
    rest = _limited(rows) if hasattr(rows, "readline") else iter(rows)
    first = next(rest, None)
    items = rest if first is None else chain([first], rest)
    if not isinstance(first, str | bytes):
        return _python(items), "these rows"
    source = name if isinstance(name, str) else "these lines"
    lines = _lines(items, source)
    return lambda columns: _in_pieces(from_json(lines, columns, source), columns), source


def _limited(file: Any) -> Iterator[str | bytes]:
    while line := file.readline(MAX_LINE + 1):
        yield line


def _lines(items: Iterable[object], source: str) -> Iterator[bytes]:
    for number, line in enumerate(items, 1):
        where = f"{source}, line {number}"
        if not isinstance(line, str | bytes):
            hint = "Pass only lines of JSON, or only dicts."
            raise Refused(f"a {type(line).__name__} is not a line of JSON", where=where, hint=hint)
        if len(line) > MAX_LINE:
            raise Refused(long_line(), where=where, hint="Write each row as one line of JSON.")
        try:
            yield line.encode() if isinstance(line, str) else line
        except UnicodeEncodeError:
            hint = "Open the file with open(path, 'rb'), so that its bytes are read unchanged."
            raise Refused("the line is not valid text: it contains a lone surrogate", where=where, hint=hint) from None


def _arrow(rows: Any, columns: Columns) -> Pieces:
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
    except (pa.ArrowException, TypeError):
        raise Refused(f"a {type(rows).__name__} is not a table", hint=_FORMS) from None
    pieces = (
        pa.Table.from_batches([batch.slice(at, _ROWS)])
        for batch in _read_to_the_end(reader)
        for at in range(0, max(batch.num_rows, 1), _ROWS)
    )
    yield from from_arrow(chain([pa.Table.from_batches([], reader.schema)], pieces), columns, "these rows")


def _read_to_the_end(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    before = 0
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            where = f"these rows, after row {before}"
            hint = "Nothing was stored. Correct the source of the rows, and append again."
            raise Refused(f"reading the rows failed: {reason}", where=where, hint=hint) from error
        yield batch
        before += batch.num_rows


def _spark(rows: Any, written: Written, columns: Columns) -> Pieces:
    check_names(rows.columns, columns, "the DataFrame")  # before Spark computes it
    with written(rows) as pieces:
        yield from from_arrow(pieces, columns, "the DataFrame")


def _pandas(rows: Any, columns: Columns) -> Pieces:
    check_names(rows.columns, columns, "the DataFrame")
    rows = _with_levels(rows, columns)
    kinds = {name: kind for name, kind in columns if name in rows.columns}
    if len(rows) and not kinds:
        raise Refused(
            f"the DataFrame has {counted(len(rows), 'row')}, but no columns",
            where="the DataFrame",
            hint=listed(columns),
        )

    def pieces() -> Pieces:
        for at in range(0, max(len(rows), 1), _ROWS):
            part = rows.iloc[at : at + _ROWS]
            arrays = [_series(part[name], name, kind, at) for name, kind in kinds.items()]
            yield pa.table(arrays, names=list(kinds)) if arrays else pa.table({}).select([])

    yield from from_arrow(pieces(), columns, "the DataFrame", of_pandas=True)


def _with_levels(rows: Any, columns: Columns) -> Any:
    """Return the DataFrame with the named index levels as columns. An index level that repeats a column is dropped."""
    same = [
        place
        for place, name in enumerate(rows.index.names)
        if name in rows.columns and rows.index.get_level_values(place).equals(rows[[name]].set_index(name).index)
    ]
    if same:
        rows = rows.reset_index(level=same, drop=True)
    named = [name for name in rows.index.names if name is not None]
    check_names([*rows.columns, *named], columns, "the DataFrame")
    return rows.reset_index(level=named) if named else rows


def _series(values: Any, name: str, kind: Any, before: int) -> pa.Array:
    """Return a column as an Arrow array. NaN counts as a missing value."""
    if values.dtype != object:
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError):
            raise wrong_value(name, kind, f"a column of {values.dtype}", "the DataFrame") from None
    converted = []
    for place, value in enumerate(values, before + 1):
        missing = isinstance(value, float) and value != value
        try:
            converted.append(None if missing else value_of(value, kind))
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            raise wrong_value(name, kind, shown(value), f"the DataFrame, row {place}") from None
    return pa.array(converted, arrow_type(kind))
