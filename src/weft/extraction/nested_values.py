"""Values of columns that are declared as STRUCT, ARRAY or MAP: whether JSON is of such a type, and Python's as JSON.

JSON is of a type where FROM_JSON reads the whole of it without a loss: a number that a DOUBLE rounds is none, nor is
a text where a number is wanted; anything at all is a STRING.  What is missing is NULL.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from weft.algebra.schema import DataType
from weft.extraction.row_values import BITS

_EXACT: Final = 2**53
_EXACT_DIGITS: Final = 17
_MOST_DIGITS: Final = 40
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK: Final = r"[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)? ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?)?"
_INSTANT: Final = re.compile(rf"{_DAY.pattern}(?:{_CLOCK})?")


class _Number(str):
    """A number as it is written."""


def is_of(text: str, shape: DataType, *, closed: bool = False) -> bool:
    """Whether a JSON text is of the type; ``closed``: and has no fields but its.

    >>> kind = DataType.parse_nested("STRUCT<a: INT, b: ARRAY<STRING>>")
    >>> is_of('{"a": 1, "b": [null, "x"]}', kind), is_of('{"a": "1"}', kind), is_of("[]", kind)
    (True, False, False)
    """
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=str)
    except (ValueError, RecursionError):
        return False
    return value is not None and _fits(value, shape, closed)


def _fits(value: Any, shape: DataType, closed: bool) -> bool:
    if value is None:
        return True
    match shape.name:
        case "STRUCT":
            return isinstance(value, dict) and _of_fields(value, shape, closed)
        case "MAP":
            return isinstance(value, dict) and all(_fits(each, _element(shape), closed) for each in value.values())
        case "ARRAY":
            return isinstance(value, list) and all(_fits(each, _element(shape), closed) for each in value)
        case "STRING":
            return True
        case "BOOLEAN":
            return isinstance(value, bool)
        case "DATE" | "TIMESTAMP":
            return isinstance(value, str) and not isinstance(value, _Number) and _is_time(value, shape)
        case _:
            return _is_number(value, shape)


def _element(shape: DataType) -> DataType:
    assert shape.element is not None
    return shape.element


def _of_fields(value: dict[str, Any], shape: DataType, closed: bool) -> bool:
    for name, each in value.items():
        field = shape.field_type(name)
        if (field is None and closed) or (field is not None and not _fits(each, field[1], closed)):
            return False
    return True


def _is_time(text: str, shape: DataType) -> bool:
    pattern = _DAY if shape.name == "DATE" else _INSTANT
    if not pattern.fullmatch(text):
        return False
    try:
        dt.datetime.fromisoformat(text[:10])
        if len(text) > 10:
            dt.time.fromisoformat(text[11:16])
    except ValueError:
        return False
    return True


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
    digits = sum(sign.isdigit() for sign in written.lower().partition("e")[0].lstrip("-0."))
    return math.isfinite(float(written)) and digits <= _EXACT_DIGITS


def _is_decimal(written: str, shape: DataType) -> bool:
    if len(written) > _MOST_DIGITS + 2:
        return False
    try:
        number = Decimal(written)
    except InvalidOperation:
        return False
    exponent = number.normalize().as_tuple().exponent
    scale, precision = shape.scale or 0, shape.precision or 0
    return isinstance(exponent, int) and -exponent <= scale and (not number or number.adjusted() < precision - scale)


def json_of(value: Any, shape: DataType) -> str:
    """A value of Python's (dicts, lists, dates, Decimals among them; or JSON text) as JSON text of the type.

    Raises ValueError or TypeError for one that is not of it.  A field that the type does not have is an error.

    >>> json_of({"a": [Decimal("1.50"), None]}, DataType.parse_nested("STRUCT<a: ARRAY<DECIMAL(5,2)>>"))
    '{"a":[1.50,null]}'
    """
    text = value if isinstance(value, str) else _written(value)
    if not is_of(text, shape, closed=True):
        raise ValueError(f"not of {shape}")
    text.encode()  # a half of a surrogate pair is no text
    return text


def _written(value: Any) -> str:
    """JSON, numbers with the digits that they have."""
    match value:
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

    >>> parsed = DataType.parse_nested
    >>> holds(parsed("STRUCT<a: STRING, b: INT>"), parsed("STRUCT<a: BIGINT, c: DATE>"))
    True
    """
    if found == shape or shape.name == "STRING" or found.name == "NULL":
        return True
    match shape.name, found.name:
        case ("ARRAY", "ARRAY") | ("MAP", "MAP"):
            return holds(_element(shape), _element(found))
        case "MAP", "STRUCT":
            return all(holds(_element(shape), kind) for _, kind in found.fields)
        case "STRUCT", "STRUCT":
            known = ((shape.field_type(name), kind) for name, kind in found.fields)
            return all(field is None or holds(field[1], kind) for field, kind in known)
        case _:
            return False
