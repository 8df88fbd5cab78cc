"""The type as which nested values that are kept as JSON text are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, MOST_NESTED, NULL, STRING, TIMESTAMP, DataType
from weft.extraction.nested_values import keeps_digits
from weft.storage.json_text import ambiguous, number_text, parsed

_MOST_FIELDS: Final = 100
_MOST_PARTS: Final = 10_000
"""Fields and elements of one type at all depths together."""
_BIGGEST: Final = 2**63
_EXACT: Final = 2**53
_LONG: Final = replace(BIGINT, precision=19)
"""A BIGINT beyond what a DOUBLE holds, as long as others may be joined with it."""


def with_text(type: DataType, text: str) -> DataType:
    """The type of what is of the type or in the JSON text, as ``joined`` takes it: with NULL for what is not known yet.

    >>> str(known(reduce(with_text, ['{"a": [1]}', '{"a": null, "b": {"c": 1.5}}', '{"a": [2.5, null]}'], NULL)))
    'STRUCT<a: ARRAY<DOUBLE>, b: STRUCT<c: DOUBLE>>'
    >>> str(reduce(with_text, ['[{"a": 1}, {"a": "x"}]'], NULL)), str(reduce(with_text, ['{"a": 1}', "[]"], NULL))
    ('ARRAY<STRUCT<a: STRING>>', 'STRING')
    >>> str(with_text(NULL, '{"a": 1, "b": {"c": 1, "c": 2}}'))
    'STRUCT<a: BIGINT, b: STRING>'
    """
    try:
        value = parsed(text)
    except (ValueError, RecursionError):  # Spark's parser would give the whole text up
        return STRING
    if _adds_nothing(value, type):
        return type
    wider = joined(type, _of_value(value, 0))
    return wider if _parts(wider, _MOST_PARTS) >= 0 else STRING


def _parts(type: DataType, left: int) -> int:
    """How many of ``left`` parts a type leaves; negative where it has more."""
    for each in (*(kind for _, kind in type.fields), *filter(None, [type.element])):
        if left < 0:
            break
        left = _parts(each, left - 1)
    return left


def _adds_nothing(value: Any, type: DataType) -> bool:
    """Whether it is seen at once that a value is of the type: most are, and this takes a fraction of ``_of_value``."""
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
    """The type of JSON text that is made of Parquet's values of an Arrow type; STRING where there is none."""
    if depth > MOST_NESTED:
        return STRING
    if pa.types.is_map(kind):
        keyed = pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)
        return DataType("MAP", key=STRING, element=of_arrow(kind.item_type, depth + 1)) if keyed else STRING
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return DataType("ARRAY", element=of_arrow(kind.value_type, depth + 1))
    if pa.types.is_struct(kind):
        return known(_struct({each.name: of_arrow(each.type, depth + 1) for each in kind}))
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return DataType("DECIMAL", kind.precision, kind.scale)
    if kind == pa.uint64():
        return DataType("DECIMAL", 20, 0)
    tests = ((pa.types.is_boolean, BOOLEAN), (pa.types.is_integer, BIGINT), (pa.types.is_floating, DOUBLE))
    times = ((pa.types.is_date, DATE), (pa.types.is_timestamp, TIMESTAMP))
    return next((type for test, type in (*tests, *times) if test(kind)), STRING)


@lru_cache(maxsize=10_000)
def _number(text: str) -> DataType:
    """The type of a number, so that none is made of it that has another value."""
    if text.lstrip("-").isdigit():
        if len(text) >= 40 or not -_BIGGEST <= int(text) < _BIGGEST:
            return STRING
        return BIGINT if abs(int(text)) <= _EXACT else _LONG
    return DOUBLE if keeps_digits(text) else STRING


def _of_value(value: Any, depth: int) -> DataType:
    """The type of one value; NULL where that is not known yet."""
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
    """A STRUCT; STRING where there is none with such names: FROM_JSON finds them in any case."""
    apart = len({name.lower() for name in fields}) == len(fields) <= _MOST_FIELDS
    return DataType("STRUCT", fields=tuple(fields.items())) if apart and all(fields) else STRING


def joined(one: DataType, other: DataType) -> DataType:
    """The type of what is of either; STRING where no one type reads it all without a loss."""
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


def known(type: DataType) -> DataType:
    """The type with STRING for what is not known: only NULLs were there, or nothing at all."""
    match type.name:
        case "ARRAY":
            return DataType("ARRAY", element=known(type.element or NULL))
        case "STRUCT":
            fields = tuple((name, known(kind)) for name, kind in type.fields)
            return DataType("STRUCT", fields=fields) if fields else STRING
        case _:
            return STRING if type == NULL else BIGINT if type == _LONG else type
