"""Convert instants and lengths of time between numbers, text and Python objects.

An instant is a number of microseconds since 1970-01-01 UTC. A length of time is a number of microseconds. A day is a
number of days since 1970-01-01. This module does not read a clock.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Final

from weft.errors import Refused

MIN_INSTANT: Final = -(2**62)
"""An instant before all others: the watermark of a new home."""

FIRST_INSTANT: Final = -62_135_596_800_000_000
LAST_INSTANT: Final = 253_402_300_799_999_999
"""Text can represent instants from ``FIRST_INSTANT`` to ``LAST_INSTANT`` (the years 1 to 9999)."""

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
"""The length of each unit of time, in microseconds."""
_PART: Final = re.compile(r"(\d{1,18})\s*(us|ms|s|m|h|d|w)\s*", re.IGNORECASE)
_LONGEST_US: Final = 10_000 * 366 * DAY_US


def from_datetime(moment: dt.datetime) -> int:
    """Return the instant of ``moment``. A datetime without a time zone is read as UTC.

    >>> from_datetime(dt.datetime(1993, 4, 5))
    733968000000000
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.timezone.utc)
    return (aware - _EPOCH) // _MICROSECOND


def to_datetime(instant: int) -> dt.datetime:
    """Return ``instant`` as a datetime in UTC. Raise OverflowError for an instant outside the years 1 to 9999."""
    return _EPOCH + dt.timedelta(microseconds=instant)


def to_date(day: int) -> dt.date:
    """Return ``day`` as a date. Raise OverflowError for a day outside the years 1 to 9999.

    >>> to_date(8495)
    datetime.date(1993, 4, 5)
    """
    return _FIRST_DAY + dt.timedelta(days=day)


def read_instant(text: str) -> int | None:
    """Return the instant of an ISO 8601 text, or None for any other text. The text is a day with or without a time.

    A text without an offset is read as UTC. Digits beyond the microsecond are cut off, as in Spark.

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
        # The offset can move the instant outside the years 1 to 9999.
        return from_datetime(moment - _offset(zone))
    except (ValueError, OverflowError):
        return None


def read_day(text: str) -> int | None:
    """Return the day of a text such as ``1993-04-05``, or None for any other text."""
    match = _DAY.fullmatch(text)
    if match is None:
        return None
    try:
        return (dt.date(*map(int, match.groups())) - _FIRST_DAY).days
    except ValueError:
        return None


def parse_instant(text: str) -> int:
    """Return the instant of a text that a person typed. Raise Refused if the text is not an instant.

    Accept the texts of :func:`read_instant`, also in lower case and with a decimal comma.

    >>> parse_instant("1993-04-05")
    733968000000000
    """
    instant = read_instant(text.upper().replace(",", "."))
    if instant is None:
        raise Refused(
            f"{text!r} is not an instant",
            hint=(
                "Write the instant in ISO 8601, for example 1993-04-05T12:00:00. An instant without an offset is "
                "in UTC."
            ),
        )
    return instant


def format_instant(instant: int) -> str:
    """Format an instant for a person, in UTC, without trailing zeros in the fraction.

    >>> format_instant(733968000000000), format_instant(733968000500000)
    ('1993-04-05 00:00:00 UTC', '1993-04-05 00:00:00.5 UTC')
    """
    if instant <= MIN_INSTANT:
        return "the beginning of time"
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return f"{instant} microseconds after 1970-01-01 00:00:00 UTC"
    seconds, fraction = format_full(instant).split(".")
    return f"{seconds}.{fraction.rstrip('0')}".rstrip(".") + " UTC"


def format_rfc3339(instant: int) -> str:
    """Format an instant for a program, as RFC 3339 in UTC. An instant outside the years 1 to 9999 becomes a number.

    >>> format_rfc3339(733968000500000), format_rfc3339(10**18)
    ('1993-04-05T00:00:00.500000Z', '1000000000000000000')
    """
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return str(instant)
    return format_full(instant).replace(" ", "T").removesuffix(".000000") + "Z"


def format_full(instant: int) -> str:
    """Format an instant as a UTC time with six decimals and no zone.

    For an instant outside the years 1 to 9999, format the nearest instant inside these years.

    >>> format_full(0)
    '1970-01-01 00:00:00.000000'
    """
    moment = to_datetime(min(max(instant, FIRST_INSTANT), LAST_INSTANT))
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


def parse_interval(text: str) -> int:
    """Return a length of time such as ``10m``, ``90s`` or ``1h30m`` in microseconds. Raise Refused for other texts.

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
            f"{text!r} is not a length of time",
            hint="Write numbers with units (s, m, h, d, w): 90s, 1h30m, 2d.",
        )
    return total


def format_interval(length: int) -> str:
    """Format a length of time in microseconds. For a positive length, ``parse_interval`` accepts the result.

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


def value_text(value: object) -> str:
    """Format a value of a row: an instant in UTC, an interval as ISO 8601, bytes as hexadecimal digits.

    >>> value_text(dt.timedelta(hours=-1)), value_text(b"ab"), value_text(True), value_text(None)
    ('-PT1H', '6162', 'true', 'NULL')
    >>> value_text(Decimal("1E+2"))
    '100'
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return format_instant(from_datetime(value))
        case dt.timedelta():
            return format_duration(value)
        case bytes():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case _:
            return str(value)


def format_duration(length: dt.timedelta) -> str:
    """Format an interval of a query as ISO 8601, with days of 24 hours and without zeros.

    >>> format_duration(dt.timedelta(days=1, minutes=3, seconds=4.5)), format_duration(dt.timedelta(hours=-26))
    ('P1DT3M4.5S', '-P1DT2H')
    >>> format_duration(dt.timedelta())
    'PT0S'
    """
    rest = abs(length)
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0").rstrip(".")
    days = f"{rest.days}D" if rest.days else ""
    parts = [f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if seconds or fraction or not (days or parts):
        parts.append(f"{seconds}{fraction}S")
    return f"{'-' if length < dt.timedelta() else ''}P{days}{'T' if parts else ''}{''.join(parts)}"


def _offset(zone: str | None) -> dt.timedelta:
    """Return the offset of a zone from UTC.

    Raise ValueError for an offset of more than 18 hours (Spark's limit), or with more than 59 minutes.
    """
    if zone is None or zone.upper() in ("Z", "UTC"):
        return dt.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59 or hours > 18:
        raise ValueError(zone)
    offset = dt.timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset
