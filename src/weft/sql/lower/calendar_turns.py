"""Find the instants at which a comparison of a calendar function of NOW becomes true or false.

A calendar function can fall while time passes.  ``NOW() - INTERVAL 1 MONTH`` is 28 February 12:00 at noon on 28 March,
and 28 February 0:00 twelve hours later.  ``FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin')`` falls by an hour at the end of
daylight saving.  A comparison with such a function becomes true, false, and true again.

For a function f and a value c, the *turns* u1 <= u2 <= … <= u2n+1 are all these instants: f(NOW) >= c is true in the
periods [u1, u2), [u3, u4), … and from u2n+1 on.  A period may be empty.  All instants are expressions over c, which are
NULL if c is NULL.  If f is a function of another function of NOW, the turns are values of the other function.

**Months.**  Let f(n) = n + k months, let c be on day d of a month of L days, and let M' be the month of c minus k
months, with L' days.  In M', f preserves the time of day, and replaces each day after the last day of c's month by that
day.  ``S`` is the end of M'.  The instant p is c's distance from the start of its month, counted from the start of M'.

    d < L    f(n) >= c from p on, or from S on if p >= S
    d = L    f(n) >= c from the time of day of c to midnight, on each of the days d, d + 1, … of M'; and from S on

There are at most four such days, because L' is at most L + 3, or L + 1 if k months are years.  The last of them ends at
S.  No turn is after S.  If d < L, all turns are the first.

**Zones.**  Let f(n) be the clock of a zone.  Its changes of offset by s occur at multiples of s, plus a constant.  Let
u be the instant that the engine computes for the clock time c.  The clock repeats c if it also shows c at u + s: then
f(n) >= c from u to the change, and from u + s on.  The clock skips c if it shows c + s at u: then f(n) >= c from the
change on.  The change is the only multiple in (u, u + s] or (u - s, u].  If the clock does not repeat c, all turns are
the first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final

from weft.algebra.calendar import DAY, IN_MONTHS, dated, elapsed, following, last_multiple, reached, truncated
from weft.algebra.relation import NowFrom, Predicate, Turns, opposite
from weft.algebra.scalar import MICROSECOND, Call, Case, Cast, Literal, Scalar, call, minus, plus
from weft.algebra.schema import DATE, INT, INTEGRAL, INTERVAL, MONTHS, STRING, TIMESTAMP
from weft.instants import from_datetime
from weft.sql.lower.conversion import converted
from weft.sql.lower.zones import changes

Solved = Callable[[Scalar, str, Scalar], Predicate]
"""A function that solves a comparison for NOW.  The operator is < or >=."""
_YEARS: Final = (1, 9999)


def calendar_comparison(side: Scalar, operator: str, other: Scalar, solved: Solved) -> Predicate | None:
    """Return the predicate of ``side operator other``, or None if ``side`` is no calendar function of NOW.

    The operator is <, <=, > or >=.
    """
    match side:
        case Call(name="+" | "-" as sign, args=(inner, Literal(value=int(count), type=type))) if type == MONTHS:
            months = count if sign == "+" else -count
            if isinstance(inner, Cast) and inner.arg.type == DATE:
                return solved(inner, _step(operator), months_of_days(_midnight(operator, other), months))
            turns = months_turns(_least(operator, other), months)
            return _turning(call(operator, side, other), tuple(solved(inner, ">=", turn) for turn in turns))
        case Call(name="add_months", args=(day, Literal(value=int(count)))):
            return solved(day, _step(operator), months_of_days(_midnight(operator, other), count))
        case Call(name="last_day", args=(day,)):
            return solved(day, _step(operator), truncated("MONTH", _midnight(operator, other)))
        case Call(name="from_utc_timestamp", args=(inner, Literal(value=str(zone)))):
            found = zone_turns(_least(operator, other), zone)
            if found is None:
                return None
            return _turning(call(operator, side, other), tuple(solved(inner, ">=", turn) for turn in found))
        case Call(name="year", args=(time,)) if other.type.name in INTEGRAL:
            return solved(time, _step(operator), _year(other, 1 if operator in (">", "<=") else 0))
        case _:
            return None


def _turning(comparison: Call, turns: tuple[Predicate, ...]) -> Predicate:
    """Return the predicate of a comparison with a function of NOW.  Its operator is <, <=, > or >=."""
    begun = _step(comparison.name) == "<"
    conditions = tuple(turn for turn in turns if isinstance(turn, (NowFrom, Turns)))
    assert len(conditions) == len(turns), "a function of NOW that does not grow has no turns"
    if len(conditions) > 1:
        return Turns(comparison, conditions, begun)
    return opposite(conditions[0]) if begun else conditions[0]


def _step(operator: str) -> str:
    return ">=" if operator in (">", ">=") else "<"


def _least(operator: str, other: Scalar) -> Scalar:
    """Return the least instant for which >= is true, or < is false."""
    instant = converted(other, TIMESTAMP)
    return plus(instant, MICROSECOND) if operator in (">", "<=") else instant


def _midnight(operator: str, other: Scalar) -> Scalar:
    """Return the least midnight for which >= is true, or < is false."""
    instant = converted(other, TIMESTAMP)
    return following("DAY", instant) if operator in (">", "<=") else reached("DAY", instant)


def months_of_days(c: Scalar, count: int) -> Scalar:
    """Return the only turn of ``n + count months >= c`` if n and c are midnights."""
    begun, end = _month_before(c, count)
    return Call("least", (plus(begun, elapsed("MONTH", c)), end), TIMESTAMP)


def months_turns(c: Scalar, count: int) -> tuple[Scalar, ...]:
    """Return the turns of ``n + count months >= c`` (see above)."""
    begun, end = _month_before(c, count)
    distance = plus(begun, elapsed("MONTH", c))
    midnight = truncated("DAY", distance)
    first = Call("least", (distance, end), TIMESTAMP)
    on_last_day = call(">=", c, minus(moved(truncated("MONTH", c), 1), _days(1)))
    turns: list[Scalar] = [first]
    for days in range(1, 2 if count % 12 == 0 else 4):
        for turn in (plus(midnight, _days(days)), plus(distance, _days(days))):
            turns.append(Case(((on_last_day, Call("least", (turn, end), TIMESTAMP)),), first, TIMESTAMP))
    return tuple(turns)


def _days(count: int) -> Literal:
    return Literal(count * DAY, INTERVAL, fixed=True)


def _month_before(c: Scalar, count: int) -> tuple[Scalar, Scalar]:
    """Return the start and the end of the month that is ``count`` months before the month of ``c``."""
    month = truncated("MONTH", c)
    return moved(month, -count), moved(month, 1 - count)


def moved(instant: Scalar, months: int) -> Scalar:
    """Return an expression for ``instant`` plus a constant number of months."""
    if not months:
        return instant
    return Call("+", (instant, Literal(months, MONTHS, fixed=True)), TIMESTAMP)


def zone_turns(c: Scalar, zone: str) -> tuple[Scalar, ...] | None:
    """Return the turns of FROM_UTC_TIMESTAMP(n, zone) >= c, or None if the changes of the zone are not regular."""
    sizes, at = changes(zone), Literal(zone, STRING, fixed=True)
    if sizes is None:
        return None
    first = Call("to_utc_timestamp", (dated(c), at), TIMESTAMP)
    if not sizes:
        return (first,)
    shown = Call("from_utc_timestamp", (first, at), TIMESTAMP)
    skipped, repeated, left = [], [], []
    for each in sizes:
        size = Literal(each.size, INTERVAL, fixed=True)
        later = plus(first, size)
        again = call("=", Call("from_utc_timestamp", (later, at), TIMESTAMP), c)
        skipped.append((call("=", shown, plus(c, size)), last_multiple(each.size, each.phase, first)))
        repeated.append((again, later))
        left.append((again, last_multiple(each.size, each.phase, later)))
    return tuple(Case((*parts, *skipped), first, TIMESTAMP) for parts in ((), left, repeated))


def counted_months(unit: str, start: Scalar, least: int) -> Scalar:
    """Return the first instant n at which TIMESTAMPDIFF(unit, start, n) >= ``least``.

    TIMESTAMPDIFF truncates towards 0, and counts a month when the day and the time of ``start`` are reached.  If the
    month is too short for the day, the time of ``start`` on the first day of the next month counts.
    """
    months = least * IN_MONTHS[unit]
    if least <= 0:
        return plus(moved(start, months - IN_MONTHS[unit]), MICROSECOND)
    month = truncated("MONTH", start)
    end, reached_ = moved(month, months + 1), plus(moved(month, months), elapsed("MONTH", start))
    return Case(((call("<", reached_, end), reached_),), plus(end, elapsed("DAY", start)), TIMESTAMP)


def _year(number: Scalar, more: int) -> Scalar:
    """Return the start of the year ``number + more``."""
    match number:
        case Literal(value=int(year)):
            begun = dt.datetime(min(max(year + more, _YEARS[0]), _YEARS[1]), 1, 1)
            return Literal(from_datetime(begun), TIMESTAMP, fixed=True)
        case Call(name="year", args=(time,)):
            return moved(truncated("YEAR", converted(time, TIMESTAMP)), 12 * more)
        case Call(name="+" | "-" as sign, args=(year, Literal(value=int(count)))):
            return _year(year, more + (count if sign == "+" else -count))
        case _:
            least, most = (Literal(year - more, number.type, fixed=True) for year in _YEARS)
            beyond = ((call("<", number, least), least), (call(">", number, most), most))
            year = Call("+", (Case(beyond, number, number.type), Literal(more, number.type, fixed=True)), number.type)
            first = Literal(1, INT, fixed=True)
            return Cast(Call("make_date", (Cast(year, INT), first, first), DATE), TIMESTAMP)
