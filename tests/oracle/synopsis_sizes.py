"""Bounds on the size of a formula's stored relations: tuples, and bits of their counters.

|D| is the number of values in rows so far, |T| the number of time points, dupl(S) the greatest count of a row in one
state (Toman 2007, section 2.2).
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
from weft.derivation.synopsis.verdict import most_runs


@dataclass(frozen=True)
class LogSize:
    """The size of a log so far: |D|, |T|, dupl(S), and the greatest number of states within so many microseconds."""

    values: int
    points: int
    duplicates: int
    within: Callable[[int], int]


@dataclass(frozen=True)
class Size:
    """The greatest number of tuples, and of bits of each counter (0 without counters)."""

    tuples: int
    bits: int


def size_bound(stored: Stored, log: LogSize) -> Size:
    """Return the greatest size of a stored relation after a log; its verdict must not be unbounded."""
    formula, bound = stored.formula, SizeBounds(log, stored.semantics)
    match formula:
        case Previous(formula=inner):
            tuples = bound.answers(inner, ever=False)
        case Fixpoint():
            tuples = bound.answers(formula, ever=False)
        case Once(formula=inner) | Since(right=inner):
            tuples = bound.answers(inner, ever=True) * (stored_states(stored, log) if stored.several else 1)
    return Size(tuples, bound.count(formula).bit_length() if stored.counted else 0)


def stored_states(stored: Stored, log: LogSize) -> int:
    """Return how often a row may be stored.

    That is once for each time point, or run of them, that the interval can reach; without an upper bound, once for each
    time point that it does not reach yet, and once for all others.
    """
    if not isinstance(stored.formula, (Once, Since)):
        return 1
    interval = stored.formula.interval
    if interval.high is None:
        return log.within(interval.low) + 1
    states = log.within(interval.high)
    return min(states, most_runs(interval)) if stored.runs else states


@dataclass(frozen=True)
class SizeBounds:
    """Bounds for a log, under one of the semantics."""

    log: LogSize
    semantics: Semantics

    def answers(self, formula: Formula, *, ever: bool) -> int:
        """Return the greatest number of answers at one time point, or at all together (``ever``)."""
        if isinstance(formula, (Truth, Comparison, Matches, Not, Defined)):
            return 1
        columns = origins(formula)
        if not any(origin.computed for origin in columns.values()):
            return int(self.values(formula) ** len(columns))
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
                return int(self._values_of(formula) ** len(columns))
            case _:
                (inner,) = parts(formula)
                return self.answers(inner, ever=ever)

    def _aggregates(self, formula: Aggregate, *, ever: bool) -> int:
        """Return one value per group at one time point; over time one for each set of answers or time point."""
        groups = self.answers(formula.formula, ever=ever) if formula.groups else 1
        if not ever:
            return groups
        below = self.answers(formula.formula, ever=True)
        sets = below + 1 if formula.function == "CNT" else 2 ** min(below, self.log.points.bit_length())
        return groups * min(sets, self.log.points)

    def _values_of(self, formula: Fixpoint) -> int:
        """Return the number of values in rows, and of those that the bodies compute from them."""
        new = (self.answers(each.body, ever=True) * len(each.parameters) for each in formula.definitions)
        return self.values(formula) + sum(new)

    def values(self, formula: Formula) -> int:
        """Return the number of values in rows, and of those that the formula names."""
        return self.log.values + len(set(_constants(formula))) + _NAMED_BY_AGGREGATES

    def count(self, formula: Formula) -> int:
        """Return the greatest count of an answer."""
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
"""Values of aggregates over no rows, which may be in no row."""


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
