"""The clock, and instants and intervals as people write them.

The only place that reads the time: everything else is given it.  An instant is microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from typing import Final

from weft.catalog.records import MIN_INSTANT
from weft.errors import Refused

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND: Final = dt.timedelta(microseconds=1)

_INSTANT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE,
)
_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART: Final = re.compile(r"(\d+)\s*(us|ms|s|m|h|d|w)\s*", re.IGNORECASE)
_LONGEST_US: Final = 10_000 * 366 * _UNITS_US["d"]


def now_us() -> int:
    """The wall's time, in microseconds UTC."""
    return time.time_ns() // 1_000


def parse_instant(text: str) -> int:
    """Reads ISO 8601 (a day, or a day and a time), with no offset as UTC; raises Refused.

    >>> parse_instant("1993-04-05")
    733968000000000
    >>> parse_instant("1993-04-05T14:00:00.5+02:00") == parse_instant("1993-04-05 12:00:00.5 UTC")
    True
    """
    match = _INSTANT.fullmatch(text.strip())
    if match is None:
        raise _no_instant(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = dt.datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "0").ljust(6, "0")),
            tzinfo=dt.timezone.utc,
        )
        return (moment - dt.timedelta(microseconds=_offset_us(zone)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as error:  # the offset may lead out of the years 1 to 9999
        raise _no_instant(text) from error


def format_instant(instant: int) -> str:
    """An instant in UTC, its fraction only where there is one.

    >>> format_instant(733968000000000), format_instant(733968000500000)
    ('1993-04-05 00:00:00 UTC', '1993-04-05 00:00:00.5 UTC')
    """
    if instant <= MIN_INSTANT:
        return "the beginning of time"
    try:
        moment = _EPOCH + dt.timedelta(microseconds=instant)
    except OverflowError:
        return f"{instant} microseconds after 1970-01-01 00:00:00 UTC"
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    # strftime does not fill the year up to four digits everywhere.
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}{fraction} UTC"


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
        total += int(match[1]) * _UNITS_US[match[2].lower()]
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
        count, rest = divmod(rest, _UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if length < 0 else "") + "".join(parts)


def _offset_us(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59 or hours > 18:
        raise ValueError(zone)
    offset = hours * _UNITS_US["h"] + minutes * _UNITS_US["m"]
    return -offset if zone[0] == "-" else offset


def _no_instant(text: str) -> Refused:
    return Refused(
        f"{text!r} is no instant", hint="Write it as ISO 8601, in UTC where no offset is given: 1993-04-05T12:00:00."
    )
