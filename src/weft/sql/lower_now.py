"""Comparisons with NOW, solved for NOW: ``NOW() - INTERVAL 4 WEEKS > m.ts`` becomes ``NOW > m.ts + 4 weeks``.

Paper, section 4.2: a term that involves time has the form "t op c", c an expression without t.  Then

    NOW >= c  is NowFrom(c)        NOW > c  is NowFrom(c + 1 µs)
    NOW <  d  is NowBefore(d)        NOW <= d is NowBefore(d + 1 µs)
    NOW =  c  is both            NOW <> c is either side

(time is discrete, design section 2; a NULL threshold is never true, and neither is its negation).  What rounds NOW down
(CURRENT_DATE, DATE_TRUNC) or counts units (DATEDIFF) is in ``lower_rounded``.
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
    """The predicate that a comparison with NOW, or its negation, means.

    Raises SqlError where NOW cannot be brought to one side alone.
    """
    left, right = comparison.args
    operator = comparison.name
    if mentions_now(left) and mentions_now(right):
        raise refuse("NOW() on both sides of a comparison", node, "it must stand on one side alone")
    if mentions_now(right):
        left, right, operator = right, left, MIRRORED[operator]
    if operator == "<=>":
        threshold = typed(converted(_isolated(left, right, node), TIMESTAMP), TIMESTAMP)
        return _null_safe(threshold, _both_null(left, right), positive)
    return _solved(left, operator if positive else NEGATED[operator], right, node)


def _isolated(side: Scalar, other: Scalar, node: exp.Expr) -> Scalar:
    """What NOW equals where ``side`` equals ``other``."""
    if isinstance(side, Now):
        return other
    moved = _step(side, "=", other)
    if moved is None:
        raise _not_solved(side, node)
    return _isolated(moved[0], moved[2], node)


def _solved(side: Scalar, operator: str, other: Scalar, node: exp.Expr) -> Predicate:
    """``side operator other`` with NOW on one side alone: what stands around it is moved over, one step at a time."""
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
            "they have no fixed length, so no one instant turns the condition",
            "Move the other side: NOW() > DATEADD(MONTH, 1, ts).",
        )
    counts_months = isinstance(side, Call) and side.name == "months_between"
    return refuse(
        "NOW() inside this expression",
        node,
        "it can be compared, rounded to a day or another unit, and intervals can be added to it or taken from it, but "
        "nothing else for now",
        "Move the row's own instant by the calendar: NOW() > DATEADD(MONTH, 10, ts)."
        if counts_months
        else "Write it like NOW() - INTERVAL 4 WEEKS > m.ts.",
    )


def _null_safe(threshold: Scalar, both_null: Scalar | None, positive: bool) -> Predicate:
    """NOW <=> threshold, which is never unknown; ``both_null`` says when the two sides were NULL before NOW was
    brought to one side alone (None: never)."""
    if positive:
        same = _compared("=", threshold)
        return same if both_null is None else disjunction(same, Plain(both_null))
    differ = disjunction(_compared("<>", threshold), Plain(call("is null", threshold)))
    return differ if both_null is None else conjunction(differ, Plain(call("not", both_null)))


def _both_null(side: Scalar, other: Scalar) -> Scalar | None:
    """Whether what stands beside NOW on its side is NULL, and the other side, too; None where nothing stands beside."""
    beside = [call("is null", each) for each in _beside_now(side)]
    if not beside:
        return None
    return call("and", call("or", *beside) if len(beside) > 1 else beside[0], call("is null", other))


def _beside_now(side: Scalar) -> list[Scalar]:
    """The terms that are added to NOW or taken from it, or from which it is taken."""
    if not isinstance(side, Call):
        return []
    return [term for part in side.args for term in (_beside_now(part) if mentions_now(part) else [part])]


def _step(side: Scalar, operator: str, other: Scalar) -> tuple[Scalar, str, Scalar] | None:
    """One interval, or the instant that NOW is taken from, moved from ``side`` to ``other``; None: it is neither."""
    match side:
        case Call(name="+", args=(a, b)) if mentions_now(a) and not mentions_now(b) and b.type == INTERVAL:
            return a, operator, minus(other, b)
        case Call(name="-", args=(a, b), type=kind) if mentions_now(a) and not mentions_now(b):
            if kind == INTERVAL:  # NOW - b op interval, b an instant
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
