"""Render answers as JSON lines and as CSV.

The columns ``_ordinal``, ``_first_at`` and ``_tick`` come first.  Instants are in RFC 3339 format, in UTC.  DECIMAL
values are text, which preserves all digits.  BINARY values are base64 text.  Intervals are text in ISO 8601 format.
NaN and the infinities are text, because JSON has no such numbers.  A value of a nested type is a JSON object or array.
CSV contains a nested value as JSON text.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from weft.algebra.schema import DataType
from weft.instants import format_duration, format_rfc3339, from_datetime
from weft.storage.ledger import ResultRow
from weft.storage.nested import nested_value
from weft.storage.typed_answers import Columns

_OWN_FIELDS: Final = ("_ordinal", "_first_at", "_tick")
# The characters that start a formula in a spreadsheet, or that a spreadsheet skips before a formula.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def field_names(columns: Iterable[str]) -> list[str]:
    """Return the field names of a delivered row: Weft's own names, then the columns.  A repeated name gets a number.

    >>> field_names(["a", "b", "a"])
    ['_ordinal', '_first_at', '_tick', 'a', 'b', 'a_2']
    """
    names = list(_OWN_FIELDS)
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def json_values(row: ResultRow, columns: Columns) -> list[Json]:
    """Return the values of one row as JSON values, in the order of ``field_names``."""
    values = (json_value(value, kind) for value, (_, kind) in zip(row.values, columns, strict=True))
    return [row.ordinal, format_rfc3339(row.first_at), row.tick, *values]


def json_object(columns: Columns, values: Iterable[object]) -> dict[str, Json]:
    """Return a JSON object with one field for each column.  The column names must be distinct."""
    return {name: json_value(value, kind) for (name, kind), value in zip(columns, values, strict=True)}


def json_value(value: object, kind: DataType) -> Json:
    """Return a value of the type ``kind`` as a JSON value."""
    if isinstance(value, str) and kind.json is not None:
        return _json(nested_value(value, kind.json))
    return _json(value)


def _json(value: Any) -> Json:
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else _float_text(value)
        case dict():
            return {name: _json(each) for name, each in value.items()}
        case list():
            return [_json(each) for each in value]
        case _:
            return _text(value)


def json_line(names: list[str], row: ResultRow, columns: Columns) -> str:
    """Return a row as a line of JSON.  ``names`` is the result of ``field_names``."""
    fields = dict(zip(names, json_values(row, columns), strict=True))
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def csv_header(names: list[str]) -> str:
    """Return the header line of a CSV file."""
    return ",".join(_quoted(name) for name in names) + "\n"


def csv_line(row: ResultRow) -> str:
    """Return a row as a line of CSV.  NULL is an empty cell, and an empty text is ``""``.

    Text that a spreadsheet would evaluate as a formula gets the prefix ``'``.
    """
    return csv_cells([row.ordinal, format_rfc3339(row.first_at), row.tick, *row.values])


def csv_cells(values: Iterable[object]) -> str:
    """Return the values as a line of CSV, in the format of ``csv_line``."""
    return ",".join(map(_cell, values)) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, int):
        return str(value)
    return _text(value)


def _quoted(text: str) -> str:
    safe = "'" + text if text.startswith(_FORMULA_STARTS) else text
    if not safe or any(mark in safe for mark in ',"\r\n') or safe != safe.strip():
        return '"' + safe.replace('"', '""') + '"'
    return safe


def _text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return format_rfc3339(from_datetime(value))
    if isinstance(value, dt.timedelta):
        return format_duration(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return str(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
