"""Values of columns that are declared as STRUCT, ARRAY or MAP: whether JSON is of such a type, and Python's as JSON.

JSON is of a type where FROM_JSON reads the whole of it without a loss: a number that a DOUBLE rounds is none, nor is
a text where a number is wanted; anything at all is a STRING.  What is missing is NULL.  Names of fields are those of
the type letter by letter, and each name is in an object once: FROM_JSON reads ``{"A": 1}`` as no field ``a``, and of
``{"a": 1, "a": 2}`` one number only, or of a MAP both.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from weft.algebra.schema import STRING, DataType
from weft.extraction.row_values import BITS

_EXACT: Final = 2**53
_EXACT_DIGITS: Final = 17
_MOST_DIGITS: Final = 40
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_EXACT_DIGITS_OF_FLOAT: Final = 9
_LONGEST_NUMBER: Final = 1_000
_LONGEST_NAME: Final = 50_000
"""Letters of a number and of a name, beyond which Spark's parser of JSON gives a whole text up."""
_MOST_OFFSET: Final = 18 * 60
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ZONE: Final = r"Z|UTC|[+-]\d\d(?::?[0-5]\d)?"
_CLOCK: Final = rf"[T ]((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:\.\d{{1,6}})?(?: ?({_ZONE}))?)?"
_INSTANT: Final = re.compile(rf"({_DAY.pattern})(?:{_CLOCK})?", re.ASCII)
"""Spark takes a zone only behind seconds."""


class _Number(str):
    """A number as it is written."""


class _Ambiguous(dict[str, Any]):
    """An object with two values of one name."""


def is_of(text: str, shape: DataType, *, closed: bool = False) -> bool:
    """Whether a JSON text is of the type; ``closed``: and has no fields but its.

    >>> kind = DataType.parse_nested("STRUCT<a: INT, b: ARRAY<STRING>>")
    >>> is_of('{"a": 1, "b": [null, "x"]}', kind), is_of('{"a": "1"}', kind), is_of("[]", kind)
    (True, False, False)
    """
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        return False
    return value is not None and _fits(value, shape, closed)


def parsed(text: str) -> Any:
    """A JSON text's value, in which numbers are texts and ``ambiguous`` tells of objects.

    Raises ValueError for what is no JSON, or has a number or a name that is too long for Spark's parser, which then
    reads nothing of the whole text; RecursionError for what is too deep.
    """
    return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=str, object_pairs_hook=_object)


def ambiguous(value: dict[str, Any]) -> bool:
    """Whether an object that was parsed has two values of one name."""
    return isinstance(value, _Ambiguous)


def written_number(value: Any) -> str | None:
    """How a number that was parsed is written; None for what is none."""
    return str(value) if isinstance(value, _Number) else None


def _number(text: str) -> _Number:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number with too many digits")
    return _Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if any(len(name) > _LONGEST_NAME for name in found):
        raise ValueError("a name that is too long")
    return found if len(found) == len(pairs) else _Ambiguous(found)


def _fits(value: Any, shape: DataType, closed: bool) -> bool:
    if value is None:
        return True
    if isinstance(value, _Ambiguous) and shape != STRING:
        return False
    match shape.name:
        case "STRUCT":
            return isinstance(value, dict) and _of_fields(value, shape, closed)
        case "MAP":
            return (
                isinstance(value, dict)
                and _is_text([*value])
                and all(_fits(each, _element(shape), closed) for each in value.values())
            )
        case "ARRAY":
            return isinstance(value, list) and all(_fits(each, _element(shape), closed) for each in value)
        case "STRING":
            return _is_text(value)
        case "BOOLEAN":
            return isinstance(value, bool)
        case "DATE" | "TIMESTAMP":
            return isinstance(value, str) and not isinstance(value, _Number) and _is_time(value, shape)
        case _:
            return _is_number(value, shape)


def _element(shape: DataType) -> DataType:
    assert shape.element is not None
    return shape.element


def _is_text(value: Any) -> bool:
    """Whether no half of a surrogate pair is in a value, for which Spark reads a question mark."""
    try:
        (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()
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


def _is_time(text: str, shape: DataType) -> bool:
    found = _INSTANT.fullmatch(text)
    if found is None or (shape.name == "DATE" and not _DAY.fullmatch(text)):
        return False
    day, clock, seconds, zone = found.groups()
    offset = _offset(zone or "Z")
    try:
        at = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}:{seconds or '00'}")
        return abs(offset) <= _MOST_OFFSET and at - dt.timedelta(minutes=offset) is not None
    except (ValueError, OverflowError):  # no such day, or an instant before the year 1 or after 9999
        return False


def _offset(zone: str) -> int:
    """Minutes east of Greenwich."""
    if zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes


def _is_number(value: Any, shape: DataType) -> bool:
    if not isinstance(value, _Number):
        return shape.name in ("FLOAT", "DOUBLE") and value in _NOT_FINITE
    written = str(value)
    whole = written.lstrip("-").isdigit()
    if shape.name in BITS:
        most = 2 ** (BITS[shape.name] - 1)
        return whole and len(written) < _MOST_DIGITS and -most <= int(written) < most
    if shape.name == "DECIMAL":
        return _is_decimal(written, shape)
    if whole:
        return len(written) < _MOST_DIGITS and abs(int(written)) <= (_EXACT if shape.name == "DOUBLE" else 2**24)
    return _is_fraction(written, shape)


def _is_fraction(written: str, shape: DataType) -> bool:
    """Whether a number with a point or an exponent becomes neither infinite nor nothing, and keeps its digits."""
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
    """Whether a DOUBLE is shown as the very number that is written.

    >>> keeps_digits("0.30000000000000004"), keeps_digits("0.300000000000000041"), keeps_digits("1e999")
    (True, False, False)
    """
    try:
        return Decimal(written) == Decimal(repr(float(written)))
    except InvalidOperation:  # an exponent beyond Decimal's
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
    """A value of Python's (dicts, lists, dates, Decimals among them; or JSON text) as JSON text of the type.

    Raises ValueError or TypeError for one that is not of it.  A field that the type does not have is an error.

    >>> json_of({"a": [Decimal("1.50"), None]}, DataType.parse_nested("STRUCT<a: ARRAY<DECIMAL(5,2)>>"))
    '{"a":[1.50,null]}'
    """
    try:
        text = value if isinstance(value, str) else _written(value)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not is_of(text, shape, closed=True):
        raise ValueError(f"not of {shape}")
    text.encode()  # a half of a surrogate pair is no text
    return text


def _written(value: Any) -> str:
    """JSON, numbers with the digits that they have."""
    match value:
        case _Ambiguous():
            raise ValueError("a name occurs twice")
        case _Number():
            return str(value)
        case Mapping():
            if any(not isinstance(name, str) for name in value):
                raise TypeError("the keys of JSON are strings")
            return "{" + ",".join(f"{_written(name)}:{_written(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_written, value)) + "]"
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case float() if not math.isfinite(value):
            return json.dumps("NaN" if value != value else "Infinity" if value > 0 else "-Infinity")
        case dt.datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
            return json.dumps(aware.astimezone(dt.timezone.utc).isoformat(sep=" ").replace("+00:00", "Z"))
        case dt.date():
            return json.dumps(value.isoformat())
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return _written(_plain(value))


def _plain(value: Any) -> Any:
    """What a scalar or an array of numpy holds, whose library need not be there."""
    plain: Callable[[], Any] | None = getattr(value, "tolist", None)
    if plain is None:
        raise TypeError(f"a {type(value).__name__} is no JSON")
    return plain()


def holds(shape: DataType, found: DataType) -> bool:
    """Whether all that is of the type ``found`` is certainly of ``shape``.

    Times are never certain: those of Parquet may lie before the year 1 or after 9999, which no TIMESTAMP here holds.

    >>> parsed = DataType.parse_nested
    >>> holds(parsed("STRUCT<a: STRING, b: INT>"), parsed("STRUCT<a: BIGINT, c: DATE>"))
    True
    """
    if shape.name == "STRING" or found.name == "NULL":
        return True
    match shape.name, found.name:
        case ("ARRAY", "ARRAY") | ("MAP", "MAP"):
            return holds(_element(shape), _element(found))
        case "MAP", "STRUCT":
            return all(holds(_element(shape), kind) for _, kind in found.fields)
        case "STRUCT", "STRUCT":
            known = ((shape.field_type(name), name, kind) for name, kind in found.fields)
            return all(own is None or (own[0] == name and holds(own[1], kind)) for own, name, kind in known)
        case _:
            return shape == found and shape.name not in ("DATE", "TIMESTAMP")
