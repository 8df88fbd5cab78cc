"""Build expressions that round a time to a day, a month or another calendar unit.

truncated("DAY", x)   the last midnight not after x        0:00 on the day of x
following("DAY", x)   the first midnight after x           0:00 on the next day
reached("DAY", x)     the first midnight not before x      x itself if x is a midnight
"""

from __future__ import annotations

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
_LONGEST_MONTH: Final = 31 * DAY
_EARLIEST: Final = -(2**63) + 400 * DAY
"""The earliest time (microseconds) for which Spark can compute the day."""
_DEEPEST: Final = 4


def truncated(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the latest start of a ``unit`` that is not after ``instant``."""
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


def reached(unit: str, instant: Scalar) -> Scalar:
    """Return an expression for the first start of a ``unit`` that is not before ``instant``."""
    return instant if _is_beginning(unit, instant) else following(unit, minus(instant, MICROSECOND))


def _is_beginning(unit: str, instant: Scalar) -> bool:
    """Return whether the value of ``instant`` is always the start of a ``unit``.

    The function recognizes only a DATE at midnight, plus or minus whole days.
    """
    match instant:
        case Cast(arg=day, type=type):
            return day.type == DATE and type == TIMESTAMP and unit in FIXED and unit != "WEEK"
        case Call(name="+" | "-", args=(begun, Literal(value=int(span), type=type))):
            return type == INTERVAL and span % DAY == 0 and _is_beginning(unit, begun)
        case Call(name="+" | "-", args=(begun, Call(name="*", args=(Literal(value=int(span), type=type), _)))):
            return type == INTERVAL and span % DAY == 0 and _is_beginning(unit, begun)
        case _:
            return unit == "MICROSECOND"


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
        case Call(name="greatest" | "least" | "coalesce" | "ifnull" | "nvl" | "date_trunc", args=args):
            return all(within_calendar(arg, depth) for arg in args)
        case _:
            return is_constant(value)


def near(instant: Scalar) -> tuple[Shifted, int]:
    """Return a simpler expression for a time near ``instant``, and the maximal difference in microseconds.

    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> moved, slack = near(following("DAY", plus(ts, Literal(5, INTERVAL))))
    >>> moved.base == ts, moved.micros == DAY + 5, slack == DAY
    (True, True, True)
    """
    moved, slack = shifted(instant), 0
    while True:
        match moved.base:
            case Call(name="date_trunc", args=(Literal(value=str(unit)), inner)):
                slack += FIXED[unit] if unit in FIXED else IN_MONTHS[unit] * _LONGEST_MONTH
            case Call(name="+" | "-", args=(inner, Literal(value=int(count), type=type))) if type == MONTHS:
                slack += abs(count) * _LONGEST_MONTH
            case Cast(arg=Cast(arg=inner, type=day), type=type) if (
                day == DATE and TIMESTAMP == type == inner.type  # the first instant of a day
            ):
                slack += DAY
            case _:
                return moved, slack
        below = shifted(inner)
        moved = Shifted(below.base, below.micros + moved.micros, (*below.intervals, *moved.intervals))
