"""Parse and write JSON text without loss. Numbers keep their digits, and duplicate names in an object are detected."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

_LONGEST_NUMBER: Final = 1_000
_LONGEST_NAME: Final = 50_000
"""The maximum length of a name in Spark's JSON parser. A longer name makes the whole text invalid."""
_MOST_OFFSET: Final = 18 * 60
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ZONE: Final = r"Z|UTC|[+-]\d\d(?::?[0-5]\d)?"
_CLOCK: Final = rf"[T ]((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:\.(\d{{1,6}}))?(?: ?({_ZONE}))?)?"
_INSTANT: Final = re.compile(rf"({_DAY.pattern})(?:{_CLOCK})?", re.ASCII)
"""The form of an instant that Spark accepts in JSON. A time zone is allowed only after seconds."""
_FAR: Final = re.compile(r"([+-]?\d{4,7})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d\.\d{6})Z)?", re.ASCII)
"""The form in which Spark writes a date or an instant in any year."""
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
"""The number of days in 400 years. The Gregorian calendar repeats after 400 years."""
_MOST_DAYS: Final = 2**31
_MOST_MICROS: Final = 2**63
_DAY_ZERO: Final = dt.date(1970, 1, 1).toordinal()
NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""The texts that represent non-finite numbers in JSON."""


class _Number(str):
    """A number with the digits of the JSON text."""


class _Ambiguous(dict[str, Any]):
    """An object with a duplicate name. ``pairs`` contains all names and values."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def parsed(text: str) -> Any:
    """Parse a JSON text. Numbers become texts. Use ``ambiguous`` to detect objects with duplicate names.

    Raise ValueError if the JSON is invalid, or if a number or name is too long for Spark's parser. Raise RecursionError
    if the nesting is too deep.
    """
    return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=str, object_pairs_hook=_object)


def ambiguous(value: Any) -> bool:
    """Return whether a parsed value is an object with a duplicate name."""
    return isinstance(value, _Ambiguous)


def nests_deeper(value: Any, most: int) -> bool:
    """Return whether a parsed value has more than ``most`` levels of objects and arrays.

    >>> nests_deeper(parsed('{"a": [1]}'), 1), nests_deeper(parsed('{"a": [1]}'), 2)
    (True, False)
    """
    level = [value]
    for _ in range(most):
        level = [part for each in level for part in _parts(each) if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def number_text(value: Any) -> str | None:
    """Return the text of a parsed number. Return None for any other value."""
    return str(value) if isinstance(value, _Number) else None


def day_of(text: str) -> dt.date | None:
    """Return the date that Spark reads from a JSON string. Return None if Spark reads no date."""
    try:
        return dt.date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def instant_of(text: str) -> dt.datetime | None:
    """Return the instant (UTC) that Spark reads from a JSON string. Return None if Spark reads no instant.

    The result is also None outside the years 1 to 9999.

    >>> str(instant_of("2026-01-02 03:04:05.5+01:00"))
    '2026-01-02 02:04:05.500000+00:00'
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    day, clock, seconds, fraction, zone = match.groups()
    offset = _offset(zone or "Z")
    if abs(offset) > _MOST_OFFSET:
        return None
    written = f"{day}T{clock or '00:00'}:{seconds or '00'}.{(fraction or '').ljust(6, '0')}+00:00"
    try:
        return dt.datetime.fromisoformat(written) - dt.timedelta(minutes=offset)
    except (ValueError, OverflowError):  # no such date, or an instant before the year 1 or after 9999
        return None


def expanded_year_time(text: str, *, instant: bool) -> int | None:
    """Convert a text with an expanded year to days since 1970, or to microseconds if ``instant`` is true.

    Spark's TO_JSON writes dates and instants outside Python's years with an expanded year. For any other text, return
    None.

    >>> expanded_year_time("+10000-01-01", instant=False)
    2932897
    >>> expanded_year_time("0000-12-31T23:59:59.999999Z", instant=True)
    -62135596800000001
    """
    match = _FAR.fullmatch(text)
    if match is None or (match[4] is not None) != instant:
        return None
    cycles, year = divmod(int(match[1]), _CYCLE_YEARS)
    try:
        day = dt.date(year + _CYCLE_YEARS, int(match[2]), int(match[3]))
    except ValueError:
        return None
    days = day.toordinal() - _DAY_ZERO + (cycles - 1) * _CYCLE_DAYS
    if not instant:
        return days if abs(days) < _MOST_DAYS else None
    seconds = (days * 24 + int(match[4])) * 3_600 + int(match[5]) * 60
    micros = seconds * 1_000_000 + int(match[6].replace(".", ""))
    return micros if abs(micros) < _MOST_MICROS else None


def to_json(value: Any) -> str:
    """Return the JSON text of a value without losing digits. Raise TypeError if JSON cannot represent the value."""
    match value:
        case _Ambiguous(pairs=pairs):
            return _object_of(pairs)
        case _Number():
            return str(value)
        case Mapping():
            return _object_of(value.items())
        case list() | tuple():
            return "[" + ",".join(map(to_json, value)) + "]"
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
            return to_json(_plain(value))


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case _Ambiguous(pairs=pairs):
            return [part for _, part in pairs]
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def _number(text: str) -> _Number:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number with too many digits")
    return _Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if any(len(name) > _LONGEST_NAME for name in value):
        raise ValueError("a name that is too long")
    return value if len(value) == len(pairs) else _Ambiguous(pairs)


def _object_of(pairs: Iterable[tuple[Any, Any]]) -> str:
    parts = []
    for name, each in pairs:
        if not isinstance(name, str):
            raise TypeError("the keys of JSON are strings")
        parts.append(f"{to_json(name)}:{to_json(each)}")
    return "{" + ",".join(parts) + "}"


def _offset(zone: str) -> int:
    """Convert a time zone such as ``+01:00`` to minutes east of Greenwich."""
    if zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes


def _plain(value: Any) -> Any:
    """Convert numpy scalars and arrays to plain Python values, without importing numpy."""
    plain: Callable[[], Any] | None = getattr(value, "tolist", None)
    if plain is None:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
    return plain()
