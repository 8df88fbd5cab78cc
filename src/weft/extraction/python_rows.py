"""Convert dicts of Python values strictly to the columns of a table: a str is not a number, and 1 is not True."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, localcontext
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.nested_values import json_of
from weft.extraction.row_values import BITS, Columns, no_column, shown, wrong_value
from weft.storage.columns import arrow_type

_MISSING: Final = ("NaTType", "NAType")
"""The class names of missing values in pandas."""


def from_dicts(rows: Iterable[object], columns: Columns, source: str) -> Iterator[dict[str, object]]:
    """Yield each row as a dict of column values. Missing names, None, NaT and NA become NULL.

    Raises Refused for a value that ``value_of`` rejects. The error names the row (from 1), the column and the value.
    """
    kinds = dict(columns)
    for number, row in enumerate(rows, 1):
        where = f"{source}, row {number}"
        if not isinstance(row, Mapping):
            raise Refused(
                f"a {type(row).__name__} is not a row", where=where, hint="Write each row as a dict, such as {'id': 1}."
            )
        other = next((name for name in row if name not in kinds), None)
        if other is not None:
            raise no_column(other, columns, where)
        values = {}
        for name, kind in columns:
            try:
                values[name] = value_of(row.get(name), kind)
            except (ValueError, TypeError, OverflowError, ArithmeticError):
                raise wrong_value(name, kind, shown(row[name]), where) from None
        yield values


def value_of(value: Any, kind: DataType) -> object:
    """Return the value in the form in which a column of this type stores it.

    NumPy scalars are treated like Python scalars. DECIMAL accepts a Decimal, an int, or a float. The shortest
    representation of the float must fit. FLOAT and DOUBLE accept an int that they represent exactly. A datetime without
    a time zone is read as UTC. Raises ValueError, TypeError, OverflowError or ArithmeticError for other values.
    """
    if value is None or type(value).__name__ in _MISSING:
        return None
    if _of_numpy(value):
        if value.dtype.kind == "m":
            raise TypeError  # a timedelta64 in nanoseconds would become an int, like a datetime64
        value = (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).item()
        if value is None:
            return None
    if kind.shape is not None:
        return json_of(value, kind.shape)
    taken = _TAKEN.get(kind.name)
    if taken is None:
        return pa.array([value], arrow_type(kind))[0].as_py()
    return taken(value, kind)


def _of_numpy(value: object) -> bool:
    """Return whether the value is a NumPy scalar, without importing NumPy."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


def _text(value: Any, _kind: DataType) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # raises for a lone surrogate
    return str(value)


def _boolean(value: Any, _kind: DataType) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any, kind: DataType) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    most = 2 ** (BITS[kind.name] - 1)
    if not -most <= value < most:
        raise OverflowError
    return int(value)


def _float(value: Any, kind: DataType) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    number = float(value)
    stored = pa.scalar(number, pa.float32()).as_py() if kind.name == "FLOAT" else number
    if math.isfinite(number) and not math.isfinite(stored):
        raise OverflowError
    if isinstance(value, int) and int(stored) != value:
        raise OverflowError
    return number


def _decimal(value: Any, kind: DataType) -> Decimal:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        raise TypeError
    number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError
    precision, scale = kind.precision or 0, kind.scale or 0
    with localcontext() as context:
        context.prec = 80
        rounded = number.quantize(Decimal(1).scaleb(-scale))
    if rounded != number or (rounded and rounded.adjusted() >= precision - scale):
        raise OverflowError
    return rounded


def _day(value: Any, _kind: DataType) -> dt.date:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise TypeError
    return value


def _instant(value: Any, _kind: DataType) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise TypeError
    if hasattr(value, "to_pydatetime"):
        # Truncate the nanoseconds of a pandas Timestamp, because pandas warns about them. Convert to UTC first, because
        # local time is ambiguous when clocks are set back.
        utc: Any = value if value.tzinfo is None else value.tz_convert("UTC")  # type: ignore[attr-defined]
        value = utc.floor("us").to_pydatetime()
    aware: dt.datetime = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    return aware.astimezone(dt.timezone.utc)


def _bytes(value: Any, _kind: DataType) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return bytes(value)


_TAKEN: Final[Mapping[str, Callable[[Any, DataType], object]]] = {
    "STRING": _text,
    "BOOLEAN": _boolean,
    **dict.fromkeys(BITS, _whole),
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _decimal,
    "DATE": _day,
    "TIMESTAMP": _instant,
    "BINARY": _bytes,
}
