"""How large what is stored of a formula may become, in numbers: tuples, and bits of their counters.

|D| is the number of values that rows have had so far, |T| that of time points, dupl(S) how often a row was in one state
at most (Toman 2007, section 2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Defined,
    Definition,
    Exists,
    Fixpoint,
    Formula,
    Interval,
    Matches,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Term,
    Truth,
    parts,
    subformulas,
)
from weft.derivation.synopsis.construct import Stored
from weft.derivation.synopsis.multiplicity import accumulates
from weft.derivation.synopsis.prepared import Semantics
from weft.derivation.synopsis.value_invention import origins


@dataclass(frozen=True)
class Log:
    """What is known of a log so far: |D|, |T|, dupl(S), and how many states lie within so many microseconds at most."""

    values: int
    points: int
    duplicates: int
    within: Callable[[int], int]


@dataclass(frozen=True)
class Size:
    """The most that is stored: tuples, and bits of each one's counter (0: it has none)."""

    tuples: int
    bits: int


def announced(stored: Stored, log: Log) -> Size:
    """The most that a stored relation has after a log; only where its verdict is not unbounded."""
    formula, bound = stored.formula, Bound(log, stored.semantics)
    match formula:
        case Previous(formula=inner):
            tuples = bound.answers(inner, ever=False)
        case Fixpoint():
            tuples = bound.answers(formula, ever=False)
        case Once(formula=inner) | Since(right=inner):
            tuples = bound.answers(inner, ever=True) * (states_kept(stored, log) if stored.several else 1)
    return Size(tuples, bound.count(formula).bit_length() if stored.counted else 0)


def states_kept(stored: Stored, log: Log) -> int:
    """How often a row may be stored: for each time point that the interval can reach, or each run of them; where it has
    no upper bound, for those that it does not reach yet, and once for all others."""
    if not isinstance(stored.formula, (Once, Since)):
        return 1
    interval = stored.formula.interval
    if interval.high is None:
        return log.within(interval.low) + 1
    states = log.within(interval.high)
    return min(states, most_runs(interval)) if stored.runs else states


def most_runs(interval: Interval) -> int:
    """How many runs of one row there are at most, all of them ending within the window [low, high].

    From the end of one to the start of the next are more than high - low + 1 microseconds: else they would be one.
    """
    assert interval.high is not None
    return interval.high // (interval.high - interval.low + 2) + 1


@dataclass(frozen=True)
class Bound:
    """Bounds along a log, under one of the semantics."""

    log: Log
    semantics: Semantics

    def answers(self, formula: Formula, *, ever: bool) -> int:
        """How many answers there are at most: at one time point, or that are one at any (``ever``)."""
        if isinstance(formula, (Truth, Comparison, Matches, Not, Defined)):
            return 1
        found = origins(formula)
        if not any(origin.computed for origin in found.values()):
            return int(self.values(formula) ** len(found))
        match formula:
            case And(right=Comparison() | Matches() | Not(), left=left):
                return self.answers(left, ever=ever)
            case And(left=left, right=right):
                return self.answers(left, ever=ever) * self.answers(right, ever=ever)
            case Or(left=left, right=right):
                return self.answers(left, ever=ever) + self.answers(right, ever=ever)
            case Aggregate():
                return self._aggregates(formula, ever=ever)
            case Since(right=inner) | Once(formula=inner):
                return self.answers(inner, ever=True)
            case Fixpoint():
                return int(self._values_of(formula) ** len(found))
            case _:
                (inner,) = parts(formula)
                return self.answers(inner, ever=ever)

    def _aggregates(self, formula: Aggregate, *, ever: bool) -> int:
        """A value a group at one time point; over time as many values as there are sets of answers, or time points."""
        groups = self.answers(formula.formula, ever=ever) if formula.groups else 1
        if not ever:
            return groups
        below = self.answers(formula.formula, ever=True)
        sets = below + 1 if formula.function == "CNT" else 2 ** min(below, self.log.points.bit_length())
        return groups * min(sets, self.log.points)

    def _values_of(self, formula: Fixpoint) -> int:
        """The values that rows have, and those that the bodies compute from them."""
        new = (self.answers(each.body, ever=True) * len(each.parameters) for each in formula.definitions)
        return self.values(formula) + sum(new)

    def values(self, formula: Formula) -> int:
        """The values that rows have, and those that the formula names."""
        return self.log.values + len(set(_constants(formula))) + _NAMED_BY_AGGREGATES

    def count(self, formula: Formula) -> int:
        """How often an answer is one, at most."""
        if self.semantics == "set":
            return 1
        if self.semantics == "minmax":
            return max(1, self.log.duplicates)
        match formula:
            case Atom():
                return self.log.duplicates
            case Defined():
                return 0
            case And(left=left, right=Not()):
                return self.count(left)
            case And(left=left, right=right):
                return self.count(left) * self.count(right)
            case Or(left=left, right=right):
                return self.count(left) + self.count(right)
            case Exists(formula=inner):
                return self.count(inner) * self.answers(inner, ever=False)
            case Previous(formula=inner):
                return self.count(inner)
            case Once() | Since():
                return self._over_time(formula)
            case Fixpoint(definitions=definitions):
                once = sum(self.count(definition.body) for definition in _all(definitions))
                return once * (self.log.points + 1 if accumulates(formula) else 1)
            case _:
                return 1

    def _over_time(self, formula: Once | Since) -> int:
        match formula:
            case Once(counting="first", formula=counted) | Since(counting="first", right=counted):
                return self.log.points * self.count(counted)
            case Since(counting="second", left=counted):
                return self.log.points * self.count(counted)
            case Once(counting="second"):
                return self.log.points
            case _:
                return 1


_NAMED_BY_AGGREGATES = 3
"""Values that an aggregate over nothing has and rows may not have."""


def _all(definitions: tuple[Definition, ...]) -> Iterator[Definition]:
    for definition in definitions:
        yield definition
        for part in subformulas(definition.body):
            if isinstance(part, Fixpoint):
                yield from part.definitions


def _constants(formula: Formula) -> Iterator[Constant]:
    for part in subformulas(formula):
        match part:
            case Atom(terms=terms) | Fixpoint(arguments=terms) | Defined(arguments=terms):
                yield from _within(*terms)
            case Comparison(left=left, right=right):
                yield from _within(left, right)
            case Aggregate(item=item):
                yield from _within(item)
            case _:
                continue


def _within(*terms: Term) -> Iterator[Constant]:
    for term in terms:
        if isinstance(term, Constant):
            yield term
        elif isinstance(term, Computed):
            yield from _within(*term.arguments)
