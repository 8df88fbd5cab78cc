"""The terms of a refresh: which tuples change as time passes from t to t_now.

A predicate p takes out the tuples with [p]_t ∧ [¬p]_now and puts in those with [p]_now ∧ [¬p]_t (section 4.3.2).  The
conjuncts of p that cannot change with time (no NOW, no dependence on the open end of a period) hold at both instants or
at neither.  They form s.  The others, v1 to vn, change one by one:

    [p]_t ∧ [¬p]_now = s ∧ [v]_t ∧ ([¬v1]_now ∨ … ∨ [¬vn]_now)        p = s ∧ v1 ∧ … ∧ vn

A disjunct that is unsatisfiable for t < t_now is dropped.  If all are dropped, the term is empty for all data and is
dropped too.

Each remaining case is a selection or join.  A tuple that changes by vi has, for a non-decreasing function f of NOW
alone:

    vi = PERIOD_START(e) op f(NOW)        its first instant between f(t) and f(t_now)
    vi = PERIOD_END(e) op f(NOW)          its last instant there, or it is open, unless that is refuted
    vi without NOW, on e alone            e is open: closed periods do not change
    vi = g(columns) op f(NOW)             g between f(t) and f(t_now), whatever its periods

The first (last) instant of a row of π, σ or ∪ is that of a tuple below which gives it, so the rows in question are
found from the base relation's own tuples with such a first (last) instant: a window of it, not the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from weft.algebra.scalar import (
    MICROSECOND,
    REFRESHED,
    Call,
    Now,
    PeriodOf,
    Scalar,
    call,
    children,
    columns,
    mentions_now,
    minus,
    plus,
)
from weft.algebra.schema import TIMESTAMP
from weft.algebra.temporal import (
    VALID_FROM,
    VALID_TO,
    Base,
    Extension,
    Projection,
    Selection,
    Semijoin,
    Temporal,
    TemporalUnion,
    attributes,
    mentions_time,
)
from weft.derivation.temporal.judging import START, as_of_refresh, conjunction, conjuncts, disjunction, not_true
from weft.derivation.temporal.rules import Dropped, Log
from weft.derivation.temporal.satisfiable import END, contradiction, rises

LEAVING = "[p]_t ∧ [¬p]_now"
COMING = "[p]_now ∧ [¬p]_t"

Bound: TypeAlias = "Callable[[str], Scalar]"
"""A condition on the period set of a range variable."""


@dataclass(frozen=True)
class Crossing:
    """One case of a term: its whole predicate, and what then holds of the period set of ``scan``, or of a row."""

    predicate: Scalar
    scan: str | None
    bound: Bound
    row: Scalar | None = None


def crossings(predicate: Scalar) -> tuple[Crossing, ...] | None:
    """The cases of a refresh's term, which together are the term; None where it is none or a case is not understood."""
    parts = conjuncts(predicate)
    if not parts:
        return None
    *others, last = parts
    turns = [_turns(each) for each in _alternatives(last)]
    found = []
    for part in turns:
        if part is None or not any(as_of_refresh(part) == each or as_of_refresh(each) == part for each in others):
            return None
        case = conjunction(*others, not_true(part))
        now = part if as_of_refresh(part) != part else next(each for each in others if as_of_refresh(each) == part)
        crossing = _crossing(now, case)
        if crossing is None:
            return None
        found.append(crossing)
    return tuple(found)


def _alternatives(predicate: Scalar) -> tuple[Scalar, ...]:
    return predicate.args if isinstance(predicate, Call) and predicate.name == "or" else (predicate,)


def _turns(predicate: Scalar) -> Scalar | None:
    """v of ¬v, as ``not_true`` writes it."""
    match predicate:
        case Call(name="not", args=(Call(name="<=>", args=(inner, _)),)) if not_true(inner) == predicate:
            return inner
    return None


def _crossing(part: Scalar, case: Scalar) -> Crossing | None:
    """What holds where ``part`` is judged differently at t and t_now, in this case of the term."""
    scans = {period.scan for period in _periods(part)}
    if len(scans) == 1 and not mentions_now(part):
        return Crossing(case, scans.pop(), is_open)
    if not isinstance(part, Call) or part.name not in ("<", "<=", ">", ">=", "=", "<>"):
        return None
    one, other = part.args
    return _compared(one, other, case) or _compared(other, one, case)


def _compared(side: Scalar, threshold: Scalar, case: Scalar) -> Crossing | None:
    """Of ``side`` against a threshold of NOW alone."""
    if columns(threshold) or any(_periods(threshold)) or not rises(threshold):
        return None
    was = as_of_refresh(threshold)
    if isinstance(side, Call) and side.name in (START, END):
        scan = next(_periods(side)).scan
        within = _between(side.name, was, threshold)
        if side.name == START:
            return Crossing(case, scan, within)
        if contradiction(conjunction(case, is_open(scan))) is not None:
            return Crossing(case, scan, lambda each: call("and", within(each), call("<", _instant(END, each), Now())))
        return Crossing(case, scan, lambda each: call("or", within(each), is_open(each)))
    if not columns(side) or mentions_time(side):
        return None
    row = call("and", call(">=", side, was), call("<=", side, threshold))
    return Crossing(case, None, is_open, row)


def is_window(predicate: Scalar) -> bool:
    """Whether a predicate only bounds the first and last instants of a period set, by what no row has a say in."""
    match predicate:
        case Call(name="and" | "or", args=args):
            return all(map(is_window, args))
        case Call(name="<" | "<=" | ">" | ">=" | "=", args=(Call(name="period_start" | "period_end"), other)):
            return not columns(other) and not any(_periods(other))
        case _:
            return False


@dataclass(frozen=True)
class Within:
    """Tuples of which a first (``column`` valid_from) or last instant (valid_to) lies between bounds, both included."""

    column: str
    lows: tuple[Scalar, ...]
    highs: tuple[Scalar, ...]


def windows(predicate: Scalar) -> tuple[Within, ...] | None:
    """Windows one of which has an instant of each tuple that satisfies a predicate (``is_window``); None: not so."""
    if not is_window(predicate):
        return None
    found = []
    for case in _alternatives(predicate):
        sides = [each for each in map(_side, conjuncts(case)) if each is not None]
        whole = (_merged(column, sides) for column in (VALID_FROM, VALID_TO))
        first = next((each for each in whole if each.lows and each.highs), None)
        if first is None:
            return None
        found.append(first)
    return tuple(found)


def _side(predicate: Scalar) -> Within | None:
    """What one comparison says of a first or last instant."""
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
    """Whether a tuple holds now."""
    return call(">=", _instant(END, scan), Now())


def _between(name: str, low: Scalar, high: Scalar) -> Bound:
    return lambda scan: call("and", call(">=", _instant(name, scan), low), call("<=", _instant(name, scan), high))


def _instant(name: str, scan: str) -> Scalar:
    return Call(name, (PeriodOf(scan),), TIMESTAMP)


def expiring(window: Extension) -> Bound:
    """Of what was open at t by EX_w and is not at t_now: its last instant is from t − w to t_now − w."""
    return _between(END, minus(REFRESHED, window.window), minus(Now(), window.window))


def candidates(relation: Temporal, bound: Bound) -> tuple[Temporal, frozenset[Temporal]] | None:
    """Rows among which are all rows of the relation whose period sets satisfy a bound on first or last instants.

    With them the selections of base relations' tuples from which they are made.  None where they come from something
    else than π, σ and ∪ over base relations.
    """
    match relation:
        case Base(alias=alias):
            found = Selection(relation, bound(alias))
            return found, frozenset((found,))
        case Selection(input=inner, predicate=predicate) if mentions_time(predicate):
            return candidates(inner, bound)
        case Semijoin(left=left):
            return candidates(left, bound)
        case Projection() | Selection():
            below = candidates(relation.input, bound)
            return below and (replace(relation, input=below[0]), below[1])
        case TemporalUnion(left=left, right=right):
            one, other = candidates(left, bound), candidates(right, bound)
            return one and other and (TemporalUnion(one[0], other[0]), one[1] | other[1])
        case _:
            return None


def single_variable(relation: Temporal) -> str | None:
    """The range variable of a relation that has but one."""
    scans = {ref.scan for ref in attributes(relation)}
    return scans.pop() if len(scans) == 1 else None


def _periods(scalar: Scalar) -> Iterator[PeriodOf]:
    if isinstance(scalar, PeriodOf):
        yield scalar
    for child in children(scalar):
        yield from _periods(child)


def turned(rule: str, operator: Temporal, predicate: Scalar, log: Log) -> tuple[Scalar | None, Scalar | None]:
    """The predicates of what is taken out and of what is put in; None for what is dropped, which is noted."""
    return (
        _turn(rule, operator, predicate, log, leaving=True),
        _turn(rule, operator, predicate, log, leaving=False),
    )


def _turn(rule: str, operator: Temporal, predicate: Scalar, log: Log, *, leaving: bool) -> Scalar | None:
    """s ∧ [v]_before ∧ ∨ [¬vi]_after, the parts that can be; None where there are none."""
    parts = conjuncts(predicate)
    steady = tuple(part for part in parts if as_of_refresh(part) == part)
    varying = tuple(part for part in parts if as_of_refresh(part) != part)
    then = tuple(map(as_of_refresh, varying))
    before, after = (then, varying) if leaving else (varying, then)
    name = LEAVING if leaving else COMING
    if not varying:
        never = conjunction(predicate, not_true(predicate))
        log.dropped.append(
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
            log.dropped.append(Dropped(rule, operator, name, part, case, refuted[part], whole))
    kept = tuple(not_true(each) for part, each in zip(varying, after, strict=True) if part not in refuted)
    return conjunction(*steady, *before, disjunction(kept)) if kept else None
