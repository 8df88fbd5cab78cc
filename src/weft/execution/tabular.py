"""Convert rows with typed columns to Arrow, pandas, dicts and Spark, and to HTML for notebooks.

To stream the rows of a DataFrame, executors write the rows to files, and this module reads one file after the other.
Collecting the rows would need memory for all rows.
"""

from __future__ import annotations

import datetime as dt
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from weft.algebra.schema import STRING, DataType
from weft.catalog import layout
from weft.catalog.naming import distinct
from weft.errors import Refused
from weft.instants import DAY_US, to_datetime, value_text
from weft.printable import Brief, one_line
from weft.runtime.session import plain_errors
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from weft.storage.data_files import NewFile
    from weft.storage.values import Value

Columns: TypeAlias = Sequence[tuple[str, DataType]]

_DAY_ZERO: Final = dt.date(1970, 1, 1).toordinal()
_SHOWN: Final = 20
_LONGEST: Final = 200


class Tabular(Brief):
    """Ordered rows, each a tuple of values (``storage.values.Value``).

    The columns have the query's names. A repeated column name gets a number. Instants are datetimes in UTC. An instant
    beyond the range of Python's datetime is a number of microseconds since 1970. A date beyond the range of Python's
    date is a number of days since 1970. In a tuple, a nested value is JSON text. Conversions give nested objects.
    """

    @abstractmethod
    def _typed(self) -> Columns:
        """Return the names and types of the columns."""

    @abstractmethod
    def _values(self) -> Iterator[tuple[Value, ...]]:
        """An instant may be a number of microseconds."""

    @abstractmethod
    def _total(self) -> int:
        """Return the number of rows before the limit."""

    @abstractmethod
    def _session(self) -> SparkSession:
        """Return the Spark session in which ``spark`` creates a DataFrame."""

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table in memory. Instants are in microseconds UTC, and columns may be nested."""
        from weft.storage.typed_answers import typed_table

        return typed_table(self._typed(), self._values())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.

        If a column of integers or BOOLEAN contains NULL, pandas' nullable types (``Int64``, ``boolean``) keep every
        digit. Values of nested columns are dicts and lists. Raise Refused if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise Refused(
                "pandas is not installed", hint="Run pip install pandas, or use to_arrow() or to_dicts()."
            ) from None
        import pyarrow as pa

        from weft.storage.typed_answers import typed_table

        columns = self._typed()
        table = typed_table([(name, STRING if kind.json else kind) for name, kind in columns], self._values())
        apart = {}
        for place, (_, own) in enumerate(columns):
            values = _far(table.column(place)) if own.json is None else _all_opened(table.column(place), own)
            if values is not None:
                apart[table.column_names[place]] = pd.Series(values, dtype=object)
                table = table.set_column(place, table.column_names[place], pa.nulls(len(values)))
        frame = table.to_pandas()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name in apart:
                frame[name] = apart[name]
            elif column.null_count and (kind := _NULLABLE.get(str(column.type))) is not None:
                frame[name] = pd.array(column.to_pylist(), dtype=kind)
        return frame

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict from column names to values. Values of nested columns are dicts and lists."""
        columns = self._typed()
        names = distinct([name for name, _ in columns])
        kinds = [kind for _, kind in columns]
        return [dict(zip(names, map(_opened, row, kinds), strict=True)) for row in self._values()]

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame. Start the home's session if necessary. Raise ExecutionError."""
        from weft.execution.driver_reader import local_frame

        return local_frame(self._session(), self.to_arrow())

    def _repr_html_(self) -> str:
        columns = self._typed()
        names = distinct([name for name, _ in columns])
        shown = list(islice(self._values(), _SHOWN))
        head = "".join(
            f"<th title='{escape(kind.declared)}'>{_cell(name)}</th>"
            for name, (_, kind) in zip(names, columns, strict=True)
        )
        kinds = [kind for _, kind in columns]
        rows = "".join(f"<tr>{''.join(map(_datum, row, kinds))}</tr>" for row in shown)
        rest = self._total() - len(shown)
        more = f"<p>and {rest:,} more</p>" if rest else ""
        return f"<p>{_cell(self._brief())}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def columns_text(columns: Iterable[tuple[str, DataType]]) -> str:
    """Return the names and types of the columns as one line of text."""
    return ", ".join(f"{name} {kind.declared}" for name, kind in columns)


_NULLABLE: Final = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "bool": "boolean"}


def _far(column: pa.ChunkedArray) -> list[dt.date | int | None] | None:
    """Return the dates of a column, or None if Python and pandas can represent every value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type != pa.date32() or column.null_count == len(column):
        return None
    days = column.cast(pa.int32())
    bounds = pc.min_max(days).as_py()
    first, last = (each.toordinal() - _DAY_ZERO for each in (dt.date.min, dt.date.max))
    if first <= bounds["min"] and bounds["max"] <= last:
        return None
    return [
        dt.date.fromordinal(day + _DAY_ZERO) if day is not None and first <= day <= last else day
        for day in days.to_pylist()
    ]


def _all_opened(texts: pa.ChunkedArray, kind: DataType) -> list[Any]:
    return [_opened(text, kind) for text in texts.to_pylist()]


def _opened(value: Value, kind: DataType) -> Any:
    if isinstance(value, str) and kind.json is not None:
        from weft.storage.nested import nested_value

        return nested_value(value, kind.json)
    return _moment(value) if kind.name == "TIMESTAMP" else value


def _moment(value: Value) -> Value:
    if not isinstance(value, int):
        return value
    try:
        return to_datetime(value)
    except OverflowError:
        return value


def _cell(value: object) -> str:
    return escape(one_line(str(value), _LONGEST))


def _datum(value: Value, kind: DataType) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    if kind.name == "TIMESTAMP":
        value = _moment(value)
    side = " style='text-align: right'" if kind.numeric and kind.shape is None else ""
    shown = str(value) if isinstance(value, dt.datetime) else value_text(value)
    return f"<td{side}>{_cell(shown)}</td>"


_ROWS: Final = 10_000


@contextmanager
def spark_rows(frame: DataFrame, data: Store, at: int) -> Iterator[Iterator[pa.Table]]:
    """Provide the frame's rows as Arrow tables, in the order of its partitions. Executors write them into files.

    ``at`` is the wall clock time (µs UTC). Folders of dead processes are deleted after a day. Raise ExecutionError if
    Spark cannot compute the rows. Raise StorageError if the files cannot be read.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    from weft.execution.executor_files import write_files
    from weft.storage.data_files import FileForm

    parent = data / layout.GIVEN
    for name in parent.names():
        with suppress(FileNotFoundError):  # another process may delete its folder at the same time
            if (parent / name).modified_ms() * 1_000 < at - DAY_US:
                (parent / name).clear()
    folder = parent / str(uuid.uuid4())
    folder.make()
    try:
        with plain_errors("computing the rows of the DataFrame"):
            schema = to_arrow_schema(frame.schema)
            files = write_files(frame, FileForm(folder, schema, ()))
        yield _read(files, schema)
    finally:
        folder.clear()


def _read(files: Sequence[NewFile], schema: pa.Schema) -> Iterator[pa.Table]:
    import pyarrow as pa

    from weft.storage.data_files import file_batches
    from weft.storage.delta_log import DataFile

    yield schema.empty_table()
    for new in files:
        for batch in file_batches(DataFile(new.location, new.size, new.rows, {}, {}), schema, batch_rows=_ROWS):
            yield pa.Table.from_batches([batch])
