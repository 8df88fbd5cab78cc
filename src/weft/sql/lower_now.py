"""Solve comparisons with NOW for NOW: ``NOW() - INTERVAL 4 WEEKS > m.ts`` becomes ``NOW > m.ts + 4 weeks``.

In section 4.2 of the paper, a term that involves time has the form "t op c" with an expression c without t.  Then

    NOW >= c  is NowFrom(c)          NOW > c  is NowFrom(c + 1 µs)
    NOW <  d  is NowBefore(d)        NOW <= d is NowBefore(d + 1 µs)
    NOW =  c  is both                NOW <> c is either side

because time is discrete (design section 2).  With a NULL threshold neither the comparison nor its negation is true.
``lower_rounded`` handles functions that round NOW down (CURRENT_DATE, DATE_TRUNC) or count units (DATEDIFF).
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.algebra.relation import NowBefore, NowFrom, Plain, Predicate, conjunction, disjunction
from weft.algebra.scalar import MICROSECOND, Call, Cast, Now, Scalar, call, mentions_now, minus, plus
from weft.algebra.schema import DATE, INTERVAL, MONTHS, TIMESTAMP
from weft.errors import SqlError
from weft.sql.conversion import converted, typed
from weft.sql.lower_rounded import MIRRORED, rounding_step
from weft.sql.refusal import refuse

NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


def now_comparison(comparison: Call, positive: bool, node: exp.Expr) -> Predicate:
    """Return the predicate of a comparison with NOW, or of its negation.

    Raise SqlError if NOW cannot be isolated on one side.
    """
    left, right = comparison.args
    operator = comparison.name
    if mentions_now(left) and mentions_now(right):
        raise refuse("NOW() on both sides of a comparison", node, "it must be on one side only")
    if mentions_now(right):
        left, right, operator = right, left, MIRRORED[operator]
    if operator == "<=>":
        threshold = typed(converted(_isolated(left, right, node), TIMESTAMP), TIMESTAMP)
        return _null_safe(threshold, _both_null(left, right), positive)
    return _solved(left, operator if positive else NEGATED[operator], right, node)


def _isolated(side: Scalar, other: Scalar, node: exp.Expr) -> Scalar:
    """Return the instant at which ``side`` equals ``other``."""
    if isinstance(side, Now):
        return other
    moved = _step(side, "=", other)
    if moved is None:
        raise _not_solved(side, node)
    return _isolated(moved[0], moved[2], node)


def _solved(side: Scalar, operator: str, other: Scalar, node: exp.Expr) -> Predicate:
    """Solve ``side operator other`` for NOW, which is in ``side``, by moving one operand at a time."""
    if isinstance(side, Now):
        return _compared(operator, typed(converted(other, TIMESTAMP), TIMESTAMP))
    moved = _step(side, operator, other)
    if moved is not None:
        return _solved(*moved, node)
    if operator == "=":
        return conjunction(_solved(side, ">=", other, node), _solved(side, "<=", other, node))
    if operator == "<>":
        return disjunction(_solved(side, "<", other, node), _solved(side, ">", other, node))
    rounded = rounding_step(side, operator, other, node)
    if rounded is None:
        raise _not_solved(side, node)
    return _solved(*rounded, node)


def _not_solved(side: Scalar, node: exp.Expr) -> SqlError:
    if any(each.type == MONTHS for each in _beside_now(side)):
        return refuse(
            "NOW() moved by months or years",
            node,
            "they have no fixed length, so the condition has no single threshold",
            "Move the other side: NOW() > DATEADD(MONTH, 1, ts).",
        )
    counts_months = isinstance(side, Call) and side.name == "months_between"
    return refuse(
        "NOW() inside this expression",
        node,
        "NOW() can only be compared, rounded to a unit such as a day, and moved by intervals",
        "Move the row's instant instead: NOW() > DATEADD(MONTH, 10, ts)."
        if counts_months
        else "Write it like NOW() - INTERVAL 4 WEEKS > m.ts.",
    )


def _null_safe(threshold: Scalar, both_null: Scalar | None, positive: bool) -> Predicate:
    """Return NOW <=> threshold, which is never unknown.

    ``both_null`` is the condition that both sides were NULL before NOW was isolated (None: never).
    """
    if positive:
        same = _compared("=", threshold)
        return same if both_null is None else disjunction(same, Plain(both_null))
    differ = disjunction(_compared("<>", threshold), Plain(call("is null", threshold)))
    return differ if both_null is None else conjunction(differ, Plain(call("not", both_null)))


def _both_null(side: Scalar, other: Scalar) -> Scalar | None:
    """Return the condition that an operand beside NOW and the other side are NULL, or None without such operands."""
    beside = [call("is null", each) for each in _beside_now(side)]
    if not beside:
        return None
    return call("and", call("or", *beside) if len(beside) > 1 else beside[0], call("is null", other))


def _beside_now(side: Scalar) -> list[Scalar]:
    """Return the terms added to or subtracted from NOW, or from which NOW is subtracted."""
    if not isinstance(side, Call):
        return []
    return [term for part in side.args for term in (_beside_now(part) if mentions_now(part) else [part])]


def _step(side: Scalar, operator: str, other: Scalar) -> tuple[Scalar, str, Scalar] | None:
    """Move an interval, or the instant from which NOW is subtracted, from ``side`` to ``other``, or return None."""
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
