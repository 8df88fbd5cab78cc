"""Convert the stored JSON text of nested columns to Python and Arrow values."""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from weft.algebra.schema import MOST_DIGITS, DataType
from weft.errors import StorageError
from weft.storage.columns import arrow_type
from weft.storage.json_text import NOT_FINITE, day_of, expanded_year_time, instant_of, number_text, parsed, to_json
from weft.storage.type_table import whole_numbers


def nested_value(text: str, shape: DataType) -> Any:
    """Convert a JSON text of the type ``shape`` to dicts, lists, dates, aware datetimes and Decimals.

    A field that is missing or has another type becomes None, because the field may be newer than the text. Raise
    StorageError if the text as a whole has another type.

    >>> nested_value('{"a": [1, null], "c": 7}', DataType.parse_nested("STRUCT<a: ARRAY<INT>, b: DATE>"))
    {'a': [1, None], 'b': None}
    """
    try:
        return _value(parsed(text), shape)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{text[:40]!r} is not a stored {shape}") from error


def nested_array(texts: Sequence[str | None], shape: DataType) -> pa.Array:
    """Convert JSON texts to a typed Arrow array. The errors of ``nested_value`` pass through."""
    values = (None if text is None else _pairs(nested_value(text, shape), shape) for text in texts)
    return pa.array(list(values), arrow_type(shape))


def _value(value: Any, shape: DataType) -> Any:
    """Raise ValueError if the value is not of the type ``shape``. A field of another type becomes None."""
    match shape.name, value:
        case _, None:
            return None
        case "STRUCT", dict():
            return {name: _field(value.get(name), kind) for name, kind in shape.fields}
        case "MAP", dict():
            return {_text(name): _value(each, element_type(shape)) for name, each in value.items()}
        case "ARRAY", list():
            return [_value(each, element_type(shape)) for each in value]
        case "STRING", _:
            return _text(value)
        case "BOOLEAN", bool():
            return value
        case "DATE" | "TIMESTAMP", str():
            return _time(value, shape)
        case (("STRUCT" | "MAP" | "ARRAY" | "BOOLEAN" | "DATE" | "TIMESTAMP"), _):
            raise ValueError(f"no {shape.name}")
        case _:
            return _number(value, shape)


def _field(value: Any, kind: DataType) -> Any:
    """Return None for a value of another type, because the field may be newer than the text."""
    try:
        return _value(value, kind)
    except ValueError:
        return None


def _text(value: Any) -> str:
    written = value if isinstance(value, str) and number_text(value) is None else to_json(value)
    return written.encode("utf-8", "replace").decode()  # an unpaired surrogate becomes a question mark, as in Spark


def _time(text: str, shape: DataType) -> Any:
    """Return a date or an instant. Outside Python's years, return an integer."""
    near = day_of(text) if shape.name == "DATE" else instant_of(text)
    if near is not None:
        return near
    far = expanded_year_time(text, instant=shape.name == "TIMESTAMP")
    if far is None:
        raise ValueError("no time")
    return far


def _number(value: Any, shape: DataType) -> Any:
    written = number_text(value)
    if written is None and not (shape.name in ("FLOAT", "DOUBLE") and value in NOT_FINITE):
        raise ValueError("no number")
    if shape.name in ("FLOAT", "DOUBLE"):
        return float(value)
    if shape.name == "DECIMAL":
        return _decimal(str(written), shape)
    if (number := int(value)) not in whole_numbers(arrow_type(shape)):
        raise ValueError("too large")
    return number


def _decimal(written: str, shape: DataType) -> decimal.Decimal:
    digits = decimal.Context(prec=shape.precision or MOST_DIGITS, rounding=decimal.ROUND_HALF_UP)
    try:
        return decimal.Decimal(written).quantize(decimal.Decimal(1).scaleb(-(shape.scale or 0)), context=digits)
    except decimal.InvalidOperation:
        raise ValueError("too many digits") from None


def _pairs(value: Any, shape: DataType) -> Any:
    if value is None or not shape.nested:
        return value
    match shape.name:
        case "STRUCT":
            return {name: _pairs(value[name], kind) for name, kind in shape.fields}
        case "MAP":
            return [(name, _pairs(each, element_type(shape))) for name, each in value.items()]
        case _:
            return [_pairs(each, element_type(shape)) for each in value]


def element_type(shape: DataType) -> DataType:
    """Return the type of the elements of an ARRAY, or of the values of a MAP."""
    assert shape.element is not None
    return shape.element


def field_names(shape: DataType) -> Iterable[str]:
    """Yield the names of all fields, at all levels of nesting."""
    for name, kind in shape.fields:
        yield name
        yield from field_names(kind)
    if shape.element is not None:
        yield from field_names(shape.element)
