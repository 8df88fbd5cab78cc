"""Check JSON against STRUCT, ARRAY and MAP types, and convert Python values to JSON of these types.

JSON matches a type if Spark's FROM_JSON reads the whole text without loss. A number that a DOUBLE would round does not
match DOUBLE. A string does not match a number type. Every value matches STRING. A missing value is NULL.

Field names must match exactly and be unique in their object. For example, FROM_JSON finds no field ``a`` in ``{"A":
1}``. From ``{"a": 1, "a": 2}``, FROM_JSON reads one number into a STRUCT, but both numbers into a MAP.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from weft.algebra.schema import INTEGRAL, STRING, DataType
from weft.storage.columns import arrow_type
from weft.storage.json_text import (
    NOT_FINITE,
    ambiguous,
    day_of,
    instant_of,
    nests_deeper,
    number_text,
    parsed,
    to_json,
)
from weft.storage.nested import element_type
from weft.storage.type_table import EXACT, whole_numbers

_DEEPEST: Final = 200
"""The maximum depth of a JSON text. Python's recursion limit may allow less, depending on the caller's stack."""
_EXACT_DIGITS: Final = 17
_MOST_DIGITS: Final = 40
_EXACT_DIGITS_OF_FLOAT: Final = 9


def is_of(text: str, shape: DataType, *, closed: bool = False) -> bool:
    """Return whether a JSON text matches the type. If ``closed`` is True, the text may have no fields beyond the type.

    >>> kind = DataType.parse_nested("STRUCT<a: INT, b: ARRAY<STRING>>")
    >>> is_of('{"a": 1, "b": [null, "x"]}', kind), is_of('{"a": "1"}', kind), is_of("[]", kind)
    (True, False, False)
    """
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        return False
    return value is not None and not nests_deeper(value, _DEEPEST) and _fits(value, shape, closed)


def _fits(value: Any, shape: DataType, closed: bool) -> bool:
    if value is None:
        return True
    if ambiguous(value) and shape != STRING:
        return False
    match shape.name:
        case "STRUCT":
            return isinstance(value, dict) and _of_fields(value, shape, closed)
        case "MAP":
            return (
                isinstance(value, dict)
                and _is_text([*value])
                and all(_fits(each, element_type(shape), closed) for each in value.values())
            )
        case "ARRAY":
            return isinstance(value, list) and all(_fits(each, element_type(shape), closed) for each in value)
        case "STRING":
            return _is_text(value)
        case "BOOLEAN":
            return isinstance(value, bool)
        case "DATE" | "TIMESTAMP":
            read = day_of if shape.name == "DATE" else instant_of
            return isinstance(value, str) and number_text(value) is None and read(value) is not None
        case _:
            return _is_number(value, shape)


def _is_text(value: Any) -> bool:
    """Return False for a text with lone surrogates, because Spark would read question marks."""
    try:
        (value if isinstance(value, str) else to_json(value)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_fields(value: dict[str, Any], shape: DataType, closed: bool) -> bool:
    for name, each in value.items():
        field = shape.field_type(name)
        if field is None:
            if closed:
                return False
        elif field[0] != name or not _fits(each, field[1], closed):
            return False
    return True


def _is_number(value: Any, shape: DataType) -> bool:
    written = number_text(value)
    if written is None:
        return shape.name in ("FLOAT", "DOUBLE") and value in NOT_FINITE
    is_integer = written.lstrip("-").isdigit()
    if shape.name in INTEGRAL:
        return is_integer and len(written) < _MOST_DIGITS and int(written) in whole_numbers(arrow_type(shape))
    if shape.name == "DECIMAL":
        return _is_decimal(written, shape)
    if is_integer:
        return len(written) < _MOST_DIGITS and abs(int(written)) <= (EXACT if shape.name == "DOUBLE" else 2**24)
    return _is_fraction(written, shape)


def _is_fraction(written: str, shape: DataType) -> bool:
    """Return whether the type can store ``written`` without loss. The number has a decimal point or an exponent."""
    mantissa, value = written.lower().partition("e")[0].lstrip("-0."), float(written)
    if not math.isfinite(value) or (not value and mantissa):
        return False
    digits = sum(sign.isdigit() for sign in mantissa)
    if shape.name == "DOUBLE":
        return digits <= _EXACT_DIGITS or keeps_digits(written)
    try:
        short = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return False
    return bool(short or not mantissa) and digits <= (_EXACT_DIGITS if short == value else _EXACT_DIGITS_OF_FLOAT)


def keeps_digits(written: str) -> bool:
    """Return whether a conversion to DOUBLE and back to text preserves the number.

    >>> keeps_digits("0.30000000000000004"), keeps_digits("0.300000000000000041"), keeps_digits("1e999")
    (True, False, False)
    """
    try:
        return Decimal(written) == Decimal(repr(float(written)))
    except InvalidOperation:  # an exponent beyond the range of Decimal
        return False


def _is_decimal(written: str, shape: DataType) -> bool:
    if len(written) > _MOST_DIGITS + 2:
        return False
    try:
        number = Decimal(written)
    except InvalidOperation:
        return False
    if not number:
        return True
    _, digits, exponent = number.as_tuple()  # normalize() would round to 28 digits
    assert isinstance(exponent, int)
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    scale, precision = shape.scale or 0, shape.precision or 0
    return -(exponent + zeros) <= scale and number.adjusted() < precision - scale


def json_of(value: Any, shape: DataType) -> str:
    """Return a Python value as JSON text of the type ``shape``.

    The value is JSON text, or consists of dicts, lists, dates, Decimals and other scalars. Raise ValueError or
    TypeError if the value does not match or has additional fields.

    >>> json_of({"a": [Decimal("1.50"), None]}, DataType.parse_nested("STRUCT<a: ARRAY<DECIMAL(5,2)>>"))
    '{"a":[1.50,null]}'
    """
    try:
        text = value if isinstance(value, str) else to_json(value)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not is_of(text, shape, closed=True):
        raise ValueError(f"not of {shape}")
    text.encode()  # raises for a lone surrogate
    return text


def holds(shape: DataType, other: DataType) -> bool:
    """Return whether every value of the type ``other`` is also a value of the type ``shape``.

    The result is False for DATE and TIMESTAMP, because Parquet can store times outside the years 1 to 9999.

    >>> parsed = DataType.parse_nested
    >>> holds(parsed("STRUCT<a: STRING, b: INT>"), parsed("STRUCT<a: BIGINT, c: DATE>"))
    True
    """
    if shape.name == "STRING" or other.name == "NULL":
        return True
    match shape.name, other.name:
        case ("ARRAY", "ARRAY") | ("MAP", "MAP"):
            return holds(element_type(shape), element_type(other))
        case "MAP", "STRUCT":
            return all(holds(element_type(shape), kind) for _, kind in other.fields)
        case "STRUCT", "STRUCT":
            known = ((shape.field_type(name), name, kind) for name, kind in other.fields)
            return all(own is None or (own[0] == name and holds(own[1], kind)) for own, name, kind in known)
        case _:
            return shape == other and shape.name not in ("DATE", "TIMESTAMP")
