"""Split conditions that contain NOW into thresholds of NOW.

AND, OR and NOT combine comparisons.  An expression that chooses a value, such as CASE or COALESCE, is split into cases:

    CASE WHEN NOW() > due THEN 'late' ELSE state END = 'late'
        is   NOW() > due                     AND 'late' = 'late'
        or   (NOW() <= due OR due IS NULL)   AND state = 'late'

``NOW`` is never NULL, and the functions that may contain it are NULL exactly if an argument is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from weft.algebra.relation import (
    FALSE,
    TRUE,
    And,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Turns,
    conjunction,
    disjunction,
    opposite,
)
from weft.algebra.scalar import NEGATED, Call, Case, Cast, Literal, Now, Scalar, call, children, mentions_now, shifted
from weft.algebra.schema import BOOLEAN, DataType
from weft.algebra.traverse import substitute
from weft.errors import DerivationError, SqlError
from weft.sql.lower.conversion import converted
from weft.sql.lower.now import now_comparison
from weft.sql.lower.refusal import place, refuse

_COMPARISONS: Final = frozenset((*NEGATED, "<=>"))
_NULL_TESTS: Final = {"is null": True, "isnull": True, "is not null": False, "isnotnull": False}
_FIRST_KNOWN: Final = ("coalesce", "ifnull", "nvl")
_EXTREMES: Final = {"greatest": ">=", "least": "<="}
_NOT_STRICT: Final = frozenset(("and", "or", "in", "<=>", *_NULL_TESTS))
_TRUTH: Final = Literal(True, BOOLEAN, fixed=True)
MOST_CASES: Final = 64
"""The maximal number of times that one condition is split."""


def now_cases(
    values: tuple[Scalar, ...], node: exp.Expr, outside: SqlError
) -> list[tuple[Predicate, tuple[Scalar, ...]]]:
    """Return the cases of several scalars: conditions, one of which is true, each with the scalars without NOW.

    Raise ``outside`` if NOW occurs in a scalar outside the conditions of CASE and similar expressions.
    """
    return _Splitting(node).cases_of(values, outside)


def now_condition(condition: Scalar, positive: bool, node: exp.Expr) -> Predicate:
    """Return the predicate "condition is true".  If ``positive`` is False, return "condition is false".

    Raise SqlError if NOW occurs in a part that is neither a comparison nor a choice of values.
    """
    return _Splitting(node).predicate(condition, positive)


@dataclass
class _Splitting:
    """``cases`` counts the splits, so that a condition with many choices does not take exponential time."""

    node: exp.Expr
    cases: int = 0

    def predicate(self, condition: Scalar, positive: bool) -> Predicate:
        if not mentions_now(condition):
            return self._plain(condition, positive)
        match condition:
            case Call(name="not", args=(inner,)):
                return self.predicate(inner, not positive)
            case Call(name="and" | "or" as connective, args=parts):
                joined = conjunction if (connective == "and") == positive else disjunction
                return joined(*(self.predicate(part, positive) for part in parts))
            case Call(name="in", args=(value, *items)):
                joined = disjunction if positive else conjunction
                return joined(*(self.predicate(call("=", value, item), positive) for item in items))
            case Call(name="<=>", args=(value, Literal(value=bool(truth)))):
                found = self.predicate(value, truth)
                return found if positive else not_true(found)
            case _:
                choice = next(_choices(condition), None)
                return self._single(condition, positive) if choice is None else self._split(condition, choice, positive)

    def _single(self, condition: Scalar, positive: bool) -> Predicate:
        match condition:
            case Call(name=test, args=(value,)) if test in _NULL_TESTS:
                found = disjunction(*self._missing(value))
                return found if _NULL_TESTS[test] == positive else not_true(found)
            case Call(name=operator) if operator in _COMPARISONS:
                return now_comparison(condition, positive, self.node)
            case _:
                raise self._refused()

    def _plain(self, condition: Scalar, positive: bool) -> Predicate:
        truth = _folded(condition) if self.cases else condition
        if truth is None or isinstance(truth, bool):
            return TRUE if truth is positive else FALSE
        return Plain(condition if positive else call("not", condition))

    def _split(self, condition: Scalar, choice: Scalar, positive: bool) -> Predicate:
        test, value, other = self._case(choice)
        chosen = self.predicate(test, True)
        if chosen in (TRUE, FALSE):
            return self.predicate(substitute(condition, {choice: value if chosen == TRUE else other}), positive)
        return disjunction(
            conjunction(chosen, self.predicate(substitute(condition, {choice: value}), positive)),
            conjunction(not_true(chosen), self.predicate(substitute(condition, {choice: other}), positive)),
        )

    def _case(self, choice: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        self.cases += 1
        if self.cases > MOST_CASES:
            raise SqlError(
                f"a condition with NOW() has more than {MOST_CASES} cases of CASE, COALESCE and similar expressions",
                where=place(self.node),
                hint="Write a condition for each case that you need, and combine the conditions with OR.",
            )
        return _first_case(choice)

    def cases_of(self, values: tuple[Scalar, ...], outside: SqlError) -> list[tuple[Predicate, tuple[Scalar, ...]]]:
        choice = next((part for value in values for part in _choices(value)), None)
        if choice is None:
            if any(map(mentions_now, values)):
                raise outside
            return [(TRUE, values)]
        test, value, other = self._case(choice)
        chosen = self.predicate(test, True)
        found = []
        for truth, instead in ((chosen, value), (not_true(chosen), other)):
            if truth != FALSE:
                parts = self.cases_of(tuple(substitute(each, {choice: instead}) for each in values), outside)
                found += [(conjunction(truth, also), each) for also, each in parts]
        return found

    def _missing(self, value: Scalar) -> list[Predicate]:
        """Return conditions, one of which is true if and only if ``value`` is NULL."""
        if not mentions_now(value):
            return [self._plain(call("is null", value), True)]
        if isinstance(value, Call) and value.name in _NOT_STRICT:
            raise self._refused()
        return [missing for part in children(value) for missing in self._missing(part)]

    def _refused(self) -> SqlError:
        reason = "NOW() is allowed only in comparisons, which AND, OR, NOT, CASE and COALESCE may combine"
        return refuse("NOW() inside this expression", self.node, reason)


def _choices(scalar: Scalar) -> Iterator[Scalar]:
    """Yield the parts that choose between values and contain NOW, outer parts first."""
    if not mentions_now(scalar) or isinstance(scalar, Now):
        return
    if isinstance(scalar, Case) or (isinstance(scalar, Call) and scalar.name in (*_FIRST_KNOWN, *_EXTREMES)):
        yield scalar
    for part in children(scalar):
        yield from _choices(part)


def _first_case(choice: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return a condition, the value of ``choice`` if the condition is true, and its value otherwise."""
    match choice:
        case Case(branches=((test, value), *others), default=default, type=type):
            if others:
                return test, value, Case(tuple(others), default, type)
            return test, value, _null(type) if default is None else default
        case Call(name=name, args=(value, *others), type=type):
            value = converted(value, type)
            other = converted(others[0], type) if len(others) == 1 else Call(name, tuple(others), type)
            if not others:
                return _TRUTH, value, value
            known = call("not", call("is null", value))
            if name in _FIRST_KNOWN:
                return known, value, other
            better = Case(((call(_EXTREMES[name], value, other), value),), other, type)
            return known, Case(((call("is null", other), value),), better, type), other
        case _:
            raise DerivationError(f"not a choice of values: {choice}")


def _null(type: DataType) -> Scalar:
    return Cast(Literal(None, type, fixed=True), type)


def _folded(condition: Scalar) -> Scalar | bool | None:
    """Return the truth value of a constant condition, or the condition."""
    match condition:
        case Literal(value=bool() | None as truth):
            return truth
        case Cast(arg=Literal(value=None)):
            return None
        case Call(name="is null", args=(value,)) if _constant(value):
            return _value(value) is None
        case Call(name=name, args=(left, right)) if name in NEGATED and _constant(left) and _constant(right):
            one, other = _value(left), _value(right)
            if one is None or other is None:
                return None
            return (one == other) == (name == "=") if name in ("=", "<>") and type(one) is type(other) else condition
        case _:
            return condition


def _constant(value: Scalar) -> bool:
    return isinstance(value, Literal) or (isinstance(value, Cast) and value.arg == Literal(None, value.type, True))


def _value(value: Scalar) -> object:
    return value.value if isinstance(value, Literal) else None


def not_true(predicate: Predicate) -> Predicate:
    """Return the predicate that ``predicate`` is not true.  It contains no subquery."""
    match predicate:
        case And(items=items):
            return disjunction(*map(not_true, items))
        case Or(items=items):
            return conjunction(*map(not_true, items))
        case Turns():
            return disjunction(opposite(predicate), predicate.unknown)
        case NowFrom(threshold=threshold):
            return disjunction(NowBefore(threshold), _missing(threshold))
        case NowBefore(threshold=threshold):
            return disjunction(NowFrom(threshold), _missing(threshold))
        case Plain(condition=Call(name="not", args=(Call(name="is null") as missing,))):
            return Plain(missing)
        case Plain(condition=Call(name="is null") as missing):
            return Plain(call("not", missing))
        case Plain(condition=condition):
            return Plain(call("not", call("<=>", condition, _TRUTH)))
        case _:
            raise DerivationError(f"the negation of a subquery: {predicate}")


def _missing(threshold: Scalar) -> Plain:
    parts = shifted(threshold)
    return Plain(call("is null", threshold if parts.intervals else parts.base))
