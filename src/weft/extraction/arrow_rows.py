"""Convert Arrow rows strictly to the columns of a table: no value is rounded, truncated or converted to another kind.

Two conversions are not strict. Nanoseconds are truncated to microseconds, as in Parquet files. DOUBLE values are
rounded to FLOAT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.nested_values import json_of
from weft.extraction.python_rows import value_of
from weft.extraction.row_values import BITS, Columns, no_column, shown, wrong_value
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.columns import INSTANT, arrow_type

_EXACT: Final = 2**53
"""A DOUBLE represents every integer below this number exactly."""


def from_arrow(
    pieces: Iterable[pa.Table], columns: Columns, source: str, *, of_pandas: bool = False
) -> Iterator[pa.Table]:
    """Yield each piece with exactly the given columns and types. A missing column is filled with NULL.

    DECIMAL, FLOAT, DOUBLE and integer columns accept integers in their range. A DECIMAL column accepts a float if the
    shortest decimal form of the float fits. Timestamps may have any unit. Timestamps without a time zone are UTC.

    pandas stores integers with missing values as floats. If ``of_pandas`` is True, integer columns therefore accept
    integral floats below 2**53, and DATE columns accept timestamps at midnight.

    Raises Refused for any other value. The error names the row (from 1), the column and the value.
    """
    before = 0
    for piece in pieces:
        check_names(piece.column_names, columns, source)
        yield pa.table(
            [
                _column(piece, name, kind, (source, before), of_pandas)
                if name in piece.column_names
                else _nulls(piece, kind)
                for name, kind in columns
            ],
            names=[name for name, _ in columns],
        )
        before += piece.num_rows


def check_names(names: Iterable[object], columns: Columns, source: str) -> None:
    """Raise Refused if ``names`` contains a duplicate or a name that is not a column."""
    known, seen = dict(columns), set()
    for name in names:
        if name not in known:
            raise no_column(name, columns, source)
        if name in seen:
            raise Refused(
                f"the column {name} occurs twice", where=source, hint="Rename or drop one of the two columns."
            )
        seen.add(name)


def _nulls(piece: pa.Table, kind: DataType) -> pa.Array:
    return pa.nulls(piece.num_rows, arrow_type(kind))


def _column(piece: pa.Table, name: str, kind: DataType, place: tuple[str, int], of_pandas: bool) -> pa.ChunkedArray:
    column = piece.column(name)
    if (converted := _converted(column, kind, of_pandas)) is not None:
        return converted
    low, high = 0, len(column)  # the first invalid value is in this range
    while high - low > 1:
        middle = (low + high) // 2
        if _converted(column.slice(low, middle - low), kind, of_pandas) is None:
            high = middle
        else:
            low = middle
    source, before = place
    hint = None
    if (
        of_pandas
        and kind.name in BITS
        and pa.types.is_floating(column.type)
        and _EXACT <= abs(column[low].as_py()) < 2**63
    ):
        hint = f'pandas may have rounded an integer to this float: pass {name} with dtype="Int64".'
    raise wrong_value(name, kind, _shown(column[low]), f"{source}, row {before + low + 1}", hint)


def _shown(value: pa.Scalar) -> str:
    try:
        return shown(value.as_py())
    except (ValueError, OverflowError):  # outside the range of Python's types
        return f"{getattr(value, 'value', 'a value')} ({value.type})"


def _converted(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
    """Return the column cast to the type ``kind``, or None if a value does not fit the type."""
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), arrow_type(kind))])
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if kind.shape is not None:
            values = column.to_pylist(maps_as_pydicts="strict")  # raises KeyError for a repeated key
            return pa.chunked_array(
                [pa.array([None if v is None else json_of(v, kind.shape) for v in values], pa.string())]
            )
        return _CONVERSIONS.get(kind.name, _cast)(column, kind, of_pandas)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, KeyError):
        return None


def _cast(column: pa.ChunkedArray, kind: DataType, _of_pandas: bool) -> pa.ChunkedArray:
    return column.cast(arrow_type(kind))


def _of(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.ChunkedArray, DataType, bool], pa.ChunkedArray | None]:

    def convert(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
        return _cast(column, kind, of_pandas) if any(test(column.type) for test in tests) else None

    return convert


def _whole(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
    floats = of_pandas and pa.types.is_floating(column.type)
    if floats and pc.any(pc.greater_equal(pc.abs(column.cast(pa.float64())), float(_EXACT))).as_py():
        return None
    return _cast(column, kind, of_pandas) if floats or pa.types.is_integer(column.type) else None


def _float(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    floats = _cast(column, kind, of_pandas)
    if kind.name == "FLOAT" and pa.types.is_floating(column.type):
        beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(column)))
        return None if pc.any(beyond).as_py() else floats
    return floats


def _decimal(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    elif pa.types.is_floating(column.type):
        texts = column.cast(pa.string())
        if pc.any(pc.match_substring(texts, "e")).as_py():  # Arrow reads 1e-300 as 0
            values = (each and value_of(Decimal(each), kind) for each in texts.to_pylist())
            return pa.chunked_array([pa.array(values, arrow_type(kind))])
        column = texts
    elif not pa.types.is_decimal(column.type):
        return None
    return _cast(column, kind, of_pandas)


def _day(column: pa.ChunkedArray, kind: DataType, of_pandas: bool) -> pa.ChunkedArray | None:
    if pa.types.is_date(column.type):
        return _cast(column, kind, of_pandas)
    if not (of_pandas and pa.types.is_timestamp(column.type) and column.type.tz is None):
        return None
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())  # raises if nanoseconds would be lost
    days = micros.cast(pa.timestamp("us")).cast(pa.date32())
    midnights = days.cast(pa.timestamp("us")).cast(pa.int64())
    return days if pc.all(pc.equal(midnights, micros)).as_py() else None


def _instant(column: pa.ChunkedArray, _kind: DataType, _of_pandas: bool) -> pa.ChunkedArray | None:
    if not pa.types.is_timestamp(column.type):
        return None
    plain = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))  # the integer behind a timestamp is always UTC
    if column.type.unit == "ns":
        plain = pc.floor_temporal(plain, unit="microsecond")
    micros = plain.cast(pa.timestamp("us"), safe=column.type.unit != "ns").cast(pa.int64())
    bounds = pc.min_max(micros).as_py()
    inside = bounds["min"] >= FIRST_INSTANT and bounds["max"] <= LAST_INSTANT
    return micros.cast(INSTANT) if inside else None


_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_CONVERSIONS: Final[Mapping[str, Callable[[pa.ChunkedArray, DataType, bool], Any]]] = {
    "STRING": _of(*_TEXTS),
    "BOOLEAN": _of(pa.types.is_boolean),
    **dict.fromkeys(BITS, _whole),
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _decimal,
    "DATE": _day,
    "TIMESTAMP": _instant,
    "BINARY": _of(*_BYTES),
}
