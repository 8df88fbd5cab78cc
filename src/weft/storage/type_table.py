"""The types that Weft stores, one row a type: names in other systems, Arrow type, and how values are read.

Conversions from Python and Arrow are strict: no value is rounded, truncated or converted to another kind. A str is not
a number, and 1 is not True. Two conversions are not strict. Nanoseconds are truncated to microseconds, as in Parquet
files. DOUBLE values are rounded to FLOAT.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal, localcontext
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.instants import FIRST_INSTANT, LAST_INSTANT, to_date, to_datetime

EXACT: Final = 2**53
"""A DOUBLE represents every integer below this number exactly."""

ArrowTest = Callable[[pa.DataType], bool]


@dataclass(frozen=True)
class TypeRow:
    """A type's row. The functions get the column's Arrow type, which has the digits of a DECIMAL.

    - ``arrow`` is the Arrow type, or None for DECIMAL, whose digits vary.
    - ``duckdb`` is DuckDB's name. ``also`` are other types of DuckDB that are read as this type.
    - ``postgres`` are PostgreSQL's types that are read as this type.
    - ``decode`` reads the text of an answer's value. It raises ValueError or ArithmeticError for another text.
    - ``python`` are the classes of Python values, except for values of ``unlike``. ``accepts`` describes these values.
      ``of_python`` converts a value, or raises ValueError, TypeError, OverflowError or ArithmeticError.
    - ``columns`` test whether an Arrow column has values of the type. Columns of pandas may also pass a test in
      ``pandas``. ``of_arrow`` converts a column, or returns None or raises an error if a value does not fit.
    """

    arrow: pa.DataType | None
    duckdb: str
    also: tuple[str, ...] = ()
    postgres: tuple[str, ...] = ()
    _: KW_ONLY
    decode: Callable[[str], object]
    python: tuple[type, ...]
    unlike: tuple[type, ...] = (bool, dt.datetime)
    accepts: str = ""
    of_python: Callable[[Any, pa.DataType], object] = lambda value, _type: value
    columns: tuple[ArrowTest, ...]
    pandas: tuple[ArrowTest, ...] = ()
    of_arrow: Callable[[pa.ChunkedArray, pa.DataType], pa.ChunkedArray | None] = pc.cast

    def from_python(self, value: Any, type: pa.DataType) -> object:
        """Return a Python value in the form in which a column stores it. The errors of ``of_python`` pass through."""
        if not isinstance(value, self.python) or isinstance(value, self.unlike):
            raise TypeError
        return self.of_python(value, type)

    def from_arrow(self, column: pa.ChunkedArray, type: pa.DataType, of_pandas: bool) -> pa.ChunkedArray | None:
        """Return an Arrow column as a column of the type. The result and the errors are those of ``of_arrow``."""
        tests = (*self.columns, *self.pandas) if of_pandas else self.columns
        return self.of_arrow(column, type) if any(test(column.type) for test in tests) else None


def whole_numbers(type: pa.DataType) -> range:
    """Return the range of an integer type.

    >>> whole_numbers(pa.int8())
    range(-128, 128)
    """
    most = 1 << (type.bit_width - 1)
    return range(-most, most)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _within_python(converted: Callable[[int], object]) -> Callable[[str], object]:
    def decode(text: str) -> object:
        number = int(text)
        try:
            return converted(number)
        except OverflowError:
            return number

    return decode


def _text_of(value: str, _type: pa.DataType) -> str:
    value.encode()  # raises for a lone surrogate
    return str(value)


def _whole_of(value: int, type: pa.DataType) -> int:
    if value not in whole_numbers(type):
        raise OverflowError
    return int(value)


def _float_of(value: float, type: pa.DataType) -> float:
    number = float(value)
    stored = pa.scalar(number, type).as_py() if type == pa.float32() else number
    if math.isfinite(number) and not math.isfinite(stored):
        raise OverflowError
    if isinstance(value, int) and int(stored) != value:
        raise OverflowError
    return number


def _decimal_of(value: Decimal | float, type: pa.DataType) -> Decimal:
    number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError
    with localcontext() as context:
        context.prec = 80
        rounded = number.quantize(Decimal(1).scaleb(-type.scale))
    if rounded != number or (rounded and rounded.adjusted() >= type.precision - type.scale):
        raise OverflowError
    return rounded


def _instant_of(value: Any, _type: pa.DataType) -> dt.datetime:
    if hasattr(value, "to_pydatetime"):
        # Truncate the nanoseconds of a pandas Timestamp, because pandas warns about them. Convert to UTC first, because
        # local time is ambiguous when clocks are set back.
        utc = value if value.tzinfo is None else value.tz_convert("UTC")
        value = utc.floor("us").to_pydatetime()
    aware: dt.datetime = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    return aware.astimezone(dt.timezone.utc)


def _whole_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray | None:
    floats = pa.types.is_floating(column.type)
    if floats and pc.any(pc.greater_equal(pc.abs(column.cast(pa.float64())), float(EXACT))).as_py():
        return None
    return column.cast(type)


def _float_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray | None:
    floats = column.cast(type)
    if type == pa.float32() and pa.types.is_floating(column.type):
        beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(column)))
        return None if pc.any(beyond).as_py() else floats
    return floats


def _decimal_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.string())
        if pc.any(pc.match_substring(column, "e")).as_py():  # Arrow reads 1e-300 as 0
            values = (each and _decimal_of(Decimal(each), type) for each in column.to_pylist())
            return pa.chunked_array([pa.array(values, type)])
    return column.cast(type)


def _is_local_time(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is None


def _day_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray | None:
    if pa.types.is_date(column.type):
        return column.cast(type)
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())  # raises if nanoseconds would be lost
    days = micros.cast(pa.timestamp("us")).cast(type)
    midnights = days.cast(pa.timestamp("us")).cast(pa.int64())
    return days if pc.all(pc.equal(midnights, micros)).as_py() else None


def _instant_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray | None:
    plain = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))  # the integer behind a timestamp is always UTC
    if column.type.unit == "ns":
        plain = pc.floor_temporal(plain, unit="microsecond")
    micros = plain.cast(pa.timestamp("us"), safe=column.type.unit != "ns").cast(pa.int64())
    bounds = pc.min_max(micros).as_py()
    return micros.cast(type) if bounds["min"] >= FIRST_INSTANT and bounds["max"] <= LAST_INSTANT else None


_WHOLE: Final = partial(
    TypeRow,
    decode=int,
    python=(int,),
    of_python=_whole_of,
    columns=(pa.types.is_integer,),
    pandas=(pa.types.is_floating,),
    of_arrow=_whole_column,
)
_FLOATING: Final = partial(
    TypeRow,
    decode=float,
    python=(float, int),
    accepts="a float or an int",
    of_python=_float_of,
    columns=(pa.types.is_floating, pa.types.is_integer),
    of_arrow=_float_column,
)
_TIMES: Final = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)

TYPES: Final[Mapping[str, TypeRow]] = {
    "STRING": TypeRow(
        arrow=pa.string(),
        duckdb="VARCHAR",
        decode=str,
        python=(str,),
        accepts="a str",
        of_python=_text_of,
        columns=(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    ),
    "BOOLEAN": TypeRow(
        arrow=pa.bool_(),
        duckdb="BOOLEAN",
        postgres=("bool",),
        decode=_boolean,
        python=(bool,),
        unlike=(),
        accepts="a bool",
        columns=(pa.types.is_boolean,),
    ),
    "TINYINT": _WHOLE(pa.int8(), "TINYINT"),
    "SMALLINT": _WHOLE(pa.int16(), "SMALLINT", ("UTINYINT",), ("int2",)),
    "INT": _WHOLE(pa.int32(), "INTEGER", ("USMALLINT",), ("int4",)),
    "BIGINT": _WHOLE(pa.int64(), "BIGINT", ("UINTEGER",), ("int8",)),
    "FLOAT": _FLOATING(pa.float32(), "FLOAT", (), ("float4",)),
    "DOUBLE": _FLOATING(pa.float64(), "DOUBLE", (), ("float8",)),
    "DECIMAL": TypeRow(
        arrow=None,
        duckdb="DECIMAL",
        decode=Decimal,
        python=(Decimal, int, float),
        of_python=_decimal_of,
        columns=(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        of_arrow=_decimal_column,
    ),
    "DATE": TypeRow(
        arrow=pa.date32(),
        duckdb="DATE",
        postgres=("date",),
        decode=_within_python(to_date),
        python=(dt.date,),
        accepts="a date",
        columns=(pa.types.is_date,),
        pandas=(_is_local_time,),
        of_arrow=_day_column,
    ),
    "TIMESTAMP": TypeRow(
        arrow=pa.timestamp("us", tz="UTC"),
        duckdb="TIMESTAMPTZ",
        also=_TIMES,
        postgres=("timestamp", "timestamptz"),
        decode=_within_python(to_datetime),
        python=(dt.datetime,),
        unlike=(),
        accepts="a datetime, UTC if it has no time zone",
        of_python=_instant_of,
        columns=(pa.types.is_timestamp,),
        of_arrow=_instant_column,
    ),
    "BINARY": TypeRow(
        arrow=pa.binary(),
        duckdb="BLOB",
        postgres=("bytea",),
        decode=partial(base64.b64decode, validate=True),
        python=(bytes, bytearray, memoryview),
        accepts="bytes",
        of_python=lambda value, _type: bytes(value),
        columns=_BYTES,
    ),
}
