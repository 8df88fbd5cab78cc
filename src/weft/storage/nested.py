"""Values of nested columns as Python and Arrow have them, read from the JSON text that is stored."""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from weft.algebra.schema import MOST_DIGITS, DataType
from weft.errors import StorageError
from weft.storage.columns import arrow_type
from weft.storage.json_text import day_of, instant_of, parsed, written_json, written_number


def nested_value(text: str, shape: DataType) -> Any:
    """JSON text that is of a type as a value of Python: dicts and lists, dates, aware datetimes, Decimals.

    It has the fields of the type, None for those that the text lacks.  Raises StorageError for a text of another type.

    >>> nested_value('{"a": [1, null], "c": 7}', DataType.parse_nested("STRUCT<a: ARRAY<INT>, b: DATE>"))
    {'a': [1, None], 'b': None}
    """
    try:
        return _value(parsed(text), shape)
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise StorageError(f"{text[:40]!r} is not a stored {shape}") from error


def nested_array(texts: Sequence[str | None], shape: DataType) -> pa.Array:
    """A column of JSON texts as a typed column of Arrow; raises StorageError as ``nested_value``."""
    values = (None if text is None else _pairs(nested_value(text, shape), shape) for text in texts)
    return pa.array(list(values), arrow_type(shape))


def _value(value: Any, shape: DataType) -> Any:
    if value is None:
        return None
    match shape.name:
        case "STRUCT":
            return {name: _value(value.get(name), kind) for name, kind in shape.fields}
        case "MAP":
            return {name: _value(each, _element(shape)) for name, each in value.items()}
        case "ARRAY":
            if not isinstance(value, list):
                raise TypeError("no list")
            return [_value(each, _element(shape)) for each in value]
        case "STRING":
            return value if isinstance(value, str) and written_number(value) is None else written_json(value)
        case "BOOLEAN":
            if not isinstance(value, bool):
                raise TypeError("no truth value")
            return value
        case "DATE" | "TIMESTAMP":
            return _time(value, shape)
        case "DECIMAL":
            unit = decimal.Decimal(1).scaleb(-(shape.scale or 0))
            return decimal.Decimal(value).quantize(unit, context=decimal.Context(prec=MOST_DIGITS))
        case "FLOAT" | "DOUBLE":
            return float(value)
        case _:
            return int(value)


def _time(text: str, shape: DataType) -> Any:
    found = day_of(text) if shape.name == "DATE" else instant_of(text)
    if found is None:
        raise ValueError("no time")
    return found


def _pairs(value: Any, shape: DataType) -> Any:
    """The value with each MAP as a list of pairs, as which Arrow takes it."""
    if value is None or not shape.nested:
        return value
    match shape.name:
        case "STRUCT":
            return {name: _pairs(value[name], kind) for name, kind in shape.fields}
        case "MAP":
            return [(name, _pairs(each, _element(shape))) for name, each in value.items()]
        case _:
            return [_pairs(each, _element(shape)) for each in value]


def _element(shape: DataType) -> DataType:
    assert shape.element is not None
    return shape.element


def field_names(shape: DataType) -> Iterable[str]:
    """The names of all its fields, those of its parts among them."""
    for name, kind in shape.fields:
        yield name
        yield from field_names(kind)
    if shape.element is not None:
        yield from field_names(shape.element)
