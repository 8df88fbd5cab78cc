"""Build expressions that round a time to a day, a month or another calendar unit.

truncated("DAY", x)   the last midnight not after x        0:00 on the day of x
following("DAY", x)   the first midnight after x           0:00 on the next day
reached("DAY", x)     the first midnight not before x      x itself if x is a midnight
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.algebra.scalar import (
    MICROSECOND,
    Call,
    Case,
    Cast,
    ColumnRef,
    Literal,
    Now,
    Param,
    Scalar,
    Shifted,
    is_constant,
    minus,
    plus,
    shifted,
    with_children,
)
from weft.algebra.schema import BIGINT, BOOLEAN, DATE, INTERVAL, MONTHS, STRING, TIMESTAMP

DAY: Final = 86_400_000_000
"""The length of a day in microseconds."""
FIXED: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY,
    "WEEK": 7 * DAY,
}
"""The lengths of the units of fixed length, in microseconds."""
IN_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""The number of months in each calendar unit."""
_MEAN_MONTH: Final = 146_097 * DAY // 4_800
"""The mean length of a month in the 400 years after which the calendar repeats."""
_LONGEST_MONTH: Final = 31 * DAY
_UNEVEN: Final = 8 * DAY
"""Moving a time by n months moves it by n mean months, with at most this difference."""
_EARLIEST: Final = -(2**63) + 400 * DAY
"""The earliest time (microseconds) for which Spark can compute the day."""
_DEEPEST: Final = 4


def truncated(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the latest start of a ``unit`` that is not after ``instant``."""
    if _is_beginning(unit, instant):
        return instant
    return Call("date_trunc", (Literal(unit, STRING, fixed=True), dated(instant)), TIMESTAMP)


def dated(instant: Scalar) -> Scalar:
    """Return an expression for ``instant`` that is NULL if Spark cannot compute the day."""
    if within_calendar(instant):
        return instant
    late = Call(">", (Call("unix_micros", (instant,), BIGINT), Literal(_EARLIEST, BIGINT, fixed=True)), BOOLEAN)
    return Case(((late, instant),), None, TIMESTAMP)


def following(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the first start of a ``unit`` after ``instant``."""
    begun = instant if _is_beginning(unit, instant) else truncated(unit, instant)
    if unit in IN_MONTHS:
        return Call("+", (begun, Literal(IN_MONTHS[unit], MONTHS, fixed=True)), TIMESTAMP)
    return plus(begun, Literal(FIXED[unit], INTERVAL, fixed=True))


def elapsed(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the time since the latest start of a ``unit``, an INTERVAL shorter than the unit."""
    if _is_beginning(unit, instant):
        return Literal(0, INTERVAL, fixed=True)
    return Call("-", (instant, truncated(unit, instant)), INTERVAL)


def last_multiple(size: int, phase: int, instant: Scalar) -> Scalar:
    """Return an expression for the last instant up to ``instant`` that is ``phase`` after a multiple of ``size``.

    Both lengths are in microseconds.  Multiples count from 1970-01-01 UTC.
    """
    unit = next((unit for unit, length in FIXED.items() if length == size and unit != "WEEK"), None)
    if unit is not None and phase == 0:
        return truncated(unit, instant)
    micros: Scalar = Call("unix_micros", (dated(instant),), BIGINT)
    length = Literal(size, BIGINT, fixed=True)
    since = Call("-", (micros, Literal(phase, BIGINT, fixed=True)), BIGINT) if phase else micros
    rest = Call("%", (Call("+", (Call("%", (since, length), BIGINT), length), BIGINT), length), BIGINT)
    return Call("timestamp_micros", (Call("-", (micros, rest), BIGINT),), TIMESTAMP)


def multiple_of(value: Scalar) -> tuple[Scalar, int] | None:
    """Return the instant and the size of ``last_multiple`` without a phase, or None for another expression."""
    found = _multiple(value)
    if found is None:
        return None
    time, size = _undated(found[0]), found[1]
    return (time, size) if last_multiple(size, 0, time) == value else None


def _multiple(value: Scalar) -> tuple[Scalar, int] | None:
    """Return the instant, as ``dated`` writes it, and the size of ``last_multiple`` with any phase, or None."""
    match value:
        case Call(
            name="timestamp_micros",
            args=(Call(name="-", args=(Call(name="unix_micros", args=(instant,)) as micros, rest)),),
        ):
            size = _size_of_rest(rest, micros)
            return None if size is None else (instant, size)
        case _:
            return None


def _size_of_rest(rest: Scalar, micros: Scalar) -> int | None:
    """Return the size if ``rest`` is the remainder that ``last_multiple`` subtracts from ``micros``, or None."""
    match rest:
        case Call(
            name="%",
            args=(
                Call(name="+", args=(Call(name="%", args=(since, Literal(value=int(size)) as length)), added)),
                divisor,
            ),
        ) if size > 0 and length == added == divisor:
            match since:
                case Call(name="-", args=(counted, Literal(value=int()))) if counted == micros:
                    return size
                case _:
                    return size if since == micros else None
        case _:
            return None


def _undated(instant: Scalar) -> Scalar:
    """Return the argument of ``dated``."""
    match instant:
        case Case(branches=((_, time),), default=None):
            return time
        case _:
            return instant


def reached(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the first start of a ``unit`` that is not before ``instant``."""
    return instant if _is_beginning(unit, instant) else following(unit, minus(instant, MICROSECOND))


def _is_beginning(unit: str, instant: Scalar) -> bool:
    """Return whether the value of ``instant`` is always the start of a ``unit``.

    The function recognizes only a DATE at midnight, and the start of a longer unit, plus or minus whole units.
    """
    if unit not in _OF_MIDNIGHTS:
        return unit == "MICROSECOND"
    match instant:
        case Cast(arg=day, type=type):
            return unit == "DAY" and day.type == DATE and type == TIMESTAMP
        case Call(name="date_trunc", args=(Literal(value=str(longer)), _)):
            return longer in _OF_MIDNIGHTS[unit]
        case Call(name="+" | "-", args=(begun, Literal(value=int(), type=type))) if type == MONTHS:
            return unit != "YEAR" and _is_beginning(unit, begun)
        case Call(name="+" | "-", args=(begun, span)) if span.type == INTERVAL:
            return unit == "DAY" and _of_whole_days(span) and _is_beginning(unit, begun)
        case Call(name="least" | "greatest", args=args):
            return all(_is_beginning(unit, each) for each in args)
        case _:
            return False


def _of_whole_days(span: Scalar) -> bool:
    match span:
        case Literal(value=int(micros)) | Call(name="*", args=(Literal(value=int(micros)), _)):
            return micros % DAY == 0
        case Call(name="-", args=(end, start)):
            return _is_beginning("DAY", end) and _is_beginning("DAY", start)
        case _:
            return False


_OF_MIDNIGHTS: Final = {
    "DAY": ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
    "MONTH": ("MONTH", "QUARTER", "YEAR"),
    "YEAR": ("YEAR",),
}
"""The units that begin only at the start of a unit."""


def within_calendar(value: Scalar, depth: int = 0) -> bool:
    """Return whether the value is a time near the years 1 to 9999, or a difference of two times near these years.

    A sum of a few values in this range fits in 64 bits.
    """
    match value:
        case ColumnRef() | Literal() | Param() | Now():
            return True
        case Cast(arg=ColumnRef(type=source), type=type):
            return {source.name, type.name} == {"DATE", "TIMESTAMP"}
        case Cast(arg=arg, type=type):
            return {arg.type.name, type.name} == {"DATE", "TIMESTAMP"} and within_calendar(arg, depth)
        case Call(name="+" | "-", args=args):
            return depth < _DEEPEST and all(within_calendar(arg, depth + 1) for arg in args)
        case Call(name="greatest" | "least" | "coalesce" | "ifnull" | "nvl", args=args):
            return all(within_calendar(arg, depth) for arg in args)
        case Call(name="date_trunc" | "from_utc_timestamp" | "to_utc_timestamp", args=args):
            return all(within_calendar(arg, depth) for arg in args)
        case Call(name="timestamp_micros") if (found := _multiple(value)) is not None:
            return within_calendar(found[0], depth)
        case Case(branches=branches, default=default):
            values = [value for _, value in branches]
            return all(within_calendar(each, depth) for each in (values if default is None else [*values, default]))
        case _:
            return is_constant(value)


def near(instant: Scalar) -> tuple[Shifted, int]:
    """Return a simpler expression for a time near ``instant``, and the maximal difference in microseconds.

    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> moved, slack = near(following("DAY", plus(ts, Literal(5, INTERVAL))))
    >>> moved.base == ts, moved.micros == DAY + 5, slack == DAY
    (True, True, True)

    The base may be a column of dates, whose instants are their beginnings.
    """
    moved, slack = _without_elapsed(_moved_whole(shifted(instant)))
    inside = _near_part(moved.base)
    if inside is None:
        return moved, slack
    below, more = inside
    micros, intervals = below.micros + moved.micros, (*below.intervals, *moved.intervals)
    return Shifted(below.base, micros, intervals), slack + more


def _near_part(base: Scalar) -> tuple[Shifted, int] | None:
    """Return a time near the value of a function of times, or None for other expressions."""
    match base:
        case Call(name="date_trunc", args=(Literal(value=str(unit)), inner)):
            below, slack = near(inner)
            return below, slack + _longest(unit)
        case Call(name="+" | "-" as sign, args=(inner, Literal(value=int(count), type=type))) if type == MONTHS:
            below, slack = near(inner)
            moved = below.micros + (count if sign == "+" else -count) * _MEAN_MONTH
            return replace(below, micros=moved), slack + _UNEVEN
        case Cast(arg=Cast(arg=inner, type=day), type=type) if (
            day == DATE and TIMESTAMP == type == inner.type  # the first instant of a day
        ):
            below, slack = near(inner)
            return below, slack + DAY
        case Cast(arg=Call(name="date_add" | "date_sub" as name, args=(day, Literal(value=int(count)))), type=type) if (
            type == TIMESTAMP
        ):
            below, slack = near(Cast(day, TIMESTAMP))
            return replace(below, micros=below.micros + (count if name == "date_add" else -count) * DAY), slack
        case Cast(arg=ColumnRef(type=day) as column, type=type) if day == DATE and type == TIMESTAMP:
            return Shifted(column, 0, ()), 0
        case Call(name="from_utc_timestamp" | "to_utc_timestamp", args=(inner, _)):
            below, slack = near(inner)
            return below, slack + DAY
        case Call(name="timestamp_micros") if (found := _multiple(base)) is not None:
            below, slack = near(found[0])
            return below, slack + found[1]
        case Case(branches=branches, default=default):
            values = [value for _, value in branches]
            return _near_all(values if default is None else [*values, default])
        case Call(name="least" | "greatest" as name, args=args):
            return _near_all(args, name)
        case _:
            return None


def _near_all(instants: Sequence[Scalar], chosen: str = "") -> tuple[Shifted, int] | None:
    """Return a time near each of the instants, or None if they are near different times.

    ``chosen`` is ``least`` or ``greatest`` if the time need only be near that one of the instants.
    """
    parts = [near(instant) for instant in instants]
    first = parts[0][0]
    if any((part.base, part.intervals) != (first.base, first.intervals) for part, _ in parts):
        return None
    lows, highs = zip(*((part.micros - slack, part.micros + slack) for part, slack in parts), strict=True)
    low = max(lows) if chosen == "greatest" else min(lows)
    high = min(highs) if chosen == "least" else max(highs)
    return replace(first, micros=(low + high) // 2), (high - low) // 2 + 1


def _moved_whole(moved: Shifted) -> Shifted:
    """Move the instant itself by months if its month and the time since the start of its month are moved."""
    for interval, count in moved.intervals:
        match moved.base, interval:
            case Call(args=(begun, Literal(type=type))), Call(name="-", args=(instant, Call() as start)) if (
                start == begun and type == MONTHS and count == 1
            ):
                others = tuple(each for each in moved.intervals if each != (interval, count))
                return replace(moved, base=with_children(moved.base, (instant, moved.base.args[1])), intervals=others)
            case _:
                continue
    return moved


def _without_elapsed(moved: Shifted) -> tuple[Shifted, int]:
    """Leave out the intervals of ``elapsed``, which are shorter than a unit."""
    kept, slack = [], 0
    for interval, count in moved.intervals:
        match interval:
            case Call(name="-", args=(time, Call(name="date_trunc", args=(Literal(value=str(unit)), start)))) if (
                _undated(start) == time or start == time
            ):
                slack += abs(count) * _longest(unit)
            case _:
                kept.append((interval, count))
    return replace(moved, intervals=tuple(kept)), slack


def _longest(unit: str) -> int:
    return FIXED[unit] if unit in FIXED else IN_MONTHS[unit] * _LONGEST_MONTH
