"""Derive the terms of a refresh: the tuples that change as time passes from t to t_now.

For a predicate p, a refresh deletes the tuples with [p]_t ∧ [¬p]_now and inserts the tuples with [p]_now ∧ [¬p]_t
(section 4.3.2).  A conjunct of p cannot change if it depends neither on NOW nor on the open end of a period.  Let s be
the conjunction of the conjuncts that cannot change, and let v1 to vn be the other conjuncts.  Then:

    p = s ∧ v1 ∧ … ∧ vn        [p]_t ∧ [¬p]_now = s ∧ [v]_t ∧ ([¬v1]_now ∨ … ∨ [¬vn]_now)

The module drops a disjunct that cannot hold for t < t_now.  If no disjunct remains, the term is empty for all data, and
the module drops the term.

Each remaining case is a selection or join.  Let f be a non-decreasing function of NOW alone.  If vi changes for a
tuple, the tuple satisfies the condition on the right:

    vi = PERIOD_START(e) op f(NOW)        the first instant of e is between f(t) and f(t_now)
    vi = PERIOD_END(e) op f(NOW)          the last instant of e is between f(t) and f(t_now), or e is open
    vi without NOW, on e alone            e is open, because closed periods do not change
    vi = g(columns) op f(NOW)             g is between f(t) and f(t_now), for any periods

In the second case, the part "or e is open" is omitted if it contradicts the other conditions.

A row of π, σ or ∪ takes its first instant from an input tuple, and its last instant from the same or another input
tuple.  The candidate rows therefore come from base tuples whose first (last) instant satisfies the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.algebra import temporal
from weft.algebra.relation import Join, Project, Scan, Select, Union
from weft.algebra.scalar import (
    MICROSECOND,
    REFRESHED,
    Call,
    Now,
    PeriodOf,
    Scalar,
    call,
    columns,
    conjuncts,
    mentions_now,
    minus,
    plus,
)
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO
from weft.derivation.temporal.judging import START, as_of_refresh, conjunction, disjunction, not_true
from weft.derivation.temporal.rules import DerivationTrace, Dropped
from weft.derivation.temporal.satisfiable import END, contradiction, rises

LEAVING = "[p]_t ∧ [¬p]_now"
COMING = "[p]_now ∧ [¬p]_t"

PeriodCondition: TypeAlias = "Callable[[str], Scalar]"
"""A function from a range variable to a condition on its period set."""


@dataclass(frozen=True)
class Crossing:
    """One case of a refresh, with a condition on the tuples that can change.

    ``row`` is a condition on the columns.  If ``row`` is None, ``bound`` is a condition on the period set of ``scan``.
    """

    predicate: Scalar
    scan: str | None
    bound: PeriodCondition
    row: Scalar | None = None


def crossings(predicate: Scalar) -> tuple[Crossing, ...] | None:
    """Split a predicate of a refresh into cases.

    Return None if the predicate has another form, or if no rule covers a case.
    """
    parts = conjuncts(predicate)
    if not parts:
        return None
    *others, last = parts
    changing = [_negated(each) for each in _alternatives(last)]
    result = []
    for part in changing:
        if part is None or not any(as_of_refresh(part) == each or as_of_refresh(each) == part for each in others):
            return None
        case = conjunction(*others, not_true(part))
        now = part if as_of_refresh(part) != part else next(each for each in others if as_of_refresh(each) == part)
        crossing = _crossing(now, case)
        if crossing is None:
            return None
        result.append(crossing)
    return tuple(result)


def _alternatives(predicate: Scalar) -> tuple[Scalar, ...]:
    return predicate.args if isinstance(predicate, Call) and predicate.name == "or" else (predicate,)


def _negated(predicate: Scalar) -> Scalar | None:
    """Return v if the predicate is ``not_true(v)``, otherwise None."""
    match predicate:
        case Call(name="not", args=(Call(name="<=>", args=(inner, _)),)) if not_true(inner) == predicate:
            return inner
    return None


def _crossing(part: Scalar, case: Scalar) -> Crossing | None:
    """Return None if no rule covers ``part``, the conjunct that differs between t and t_now."""
    scans = temporal.periods_asked(part)
    if len(scans) == 1 and not mentions_now(part):
        return Crossing(case, next(iter(scans)), is_open)
    if not isinstance(part, Call) or part.name not in ("<", "<=", ">", ">=", "=", "<>"):
        return None
    one, other = part.args
    return _compared(one, other, case) or _compared(other, one, case)


def _compared(side: Scalar, threshold: Scalar, case: Scalar) -> Crossing | None:
    """Return None unless the threshold depends on NOW alone."""
    if columns(threshold) or temporal.periods_asked(threshold) or not rises(threshold):
        return None
    was = as_of_refresh(threshold)
    if isinstance(side, Call) and side.name in (START, END):
        (scan,) = temporal.periods_asked(side)
        within = _between(side.name, was, threshold)
        if side.name == START:
            return Crossing(case, scan, within)
        if contradiction(conjunction(case, is_open(scan))) is not None:
            return Crossing(case, scan, lambda each: call("and", within(each), call("<", _instant(END, each), Now())))
        return Crossing(case, scan, lambda each: call("or", within(each), is_open(each)))
    if not columns(side) or temporal.mentions_time(side):
        return None
    row = call("and", call(">=", side, was), call("<=", side, threshold))
    return Crossing(case, None, is_open, row)


def is_window(predicate: Scalar) -> bool:
    """Return whether a predicate only compares first and last instants with values that do not depend on the row."""
    match predicate:
        case Call(name="and" | "or", args=args):
            return all(map(is_window, args))
        case Call(name="<" | "<=" | ">" | ">=" | "=", args=(Call(name="period_start" | "period_end"), other)):
            return not columns(other) and not temporal.periods_asked(other)
        case _:
            return False


@dataclass(frozen=True)
class Within:
    """A window: the instant in ``column`` is between all ``lows`` and all ``highs``, inclusive.

    ``column`` is valid_from for the first instant of a period, or valid_to for the last instant.
    """

    column: str
    lows: tuple[Scalar, ...]
    highs: tuple[Scalar, ...]


def windows(predicate: Scalar) -> tuple[Within, ...] | None:
    """Return windows for a predicate.  Every tuple that satisfies the predicate lies in one of the windows.

    Return None if ``is_window`` is false for the predicate, or if an alternative has no window with both bounds.
    """
    if not is_window(predicate):
        return None
    result = []
    for case in _alternatives(predicate):
        sides = [each for each in map(_side, conjuncts(case)) if each is not None]
        whole = (_merged(column, sides) for column in (VALID_FROM, VALID_TO))
        first = next((each for each in whole if each.lows and each.highs), None)
        if first is None:
            return None
        result.append(first)
    return tuple(result)


def _side(predicate: Scalar) -> Within | None:
    match predicate:
        case Call(name=op, args=(Call(name=name, args=(PeriodOf(at=None),)), bound)) if name in (START, END):
            column = VALID_FROM if name == START else VALID_TO
            low = {">": plus(bound, MICROSECOND), ">=": bound, "=": bound}.get(op)
            high = {"<": minus(bound, MICROSECOND), "<=": bound, "=": bound}.get(op)
            return Within(column, () if low is None else (low,), () if high is None else (high,))
    return None


def _merged(column: str, sides: Sequence[Within]) -> Within:
    mine = [each for each in sides if each.column == column]
    return Within(column, tuple(b for each in mine for b in each.lows), tuple(b for each in mine for b in each.highs))


def is_open(scan: str) -> Scalar:
    """Return the condition that a tuple of ``scan`` holds now."""
    return call(">=", _instant(END, scan), Now())


def _between(name: str, low: Scalar, high: Scalar) -> PeriodCondition:
    return lambda scan: call("and", call(">=", _instant(name, scan), low), call("<=", _instant(name, scan), high))


def _instant(name: str, scan: str) -> Scalar:
    return Call(name, (PeriodOf(scan),), TIMESTAMP)


def expiring(window: temporal.Extension) -> PeriodCondition:
    """Return the condition that EX_w contained a tuple at t because of the extension, but may not contain it at t_now.

    The last instant of the tuple is between t − w and t_now − w.
    """
    return _between(END, minus(REFRESHED, window.window), minus(Now(), window.window))


def candidates(
    relation: temporal.Temporal | Join[temporal.Temporal], bound: PeriodCondition
) -> tuple[temporal.Temporal, frozenset[temporal.Temporal]] | None:
    """Return a relation with all rows whose period sets satisfy ``bound``, possibly with other rows.

    Also return the selections of base tuples that the relation reads.  Return None if the relation has operators other
    than π, σ, ⋉ and ∪ over base relations.
    """
    match relation:
        case Scan(alias=alias):
            tuples = Select(relation, bound(alias))
            return tuples, frozenset((tuples,))
        case Select(input=inner, predicate=predicate) if temporal.mentions_time(predicate):
            return candidates(inner, bound)
        case temporal.Semijoin(left=left):
            return candidates(left, bound)
        case Project(input=inner) | Select(input=inner):
            below = candidates(inner, bound)
            return below and (temporal.over(relation, (below[0],)), below[1])
        case Union(inputs=parts):
            among = [each for each in (candidates(part, bound) for part in parts) if each is not None]
            rows, leaves = zip(*among, strict=True) if len(among) == len(parts) else ((), ())
            return (temporal.union(*rows), frozenset().union(*leaves)) if rows else None
        case _:
            return None


def single_variable(relation: temporal.Temporal) -> str | None:
    """Return the only range variable of a relation, or None if it has several."""
    scans = {ref.scan for ref in temporal.attributes(relation)}
    return next(iter(scans)) if len(scans) == 1 else None


def refresh_predicates(
    rule: str, operator: temporal.Temporal, predicate: Scalar, trace: DerivationTrace
) -> tuple[Scalar | None, Scalar | None]:
    """Return the predicates of the deleted and of the inserted tuples.  A predicate is None if the term is dropped."""
    return (
        _refresh_predicate(rule, operator, predicate, trace, leaving=True),
        _refresh_predicate(rule, operator, predicate, trace, leaving=False),
    )


def _refresh_predicate(
    rule: str, operator: temporal.Temporal, predicate: Scalar, trace: DerivationTrace, *, leaving: bool
) -> Scalar | None:
    """Return s ∧ [v]_before ∧ ∨ [¬vi]_after with the satisfiable disjuncts, or None if no disjunct is satisfiable."""
    parts = conjuncts(predicate)
    steady = tuple(part for part in parts if as_of_refresh(part) == part)
    varying = tuple(part for part in parts if as_of_refresh(part) != part)
    then = tuple(map(as_of_refresh, varying))
    before, after = (then, varying) if leaving else (varying, then)
    name = LEAVING if leaving else COMING
    if not varying:
        never = conjunction(predicate, not_true(predicate))
        trace.dropped.append(
            Dropped(rule, operator, name, predicate, never, ("it does not change as time passes",), True)
        )
        return None
    cases = [
        (part, conjunction(*steady, *before, not_true(judged))) for part, judged in zip(varying, after, strict=True)
    ]
    refuted = {part: why for part, case in cases if (why := contradiction(case)) is not None}
    whole = len(refuted) == len(cases)
    for part, case in cases:
        if part in refuted:
            trace.dropped.append(Dropped(rule, operator, name, part, case, refuted[part], whole))
    unrefuted = tuple(not_true(each) for part, each in zip(varying, after, strict=True) if part not in refuted)
    return conjunction(*steady, *before, disjunction(unrefuted)) if unrefuted else None
