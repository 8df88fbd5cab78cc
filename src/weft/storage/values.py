"""Decode the stored values of an answer. Each value is one text that loses no information. NULL is stored as NULL.

A STRING is stored unchanged. A BOOLEAN is ``true`` or ``false``. Integers and DECIMAL are decimal numbers. FLOAT and
DOUBLE are in Java's notation (``NaN``, ``Infinity``, ``1.0E10``). TIMESTAMP is integer microseconds. DATE is the
number of days since 1970-01-01. BINARY is base64. An interval is integer microseconds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import cast

from weft.algebra.schema import INTERVAL, DataType
from weft.errors import StorageError
from weft.storage.type_table import TYPES

Value = object
"""str, bool, int, float, Decimal, bytes, datetime (UTC), date, timedelta, or None."""


def decode(values: Sequence[str | None], types: Sequence[DataType]) -> tuple[Value, ...]:
    """Return the Python values of a stored row whose columns have ``types``.

    Outside the years 1 to 9999, instants and dates stay integers (microseconds or days since 1970). Raise StorageError
    if the number of values is wrong or if a text is not a value of its type.

    >>> decode(["7", None, "1.50"], [DataType("INT"), DataType("STRING"), DataType("DECIMAL", 4, 2)])
    (7, None, Decimal('1.50'))
    """
    if len(values) != len(types):
        raise StorageError(f"a stored row has {len(values)} values, but the query has {len(types)} columns")
    return tuple(None if text is None else _decode_one(text, type_) for text, type_ in zip(values, types, strict=True))


def _decode_one(text: str, type_: DataType) -> Value:
    try:
        value = TYPES[type_.name].decode(text)
        return dt.timedelta(microseconds=cast("int", value)) if type_.shape == INTERVAL else value
    except (KeyError, ValueError, ArithmeticError) as error:
        raise StorageError(f"{text[:40]!r} is not a stored {type_}") from error
