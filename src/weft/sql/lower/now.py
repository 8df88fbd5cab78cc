"""Solve comparisons with NOW for NOW: ``NOW() - INTERVAL 4 WEEKS > m.ts`` becomes ``NOW > m.ts + 4 weeks``.

In section 4.2 of the paper, a condition on time has the form "t op c".  The time t does not occur in the expression c.
Because time is discrete (design section 2), these predicates are equivalent:

    NOW >= c  is NowFrom(c)          NOW > c  is NowFrom(c + 1 µs)
    NOW <  d  is NowBefore(d)        NOW <= d is NowBefore(d + 1 µs)
    NOW =  c  is both                NOW <> c is either side

If the threshold is NULL, neither the comparison nor its negation is true.  ``rounding_step`` removes CURRENT_DATE,
DATE_TRUNC or DATEDIFF of NOW from a comparison.

If x is a midnight, trunc(NOW) >= x is equivalent to NOW >= x.  For every x, the functions ``reached`` and ``following``
of ``algebra.calendar`` give these equivalences:

    trunc(NOW) >= x   is  NOW >= reached(x)        trunc(NOW) >  x   is  NOW >= following(x)
    trunc(NOW) <  x   is  NOW <  reached(x)        trunc(NOW) <= x   is  NOW <  following(x)

DATEDIFF(NOW(), x) = day(NOW) - day(x) becomes a comparison of CURRENT_DATE with a day.  TIMESTAMPDIFF(unit, x, NOW())
truncates towards 0.  If n > 0, TIMESTAMPDIFF(unit, x, NOW()) >= n is equivalent to NOW >= x + n units.  For other n,
the comparison is equivalent to NOW > x + (n - 1) units.  ``calendar_turns`` solves comparisons with functions of NOW
that depend on the lengths of months or on a time zone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from weft.algebra.calendar import DAY, FIXED, IN_MONTHS, following, reached
from weft.algebra.relation import NowBefore, NowFrom, Plain, Predicate, Turns, conjunction, disjunction
from weft.algebra.scalar import (
    MICROSECOND,
    NEGATED,
    Call,
    Case,
    Cast,
    Literal,
    Now,
    Scalar,
    call,
    columns,
    mentions_now,
    minus,
    plus,
)
from weft.algebra.schema import BOOLEAN, DATE, INTEGRAL, INTERVAL, TIMESTAMP
from weft.errors import SqlError
from weft.sql.lower import literals
from weft.sql.lower.calendar_turns import calendar_comparison, counted_months
from weft.sql.lower.conversion import converted, typed
from weft.sql.lower.refusal import refuse


def now_comparison(comparison: Call, positive: bool, node: exp.Expr) -> Predicate:
    """Return the predicate of a comparison with NOW, or of its negation if ``positive`` is False.

    Raise SqlError if NOW cannot be isolated on one side.
    """
    left, right = comparison.args
    operator = comparison.name
    if mentions_now(left) and mentions_now(right):
        hint = (
            "For NOW() - ts > NOW() - due write ts < due. "
            "For COALESCE(ts, NOW()) < NOW() - INTERVAL 1 DAY write ts < NOW() - INTERVAL 1 DAY."
        )
        raise refuse("NOW() on both sides of a comparison", node, "NOW() must be on one side only", hint)
    if mentions_now(right):
        left, right, operator = right, left, MIRRORED[operator]
    if operator == "<=>":
        threshold = typed(converted(_isolated(left, right, node), TIMESTAMP), TIMESTAMP)
        return _null_safe(threshold, _both_null(left, right), positive)
    solved = _solved(left, operator if positive else NEGATED[operator], right, node)
    if not isinstance(solved, Turns) or columns(left):  # a column beside NOW may be NULL, too
        return solved
    return replace(solved, comparison=comparison if positive else call(NEGATED[comparison.name], *comparison.args))


def _isolated(side: Scalar, other: Scalar, node: exp.Expr) -> Scalar:
    """Return the value of NOW at which ``side`` equals ``other``.  NOW occurs in ``side``."""
    if isinstance(side, Now):
        return other
    moved = _step(side, "=", other)
    if moved is None:
        raise _not_solved(side, node)
    return _isolated(moved[0], moved[2], node)


def _solved(side: Scalar, operator: str, other: Scalar, node: exp.Expr) -> Predicate:
    """Solve ``side operator other`` for NOW by moving one operand at a time.  NOW occurs in ``side``."""
    if isinstance(side, Now):
        return _compared(operator, typed(converted(other, TIMESTAMP), TIMESTAMP))
    moved = _step(side, operator, other)
    if moved is not None:
        return _solved(*moved, node)
    if operator == "=":
        return conjunction(_solved(side, ">=", other, node), _solved(side, "<=", other, node))
    if operator == "<>":
        return disjunction(_solved(side, "<", other, node), _solved(side, ">", other, node))
    on_calendar = calendar_comparison(side, operator, other, lambda a, step, c: _solved(a, step, c, node))
    if on_calendar is not None:
        return on_calendar
    rounded = rounding_step(side, operator, other, node)
    if rounded is None:
        raise _not_solved(side, node)
    return _solved(*rounded, node)


def _not_solved(side: Scalar, node: exp.Expr) -> SqlError:
    name = side.name if isinstance(side, Call) else ""
    if name in _PERIODIC:
        construct, unit = f"{name.upper()} of NOW()", _PERIODIC[name]
        reason = "the condition becomes true and false without end, and Weft computes each instant at which it does"
        whole = f"DATE_TRUNC('{unit}', NOW()) = DATE_TRUNC('{unit}', ts)"
        return refuse(
            construct, node, reason, f"Compare whole times instead: {whole}, or NOW() > ts + INTERVAL 9 HOURS."
        )
    if name == "from_utc_timestamp":
        reason = "the clock of this zone has changed at irregular instants since 1970"
        return refuse("NOW() in this zone", node, reason, "Write another region, or an offset such as '+02:00'.")
    return refuse(
        "NOW() inside this expression",
        node,
        "NOW() can only be compared, rounded to a unit such as a day, or shifted by intervals",
        "Shift the row's instant instead: NOW() > DATEADD(MONTH, 10, ts)."
        if name == "months_between"
        else "Write, for example, NOW() - INTERVAL 4 WEEKS > m.ts.",
    )


_PERIODIC: Final = {
    **dict.fromkeys(("quarter",), "QUARTER"),
    **dict.fromkeys(("month",), "MONTH"),
    **dict.fromkeys(("weekofyear",), "WEEK"),
    **dict.fromkeys(("day", "dayofmonth", "dayofweek", "dayofyear", "weekday"), "DAY"),
    **dict.fromkeys(("hour",), "HOUR"),
    **dict.fromkeys(("minute",), "MINUTE"),
    **dict.fromkeys(("second", "date_part"), "SECOND"),
}
"""The functions of a time whose values return, with the unit that they count."""


def _null_safe(threshold: Scalar, both_null: Scalar | None, positive: bool) -> Predicate:
    """Return the predicate NOW <=> threshold, or its negation.  The result is never unknown.

    ``both_null`` is the condition that both sides of the comparison are NULL, or None if this never happens.
    """
    if positive:
        same = _compared("=", threshold)
        return same if both_null is None else disjunction(same, Plain(both_null))
    differ = disjunction(_compared("<>", threshold), Plain(call("is null", threshold)))
    return differ if both_null is None else conjunction(differ, Plain(call("not", both_null)))


def _both_null(side: Scalar, other: Scalar) -> Scalar | None:
    """Return the condition that both sides of a comparison are NULL.  If ``side`` is NOW alone, return None."""
    beside = [call("is null", each) for each in _beside_now(side)]
    if not beside:
        return None
    return call("and", call("or", *beside) if len(beside) > 1 else beside[0], call("is null", other))


def _beside_now(side: Scalar) -> list[Scalar]:
    if not isinstance(side, Call):
        return []
    return [term for part in side.args for term in (_beside_now(part) if mentions_now(part) else [part])]


def _step(side: Scalar, operator: str, other: Scalar) -> tuple[Scalar, str, Scalar] | None:
    """Move one operand from ``side`` to ``other``.  If no operand can be moved, return None."""
    match side:
        case Call(name="+", args=(a, b)) if mentions_now(a) and not mentions_now(b) and b.type == INTERVAL:
            return a, operator, minus(other, b)
        case Call(name="-", args=(a, b), type=kind) if mentions_now(a) and not mentions_now(b):
            if kind == INTERVAL:  # NOW - b compared with an interval, where b is an instant
                return a, operator, plus(b, other)
            return (a, operator, plus(other, b)) if b.type == INTERVAL else None
        case Call(name="-", args=(a, b), type=kind) if kind == INTERVAL and mentions_now(b) and not mentions_now(a):
            return b, MIRRORED[operator], minus(a, other)
        case Cast(arg=day, type=kind) if day.type == DATE and kind == TIMESTAMP:
            return day, operator, other
    return None


def _compared(operator: str, c: Scalar) -> Predicate:
    after = plus(c, MICROSECOND)
    match operator:
        case ">=":
            return NowFrom(c)
        case ">":
            return NowFrom(after)
        case "<":
            return NowBefore(c)
        case "<=":
            return NowBefore(after)
        case "=":
            return conjunction(NowFrom(c), NowBefore(after))
        case _:
            return disjunction(NowBefore(c), NowFrom(after))


MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}
_NEXT_UP: Final = {">": ">=", "<=": "<"}
_MOST_DAYS: Final = 8_000_000
"""A number of days that exceeds the range of the calendar.  Every greater number has the same effect."""
NowComparison = tuple[Scalar, str, Scalar]
"""A comparison: the side with NOW, the operator, and the other side."""


def rounding_step(side: Scalar, operator: str, other: Scalar, node: exp.Expr) -> NowComparison | None:
    """Remove the outermost rounding or difference of times from ``side``, or return None.

    The operator is <, <=, > or >=.  Raise SqlError if the comparison has no fixed threshold.
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
    if unit not in IN_MONTHS or not isinstance(count, int):
        return "Write, for example, NOW() >= ts + INTERVAL 36 HOURS."
    left = count + 1 if operator in _NEXT_UP else count
    step = "<=" if operator in (">", ">=") else ">"
    return f"Shift the row's instant instead: NOW() {step} DATEADD({unit}, {-left}, ts)."


def _counted(unit: str, between: tuple[Scalar, Scalar], operator: str, other: Scalar, node: exp.Expr) -> NowComparison:
    """Translate a comparison of the number of units between NOW and another time."""
    count = other.value if isinstance(other, Literal) and other.type.name in INTEGRAL else None
    start, end = between
    if not isinstance(count, int) or (unit in IN_MONTHS and mentions_now(start)):
        raise refuse(
            f"the comparison of a number of {unit}S {'from' if mentions_now(start) else 'until'} NOW()",
            node,
            "compare it with a constant whole number, and use weeks or a shorter unit before a row's instant",
            _by_calendar(unit, between, operator, count),
        )
    if mentions_now(start):
        start, end, operator, count = end, start, MIRRORED[operator], -count
    least = count + 1 if operator in _NEXT_UP else count
    step = ">=" if operator in (">", ">=") else "<"
    if unit in IN_MONTHS:
        return end, step, counted_months(unit, start, least)
    span = literals.length((least if least > 0 else least - 1) * FIXED[unit], node)
    threshold = plus(start, span)
    return end, step, threshold if least > 0 else plus(threshold, MICROSECOND)
