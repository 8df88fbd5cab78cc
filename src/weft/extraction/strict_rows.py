"""Convert dicts of Python values and Arrow rows strictly to the columns of a table (see ``storage.type_table``)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import INTEGRAL, DataType
from weft.errors import Refused
from weft.extraction.nested_values import json_of
from weft.extraction.row_values import Columns, no_column, shown, wrong_value
from weft.storage.columns import arrow_type
from weft.storage.type_table import EXACT, TYPES

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
    return TYPES[kind.name].from_python(value, arrow_type(kind))


def _of_numpy(value: object) -> bool:
    """Return whether the value is a NumPy scalar, without importing NumPy."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


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
        and kind.name in INTEGRAL
        and pa.types.is_floating(column.type)
        and EXACT <= abs(column[low].as_py()) < 2**63
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
        return TYPES[kind.name].from_arrow(column, arrow_type(kind), of_pandas)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, KeyError):
        return None
