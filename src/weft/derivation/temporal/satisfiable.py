"""Decide whether a predicate over two instants t < t_now can be true: the compile-time test of section 4.3.2.

Each alternative of the predicate (``normal_form``) is a system of order constraints (``order``).  The module adds facts
about time to each system:

- t < t_now;
- a tuple's first instant is at most t, and is the same at both instants;
- a period set that is closed at t has the same last instant and length at both instants;
- the end of an open period set is t if evaluated at t, and t_now if evaluated at t_now;
- a term that rises with NOW, such as NOW minus a year, does not decrease from t to t_now.

The module tries each tuple with a closed and with an open period set.  A contradiction is a proof, so a dropped term
never has a row.  The module treats a term that it does not recognize as an unknown value.  Equal terms have the same
unknown value.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Final, TypeAlias

from weft.algebra.scalar import REFRESHED, Call, Cast, Literal, Now, PeriodOf, Scalar, mentions_now
from weft.algebra.schema import DATE, INTEGRAL, INTERVAL, TIMESTAMP
from weft.algebra.temporal import periods_asked
from weft.derivation.order import Order
from weft.derivation.temporal.judging import START, as_of_refresh
from weft.derivation.temporal.normal_form import Atom, Conjunction, TooMany, alternatives

END: Final = "period_end"
LENGTH: Final = "period_length"
_RISING: Final = ("add_months", "date_trunc", "last_day", "to_date", "date", "greatest", "least", "year", "unix_micros")
_MOST_TUPLES: Final = 5
_ZERO: Final = "0"
Reason: TypeAlias = "Scalar | str"
Term: TypeAlias = "tuple[Scalar | str, int]"
"""A pair (term, number that is added to the term).  The term of a plain number is ``_ZERO``."""
NOW: Final = Now()


def contradiction(predicate: Scalar) -> tuple[Reason, ...] | None:
    """Return contradicting conditions that make the predicate false for every tuple and every t < t_now.

    Return None if the predicate can be true, or if the module cannot decide the question.  A condition is a comparison
    in the predicate, or a text that states a fact about time.

    >>> from weft.algebra.scalar import call
    >>> due = call(">=", NOW, Literal(0, TIMESTAMP))
    >>> len(contradiction(call("and", as_of_refresh(due), call("not", due))))  # was due at t and is not now
    3
    >>> contradiction(call("and", due, call("not", as_of_refresh(due))))  # is due now and was not at t
    """
    try:
        each = alternatives(predicate)
    except TooMany:
        return None
    reasons: dict[Reason, None] = {}
    tuples = sorted(periods_asked(predicate))
    if len(tuples) > _MOST_TUPLES:
        return None
    for atoms in each:
        for states in product((False, True), repeat=len(tuples)):
            why = _refuted(atoms, dict(zip(tuples, states, strict=True)))
            if why is None:
                return None
            reasons.update(dict.fromkeys(why))
    return tuple(reasons) or ("it is never true",)


def _refuted(atoms: Conjunction, open_: dict[str, bool]) -> tuple[Reason, ...] | None:
    """``open_`` says for each tuple whether its period set is open."""
    order = Order[Reason]()
    null: dict[Scalar | str, Scalar] = {}
    opaque: dict[tuple[Scalar, bool], Scalar] = {}
    known: dict[Scalar | str, Scalar] = {}
    for atom in sorted(atoms, key=repr):
        match atom.scalar:
            case Call(name="=" | "<" | "<=" | ">" | ">=", args=(left, right)):
                known.update({_term(left)[0]: atom.scalar, _term(right)[0]: atom.scalar})
                _compare(order, atom.scalar)
            case Call(name="is null", args=(inner,)) if atom.is_ in ("true", "not false"):
                null[_term(inner)[0]] = atom.scalar
            case _:
                opaque[_settled(atom.scalar, open_), atom.is_ in ("true", "not false")] = atom.scalar
                if (clash := _clash(atom, atoms, open_)) is not None:
                    return clash
    for term, reason in null.items():
        if _never_null(term):
            return ()
        if term in known:
            return (known[term], reason)
    _add_what_is_known(order, open_)
    return order.cycle()


def _clash(atom: Atom, atoms: Conjunction, open_: dict[str, bool]) -> tuple[Reason, ...] | None:
    against = {"true": ("false", "not true"), "false": ("true", "not false")}.get(atom.is_, ())
    for other in atoms:
        if other.is_ in against and _settled(other.scalar, open_) == _settled(atom.scalar, open_):
            return tuple(dict.fromkeys((atom.scalar, other.scalar, "closed periods do not change")))
    return None


def _settled(scalar: Scalar, open_: dict[str, bool]) -> Scalar:
    """A scalar has the same value at t and t_now if it does not mention NOW and all its periods are closed."""
    if mentions_now(scalar) or any(open_[scan] for scan in periods_asked(scalar)):
        return scalar
    return as_of_refresh(scalar)


def _compare(order: Order[Reason], comparison: Call) -> None:
    (left, more), (right, less) = map(_term, comparison.args)
    whole = all(_whole(side) for side in comparison.args)
    strict = comparison.name in ("<", ">")
    step = 1 if strict and whole else 0
    if comparison.name in ("<", "<=", "="):
        order.at_most(left, right, less - more - step, comparison, strict=strict and not whole)
    if comparison.name in (">", ">=", "="):
        order.at_most(right, left, more - less - step, comparison, strict=strict and not whole)


def _whole(scalar: Scalar) -> bool:
    return scalar.type in (TIMESTAMP, INTERVAL, DATE) or scalar.type.name in INTEGRAL


def _term(scalar: Scalar) -> Term:
    match scalar:
        case Literal(value=int(number)):
            return _ZERO, int(number)
        case Call(name="+" | "-" as sign, args=(inner, Literal(value=int(number)) as amount)) if _adds(scalar, amount):
            term, offset = _term(inner)
            return term, offset + (number if sign == "+" else -number)
        case Call(name=name, args=(PeriodOf(scan=scan),)) if name == START:
            return Call(START, (PeriodOf(scan),), scalar.type), 0
        case _:
            return scalar, 0


def _adds(scalar: Call, amount: Literal) -> bool:
    timely = scalar.type in (TIMESTAMP, INTERVAL) and amount.type == INTERVAL and scalar.args[0].type != DATE
    return timely or (scalar.type.name in INTEGRAL and amount.type.name in INTEGRAL)


def _add_what_is_known(order: Order[Reason], open_: dict[str, bool]) -> None:
    order.at_most(REFRESHED, NOW, -1, "t < t_now")
    terms = {side for each in order.constraints for side in (each.left, each.right) if not isinstance(side, str)}
    for scan, is_open in open_.items():
        start, end = (Call(name, (PeriodOf(scan),), TIMESTAMP) for name in (START, END))
        was = as_of_refresh(end)
        order.at_most(start, was, 0, "a period ends after it starts")
        if is_open:
            for one, other, why in ((was, REFRESHED, "t"), (end, NOW, "t_now")):
                order.at_most(one, other, 0, f"an open period ends in {why}")
                order.at_most(other, one, 0, f"an open period ends in {why}")
        else:
            order.at_most(was, end, 0, "closed periods do not change")
            order.at_most(end, was, 0, "closed periods do not change")
            order.at_most(was, REFRESHED, -1, "a period closed at t ended before t")
    for term in terms:
        if isinstance(term, (Call, Cast)) and not _is_end(term):
            _add_what_rises(order, term, open_)
    texts = sorted({t.value for t in terms if isinstance(t, Literal) and isinstance(t.value, str)})
    literals = [next(t for t in terms if isinstance(t, Literal) and t.value == text) for text in texts]
    for low, high in combinations(literals, 2):
        order.at_most(low, high, 0, "constants differ", strict=True)


def _add_what_rises(order: Order[Reason], term: Scalar, open_: dict[str, bool]) -> None:
    """A rising term does not decrease from t to t_now.  A term over closed periods does not change."""
    was = as_of_refresh(term)
    if was == term:
        return
    if rises(term):
        order.at_most(was, term, 0, "what rises with NOW() does not fall")
    if not mentions_now(term) and not any(open_[scan] for scan in periods_asked(term)):
        order.at_most(term, was, 0, "closed periods do not change")
        order.at_most(was, term, 0, "closed periods do not change")


def rises(scalar: Scalar) -> bool:
    """Return whether a scalar over constant columns never decreases as t_now increases."""
    match scalar:
        case Now():
            return True
        case Call(name="period_end" | "period_length"):
            return True
        case Call(name="+" | "-", args=(first, second)):
            return rises(first) and as_of_refresh(second) == second
        case Call(name=name, args=args) if name in _RISING:
            return all(rises(arg) or as_of_refresh(arg) == arg for arg in args)
        case Cast(arg=arg, type=type):
            return {arg.type, type} <= {TIMESTAMP, DATE} and rises(arg)
        case _:
            return False


def _is_end(term: Scalar) -> bool:
    return isinstance(term, Call) and term.name in (END, START)


def _never_null(term: Scalar | str) -> bool:
    match term:
        case str() | Now() | PeriodOf():
            return True
        case Literal(value=value):
            return value is not None
        case Call(name=name, args=args):
            return name in (START, END, LENGTH, "+", "-", *_RISING) and all(map(_never_null, args))
        case Cast(arg=arg, type=type):
            return {arg.type, type} <= {TIMESTAMP, DATE} and _never_null(arg)
        case _:
            return term == REFRESHED
