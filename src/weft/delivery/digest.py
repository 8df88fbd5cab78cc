"""Compute the instants at which a digest is due: every hour, day or week, at a local time.

The functions are pure: the result depends only on the digest, the time zone and the previous instant.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from dataclasses import dataclass
from typing import Final, Literal
from zoneinfo import ZoneInfo

from weft.errors import Refused
from weft.instants import from_datetime, to_datetime

_MINUTE: Final = 60 * 1_000_000
_HOUR: Final = 60 * _MINUTE
_LENGTHS: Final = {"hour": _HOUR, "day": 24 * _HOUR, "week": 7 * 24 * _HOUR}
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WHOLE: Final = {"hourly": "hourly", "daily": "daily@08:00", "weekly": "weekly@mon-08:00"}
_HINT: Final = "Write hourly, daily@08:00 or weekly@mon-08:00."


@dataclass(frozen=True)
class Digest:
    """The schedule of a digest.

    An hourly digest is due at minute 0 of each local hour.  A daily or weekly digest is due at ``hour:minute`` local
    time.  ``day`` is the day of the week, from Monday (0) to Sunday (6).
    """

    every: Literal["hour", "day", "week"]
    hour: int = 0
    minute: int = 0
    day: int = 0

    def __str__(self) -> str:
        if self.every == "hour":
            return "hourly"
        at = f"{self.hour:02}:{self.minute:02}"
        return f"daily@{at}" if self.every == "day" else f"weekly@{_DAYS[self.day]}-{at}"


def parse_digest(text: str) -> Digest:
    """Parse ``hourly``, ``daily@08:00`` or ``weekly@mon-08:00``.  Raise Refused for other text.

    >>> str(parse_digest("Daily@8:05")), parse_digest("weekly@mon-08:00").day
    ('daily@08:05', 0)
    """
    written = text.strip().lower()
    if written == "hourly":
        return Digest("hour")
    match = re.fullmatch(r"(daily|weekly)@(?:([a-z]+)-)?(\d{1,2}):(\d{2})", written)
    if match is None or (match[1] == "weekly") != (match[2] is not None):
        near = difflib.get_close_matches(written.partition("@")[0], _WHOLE, 1, 0.6)
        raise Refused(f"{text!r} is not a digest" + (f": did you mean {_WHOLE[near[0]]}?" if near else ""), hint=_HINT)
    hour, minute = int(match[3]), int(match[4])
    if hour > 23 or minute > 59:
        raise Refused(f"{text!r} is not a digest: {match[3]}:{match[4]} is not a time of day", hint=_HINT)
    if match[2] is None:
        return Digest("day", hour, minute)
    if match[2][:3] not in _DAYS:
        raise Refused(
            f"{text!r} is not a digest: {match[2]!r} is not a day of the week",
            hint=f"Write one of the days {', '.join(_DAYS)}.",
        )
    return Digest("week", hour, minute, _DAYS.index(match[2][:3]))


def next_digest(digest: Digest, zone: str, after: int) -> int:
    """Return the first instant after ``after`` (microseconds UTC) at which the digest is due in the time zone.

    If a clock change skips the local time of a digest, the digest is late by the length of the change.  If the local
    time occurs twice, the digest is due at the first occurrence.
    """
    place = ZoneInfo(zone)
    try:
        return _next_hour(place, after) if digest.every == "hour" else _next_day(digest, place, after)
    except OverflowError:  # a replay home's clock may be near the ends of the calendar
        return after + _LENGTHS[digest.every]


def _next_hour(place: ZoneInfo, after: int) -> int:
    minute = after // _MINUTE * _MINUTE
    # Step by minutes, because a clock change may occur within an hour and may be shorter than an hour.
    for step in range(1, 121):
        if to_datetime(minute + step * _MINUTE).astimezone(place).minute == 0:
            return minute + step * _MINUTE
    return after + _HOUR  # no full hour within two hours: no present time zone does this


def _next_day(digest: Digest, place: ZoneInfo, after: int) -> int:
    today = to_datetime(after).astimezone(place).date()
    for ahead in range(-1, 10):
        day = today + dt.timedelta(days=ahead)
        if digest.every == "week" and day.weekday() != digest.day:
            continue
        due = from_datetime(dt.datetime(day.year, day.month, day.day, digest.hour, digest.minute, tzinfo=place))
        if due > after:
            return due
    raise AssertionError("a week has every day")
