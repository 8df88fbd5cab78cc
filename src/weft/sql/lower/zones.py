"""Read the time zone of a call, and find out how its clock changes.

The functions FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP of the engine compute the clock of a zone.  The module uses the
zone database of Python only for the sizes of the changes of offset, and for the instants that changes of one size have
in common: all are multiples of the size, plus a constant.  This suffices to compute the instant of each change with the
two functions (``calendar_turns``).
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.refusal import place

UTC: Final = "UTC"
_SECOND: Final = 1_000_000
_OFFSET: Final = re.compile(r"[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00")
_REGION: Final = re.compile(r"[A-Z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+)+|UTC|GMT")
_DAY: Final = 86_400
_FROM, _TO = (int(dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc).timestamp()) for year in (1970, 2100))


@dataclass(frozen=True)
class Change:
    """The changes of a zone's offset by ``size`` microseconds, forwards and backwards.

    Each change is ``phase`` microseconds after a multiple of ``size``.
    """

    size: int
    phase: int


def zone_name(node: exp.Expr, function: str) -> str:
    """Return the constant zone in an argument.  Raise SqlError if it is not a zone that Spark knows."""
    hint = "Write a region such as 'Europe/Berlin', or an offset such as '+02:00'."
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise SqlError(f"{function.upper()} takes a constant time zone", where=place(node), hint=hint)
    name = str(node.name)
    if _OFFSET.fullmatch(name) or name == UTC:
        return name
    if _REGION.fullmatch(name) is None or name not in zoneinfo.available_timezones():
        close = difflib.get_close_matches(name, zoneinfo.available_timezones(), 1, 0.6)
        raise SqlError(
            f"{name!r} is not a time zone", where=place(node), hint=f"Did you mean {close[0]!r}?" if close else hint
        )
    return name


@lru_cache(maxsize=64)
def changes(name: str) -> tuple[Change, ...] | None:
    """Return the changes of a zone's offset between the years 1970 and 2100, one for each size.

    Return None if changes of one size are not multiples of the size, plus a constant.
    """
    phases: dict[int, int] = {}
    for instant, moved in [] if _OFFSET.fullmatch(name) else _changes(zoneinfo.ZoneInfo(name)):
        size = abs(moved)
        if phases.setdefault(size, instant % size) != instant % size:
            return None
    return tuple(Change(size * _SECOND, phase * _SECOND) for size, phase in sorted(phases.items()))


def _changes(zone: zoneinfo.ZoneInfo) -> list[tuple[int, int]]:
    """Return the instants and the sizes of the changes, in seconds.  No zone changes its offset twice in a day."""
    found = []
    before = _offset(zone, _FROM)
    for day in range(_FROM, _TO, _DAY):
        after = _offset(zone, day + _DAY)
        if after != before:
            low, high = day, day + _DAY
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            found.append((high, after - before))
        before = after
    return found


def _offset(zone: zoneinfo.ZoneInfo, instant: int) -> int:
    offset = dt.datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
