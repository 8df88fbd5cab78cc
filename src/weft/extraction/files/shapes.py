"""Infer the type of nested values, which are stored as JSON text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, MOST_NESTED, NULL, STRING, TIMESTAMP, DataType
from weft.extraction.nested_values import keeps_digits
from weft.storage.json_text import ambiguous, number_text, parsed
from weft.storage.type_table import EXACT

_MOST_FIELDS: Final = 100
_MOST_PARTS: Final = 10_000
"""The maximum number of fields and elements of one type, at all depths together."""
_BIGGEST: Final = 2**63
_LONG: Final = replace(BIGINT, precision=19)
"""The type of integers that a DOUBLE may not represent exactly, used only in intermediate results."""


def with_text(type: DataType, text: str) -> DataType:
    """Return a type that includes both ``type`` and the JSON value in ``text``. Unknown parts are NULL.

    >>> texts = ['{"a": [1]}', '{"a": null, "b": {"c": 1.5}}', '{"a": [2.5, null]}']
    >>> str(without_unknown(reduce(with_text, texts, NULL)))
    'STRUCT<a: ARRAY<DOUBLE>, b: STRUCT<c: DOUBLE>>'
    >>> str(reduce(with_text, ['[{"a": 1}, {"a": "x"}]'], NULL)), str(reduce(with_text, ['{"a": 1}', "[]"], NULL))
    ('ARRAY<STRUCT<a: STRING>>', 'STRING')
    >>> str(with_text(NULL, '{"a": 1, "b": {"c": 1, "c": 2}}'))
    'STRUCT<a: BIGINT, b: STRING>'
    """
    try:
        value = parsed(text)
    except (ValueError, RecursionError):  # Spark's parser would reject the whole text
        return STRING
    if _adds_nothing(value, type):
        return type
    wider = joined(type, _of_value(value, 0))
    return wider if _parts(wider, _MOST_PARTS) >= 0 else STRING


def _parts(type: DataType, budget: int) -> int:
    """Return ``budget`` minus the number of parts of the type. The result may be negative."""
    for each in (*(kind for _, kind in type.fields), *filter(None, [type.element])):
        if budget < 0:
            break
        budget = _parts(each, budget - 1)
    return budget


def _adds_nothing(value: Any, type: DataType) -> bool:
    """Return True if a quick test shows that the value fits the type. Most values pass this test."""
    if isinstance(value, dict):
        if type.name != "STRUCT" or not value or ambiguous(value):
            return False
        fields = _fields(type)
        return all(name in fields and _adds_nothing(each, fields[name]) for name, each in value.items())
    if isinstance(value, list):
        element = type.element if type.name == "ARRAY" else None
        return element is not None and all(_adds_nothing(each, element) for each in value)
    if (number := number_text(value)) is not None:
        return _number(number) is type
    return value is None or type is (BOOLEAN if isinstance(value, bool) else STRING)


@lru_cache(maxsize=1_000)
def _fields(type: DataType) -> Mapping[str, DataType]:
    return dict(type.fields)


def of_arrow(kind: pa.DataType, depth: int = 0) -> DataType:
    """Return the type of the JSON for values of the Arrow type ``kind``, or STRING if no type fits."""
    if depth > MOST_NESTED:
        return STRING
    if pa.types.is_map(kind):
        keyed = pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)
        return DataType("MAP", key=STRING, element=of_arrow(kind.item_type, depth + 1)) if keyed else STRING
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return DataType("ARRAY", element=of_arrow(kind.value_type, depth + 1))
    if pa.types.is_struct(kind):
        return without_unknown(_struct({each.name: of_arrow(each.type, depth + 1) for each in kind}))
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return DataType("DECIMAL", kind.precision, kind.scale)
    if kind == pa.uint64():
        return DataType("DECIMAL", 20, 0)
    tests = ((pa.types.is_boolean, BOOLEAN), (pa.types.is_integer, BIGINT), (pa.types.is_floating, DOUBLE))
    times = ((pa.types.is_date, DATE), (pa.types.is_timestamp, TIMESTAMP))
    return next((type for test, type in (*tests, *times) if test(kind)), STRING)


@lru_cache(maxsize=10_000)
def _number(text: str) -> DataType:
    if text.lstrip("-").isdigit():
        if len(text) >= 40 or not -_BIGGEST <= int(text) < _BIGGEST:
            return STRING
        return BIGINT if abs(int(text)) <= EXACT else _LONG
    return DOUBLE if keeps_digits(text) else STRING


def _of_value(value: Any, depth: int) -> DataType:
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case str() if (number := number_text(value)) is not None:
            return _number(number)
        case dict() if depth < MOST_NESTED and not ambiguous(value):
            return _struct({name: _of_value(each, depth + 1) for name, each in value.items()})
        case list() if depth < MOST_NESTED:
            return DataType("ARRAY", element=reduce(joined, (_of_value(each, depth + 1) for each in value), NULL))
        case _:
            return STRING


def _struct(fields: dict[str, DataType]) -> DataType:
    """Return a STRUCT, or STRING for an empty name, too many fields, or names that differ only in case."""
    apart = len({name.lower() for name in fields}) == len(fields) <= _MOST_FIELDS
    return DataType("STRUCT", fields=tuple(fields.items())) if apart and all(fields) else STRING


def joined(one: DataType, other: DataType) -> DataType:
    """Return a type that includes both types. Return STRING if no other type can represent both without loss."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if one.name == other.name == "ARRAY":
        return DataType("ARRAY", element=joined(one.element or NULL, other.element or NULL))
    if one.name == other.name == "STRUCT":
        fields = dict(one.fields)
        for name, kind in other.fields:
            fields[name] = joined(fields.get(name, NULL), kind)
        return _struct(fields)
    if {one, other} == {BIGINT, _LONG}:
        return _LONG
    return DOUBLE if {one, other} == {BIGINT, DOUBLE} else STRING


def without_unknown(type: DataType) -> DataType:
    """Return the type with STRING in place of unknown parts. A part with only NULL values is unknown."""
    match type.name:
        case "ARRAY":
            return DataType("ARRAY", element=without_unknown(type.element or NULL))
        case "STRUCT":
            fields = tuple((name, without_unknown(kind)) for name, kind in type.fields)
            return DataType("STRUCT", fields=fields) if fields else STRING
        case _:
            return STRING if type == NULL else BIGINT if type == _LONG else type
