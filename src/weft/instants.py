"""Instants and lengths of time as numbers, as text, and as Python's own objects: the one place that converts them.

An instant is microseconds since 1970-01-01 UTC, a length of time is microseconds, a day is days since 1970-01-01.
Nothing here reads a clock.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from weft.errors import Refused

MIN_INSTANT: Final = -(2**62)
"""Before every instant: how far time has gone where nothing happened yet."""

FIRST_INSTANT: Final = -62_135_596_800_000_000
LAST_INSTANT: Final = 253_402_300_799_999_999
"""The first and the last instant of the years 1 to 9999, which is what can be written as text."""

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_FIRST_DAY: Final = _EPOCH.date()
_MICROSECOND: Final = dt.timedelta(microseconds=1)

_INSTANT: Final = re.compile(
    r"\s*(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6})\d*)?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?\s*"
)
_DAY: Final = re.compile(r"\s*(\d{4})-(\d{2})-(\d{2})\s*")
UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": HOUR_US,
    "d": DAY_US,
    "w": 7 * DAY_US,
}
"""Units of time in microseconds, by the letters with which lengths of time are written."""
_PART: Final = re.compile(r"(\d+)\s*(us|ms|s|m|h|d|w)\s*", re.IGNORECASE)
_LONGEST_US: Final = 10_000 * 366 * DAY_US


def from_datetime(moment: dt.datetime) -> int:
    """The instant of a datetime; one without a zone is UTC.

    >>> from_datetime(dt.datetime(1993, 4, 5))
    733968000000000
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.timezone.utc)
    return (aware - _EPOCH) // _MICROSECOND


def to_datetime(instant: int) -> dt.datetime:
    """The instant as a datetime in UTC; raises OverflowError outside the years 1 to 9999."""
    return _EPOCH + dt.timedelta(microseconds=instant)


def to_date(day: int) -> dt.date:
    """The day as a date; raises OverflowError outside the years 1 to 9999.

    >>> to_date(8495)
    datetime.date(1993, 4, 5)
    """
    return _FIRST_DAY + dt.timedelta(days=day)


def read_instant(text: str) -> int | None:
    """The instant that a text in ISO 8601 names (a day, or a day and a time; no offset is UTC); None where it is none.

    Digits beyond the microsecond are cut, as Spark does.

    >>> read_instant("1993-04-05T14:00:00.5+02:00") == read_instant("1993-04-05 12:00:00.5 UTC")
    True
    >>> read_instant("1993-04-31") is None
    True
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    *clock, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in clock)
    micros = int((fraction or "0").ljust(6, "0"))
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, micros, tzinfo=dt.timezone.utc)
        # The offset may lead out of the years 1 to 9999.
        return from_datetime(moment - _offset(zone))
    except (ValueError, OverflowError):
        return None


def read_day(text: str) -> int | None:
    """The day that a text such as ``1993-04-05`` names; None where it is none."""
    match = _DAY.fullmatch(text)
    if match is None:
        return None
    try:
        return (dt.date(*map(int, match.groups())) - _FIRST_DAY).days
    except ValueError:
        return None


def parse_instant(text: str) -> int:
    """As :func:`read_instant`, for text that a person typed (small letters, a decimal comma); raises Refused.

    >>> parse_instant("1993-04-05")
    733968000000000
    """
    found = read_instant(text.upper().replace(",", "."))
    if found is None:
        raise Refused(
            f"{text!r} is no instant",
            hint="Write it as ISO 8601, in UTC where no offset is given: 1993-04-05T12:00:00.",
        )
    return found


def format_instant(instant: int) -> str:
    """An instant in UTC for a person, its fraction only where there is one.

    >>> format_instant(733968000000000), format_instant(733968000500000)
    ('1993-04-05 00:00:00 UTC', '1993-04-05 00:00:00.5 UTC')
    """
    if instant <= MIN_INSTANT:
        return "the beginning of time"
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return f"{instant} microseconds after 1970-01-01 00:00:00 UTC"
    whole, fraction = format_full(instant).split(".")
    return f"{whole}.{fraction.rstrip('0')}".rstrip(".") + " UTC"


def format_rfc3339(instant: int) -> str:
    """An instant for a machine (RFC 3339, UTC); its number where it lies outside the years 1 to 9999.

    >>> format_rfc3339(733968000500000), format_rfc3339(10**18)
    ('1993-04-05T00:00:00.500000Z', '1000000000000000000')
    """
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return str(instant)
    return format_full(instant).replace(" ", "T").removesuffix(".000000") + "Z"


def format_full(instant: int) -> str:
    """An instant with all its digits and without a zone; outside the years 1 to 9999 it is brought to the nearest.

    >>> format_full(0)
    '1970-01-01 00:00:00.000000'
    """
    moment = to_datetime(min(max(instant, FIRST_INSTANT), LAST_INSTANT))
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


def parse_interval(text: str) -> int:
    """Reads a length of time such as ``10m``, ``90s`` or ``1h30m``, in microseconds; raises Refused.

    >>> parse_interval("10m"), parse_interval("1h30m")
    (600000000, 5400000000)
    """
    rest = text.strip()
    total = 0
    while rest:
        match = _PART.match(rest)
        if match is None:
            total = 0
            break
        total += int(match[1]) * UNITS_US[match[2].lower()]
        rest = rest[match.end() :]
    if not 0 < total <= _LONGEST_US:
        raise Refused(
            f"{text!r} is no length of time", hint="Write a number with s, m, h, d or w: 90s, 10m, 1h30m, 2d."
        )
    return total


def format_interval(length: int) -> str:
    """A length of time in microseconds as parse_interval reads it.

    >>> format_interval(5400000000)
    '1h30m'
    """
    if length == 0:
        return "0s"
    parts = []
    rest = abs(length)
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if length < 0 else "") + "".join(parts)


def _offset(zone: str | None) -> dt.timedelta:
    """The offset that a zone's text names; raises ValueError for one beyond 18 hours, Spark's limit."""
    if zone is None or zone.upper() in ("Z", "UTC"):
        return dt.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59 or hours > 18:
        raise ValueError(zone)
    offset = dt.timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset
