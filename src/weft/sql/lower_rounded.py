"""Simplify comparisons of NOW rounded down to a unit, or counted in units, towards ``NOW op threshold``.

trunc(NOW) is at least a midnight from that midnight on.  With ``reached`` and ``following`` from ``algebra.calendar``:

    trunc(NOW) >= x   is  NOW >= reached(x)        trunc(NOW) >  x   is  NOW >= following(x)
    trunc(NOW) <  x   is  NOW <  reached(x)        trunc(NOW) <= x   is  NOW <  following(x)

DATEDIFF(NOW(), x) = day(NOW) - day(x) is compared as CURRENT_DATE with a day.  TIMESTAMPDIFF(unit, x, NOW()) truncates
towards 0: for n > 0 it is n or more from x + n units on; for other n, from one microsecond after x + (n - 1) units on.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.algebra.calendar import DAY, FIXED, IN_MONTHS, following, reached
from weft.algebra.scalar import MICROSECOND, Call, Case, Cast, Literal, Scalar, mentions_now, minus, plus
from weft.algebra.schema import BOOLEAN, DATE, INTEGRAL, INTERVAL, TIMESTAMP
from weft.sql import intervals
from weft.sql.conversion import converted
from weft.sql.refusal import refuse

MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}
_NEXT_UP: Final = {">": ">=", "<=": "<"}
_MOST_DAYS: Final = 8_000_000
"""More days than the calendar has, so a greater number of days makes no difference."""
NowComparison = tuple[Scalar, str, Scalar]
"""The side with NOW, an operator, the other side."""


def rounding_step(side: Scalar, operator: str, other: Scalar, node: exp.Expr) -> NowComparison | None:
    """Remove one rounding or count from ``side operator other`` (< <= > or >=); return None if ``side`` has neither.

    Raise SqlError for a count without a fixed threshold.
    """
    match side:
        case Call(name="datediff" | "timestampdiff", args=args) if all(map(mentions_now, args[-2:])):
            return None
        case Cast(arg=inner, type=type) if type == DATE and inner.type == TIMESTAMP:
            return _rounded("DAY", inner, operator, converted(other, TIMESTAMP))
        case Call(name="date_trunc", args=(Literal(value=str(unit)), inner)):
            return _rounded(unit, inner, operator, converted(other, TIMESTAMP))
        case Call(name="date_add" | "date_sub" as name, args=(day, count)) if not mentions_now(count):
            back = minus if name == "date_add" else plus
            return day, operator, back(converted(other, TIMESTAMP), _days(count))
        case Call(name="datediff", args=(end, start)):
            if other.type.name not in INTEGRAL:
                raise refuse("DATEDIFF of NOW() compared with another type", node, "DATEDIFF is a whole number of days")
            if mentions_now(end):
                return _as_day(end), operator, plus(_midnight(start), _days(other))
            return _as_day(start), MIRRORED[operator], minus(_midnight(end), _days(other))
        case Call(name="timestampdiff", args=(Literal(value=str(unit)), start, end)):
            return _counted(unit, (start, end), operator, other, node)
        case _:
            return None


def _rounded(unit: str, inner: Scalar, operator: str, other: Scalar) -> NowComparison:
    if operator in _NEXT_UP:
        return inner, _NEXT_UP[operator], following(unit, other)
    return inner, operator, reached(unit, other)


def _days(count: Scalar) -> Scalar:
    if isinstance(count, Literal) and isinstance(count.value, int):
        return Literal(count.value * DAY, INTERVAL)
    most, least = (Literal(sign * _MOST_DAYS, count.type, fixed=True) for sign in (1, -1))
    beyond = ((Call(">", (count, most), BOOLEAN), most), (Call("<", (count, least), BOOLEAN), least))
    within = count if count.type.name in ("TINYINT", "SMALLINT") else Case(beyond, count, count.type)
    return Call("*", (Literal(DAY, INTERVAL), within), INTERVAL)


def _as_day(time: Scalar) -> Scalar:
    return time if time.type == DATE else Cast(time, DATE)


def _midnight(time: Scalar) -> Scalar:
    return converted(_as_day(time), TIMESTAMP)


def _by_calendar(unit: str, between: tuple[Scalar, Scalar], operator: str, count: object) -> str:
    """Return a hint for a comparison of a number of units until NOW()."""
    if unit not in IN_MONTHS or not isinstance(count, int):
        return "Write it like NOW() >= ts + INTERVAL 36 HOURS."
    if mentions_now(between[0]):
        operator, count = MIRRORED[operator], -count
    least = count + 1 if operator in _NEXT_UP else count
    if least <= 0:  # below 0 truncation goes the other way
        return "Move the row's instant instead: NOW() >= DATEADD(MONTH, 10, ts)."
    step = ">=" if operator in (">", ">=") else "<"
    return f"Move the row's instant instead: NOW() {step} DATEADD({unit}, {least}, ts)."


def _counted(unit: str, between: tuple[Scalar, Scalar], operator: str, other: Scalar, node: exp.Expr) -> NowComparison:
    """Compare the whole units between NOW and an instant with a constant."""
    count = other.value if isinstance(other, Literal) and other.type.name in INTEGRAL else None
    if unit not in FIXED or not isinstance(count, int):
        raise refuse(
            f"this comparison of a number of {unit}S until NOW()",
            node,
            "only a constant whole number of weeks or shorter units has a threshold",
            _by_calendar(unit, between, operator, count),
        )
    start, end = between
    if mentions_now(start):
        start, end, operator, count = end, start, MIRRORED[operator], -count
    least = count + 1 if operator in _NEXT_UP else count
    step = ">=" if operator in (">", ">=") else "<"
    span = intervals.length((least if least > 0 else least - 1) * FIXED[unit], node)
    threshold = plus(start, span)
    return end, step, threshold if least > 0 else plus(threshold, MICROSECOND)
