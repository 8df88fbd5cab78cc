"""When a digest goes: every hour, every day or every week at a time of the clock on somebody's wall.

Pure: the instants follow from the digest, the time zone and the instant before.
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
    """``every`` hour (local minute 0), day or week at ``hour:minute``; ``day`` of the week counts from Monday, 0."""

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
    """Reads ``hourly``, ``daily@08:00`` or ``weekly@mon-08:00``; raises Refused.

    >>> str(parse_digest("Daily@8:05")), parse_digest("weekly@mon-08:00").day
    ('daily@08:05', 0)
    """
    written = text.strip().lower()
    if written == "hourly":
        return Digest("hour")
    found = re.fullmatch(r"(daily|weekly)@(?:([a-z]+)-)?(\d{1,2}):(\d{2})", written)
    if found is None or (found[1] == "weekly") != (found[2] is not None):
        near = difflib.get_close_matches(written.partition("@")[0], _WHOLE, 1, 0.6)
        raise Refused(f"{text!r} is no digest" + (f": is it {_WHOLE[near[0]]}?" if near else ""), hint=_HINT)
    hour, minute = int(found[3]), int(found[4])
    if hour > 23 or minute > 59:
        raise Refused(f"{text!r} is no digest: there is no time {found[3]}:{found[4]}", hint=_HINT)
    if found[2] is None:
        return Digest("day", hour, minute)
    if found[2][:3] not in _DAYS:
        raise Refused(f"{text!r} is no digest: {found[2]!r} is no day", hint=f"The days are {', '.join(_DAYS)}.")
    return Digest("week", hour, minute, _DAYS.index(found[2][:3]))


def next_digest(digest: Digest, zone: str, after: int) -> int:
    """The first instant after ``after`` (microseconds UTC) at which the digest is due in the time zone.

    A time of day that a change of the clocks skips is taken as much later as they went forward, one that comes twice
    when it comes first: so there is one digest a day, or a week, and one for each hour that passes.
    """
    place = ZoneInfo(zone)
    try:
        return _next_hour(place, after) if digest.every == "hour" else _next_day(digest, place, after)
    except OverflowError:  # a replay home's clock may stand at the ends of the calendar
        return after + _LENGTHS[digest.every]


def _next_hour(place: ZoneInfo, after: int) -> int:
    minute = after // _MINUTE * _MINUTE
    # Minute by minute: the clocks may change before the next full hour, and not by hours only.
    for step in range(1, 121):
        if to_datetime(minute + step * _MINUTE).astimezone(place).minute == 0:
            return minute + step * _MINUTE
    return after + _HOUR  # no full hour in two: no zone of today


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
