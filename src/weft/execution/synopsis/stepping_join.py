"""Evaluate a conjunction at successive time points from the changes of its parts.

A row of a conjunction determines the row of each part, because no variable is projected away. A row of the conjunction
can change only if one of these rows changes. ``Conjunction`` therefore counts again

- the rows that it has and that contain a changed row of a part, and
- the rows that a changed row of a part forms with the present rows of the other parts.

This is semi-naive evaluation (Bancilhon, Ramakrishnan 1986). It needs no inverse of the counts, and hence holds for
sets, bags and minmax, and for parts that are subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import applicable, binding, compares, conjuncts, group_variables, is_test
from weft.derivation.synopsis.divisions import dividing
from weft.derivation.synopsis.prepared import Semantics
from weft.errors import DerivationError
from weft.execution.synopsis.changing_rows import ChangingRows, Combine, Places, Row, picked, places_of
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.execution.synopsis.stepping_past import CurrentPoint, divided_by_0, groups_of, satisfied, value

Variables = tuple[algebra.Variable, ...]


@dataclass(frozen=True)
class Conjuncts:
    """The parts of a conjunction: formulas to join, formulas to subtract, and tests."""

    joined: tuple[algebra.Formula, ...]
    subtracted: tuple[algebra.Formula, ...]
    tests: tuple[algebra.Formula, ...]

    @property
    def operands(self) -> tuple[algebra.Formula, ...]:
        """The parts that have rows."""
        return (*self.joined, *(each for each in self.subtracted if not is_test(each)))


def split(formula: algebra.And, semantics: Semantics) -> Conjuncts:
    """Return the parts of a conjunction. With counts, AND NOT subtracts also a test."""
    right = formula.right
    if isinstance(right, algebra.Not) and (semantics != "set" or not is_test(right.formula)):
        return Conjuncts((formula.left,), (right.formula,), ())
    every = list(conjuncts(formula, counts=semantics != "set"))
    tests = tuple(part for part in every if compares(part))
    negated = [part for part in every if isinstance(part, algebra.Not) and part not in tests]
    subtracted = tuple(part.formula for part in negated if algebra.free_variables(part))
    joined = [
        part
        for part in every
        if part not in tests and not (isinstance(part, algebra.Not) and part.formula in subtracted)
    ]
    return Conjuncts(tuple(joined), subtracted, tests)


@dataclass(frozen=True)
class _Extension:
    """How rows grow by the rows of a part: the values that must agree, and the values that are added."""

    part: ChangingRows
    key: Places
    found: Places
    added: Places


@dataclass(frozen=True)
class _Course:
    """How the rows of one part become rows of the conjunction."""

    extensions: tuple[_Extension, ...]
    variables: Variables
    """The variables of the rows after all extensions."""
    tests: tuple[algebra.Formula, ...]
    order: Places
    """The places of the conjunction's variables in the rows after all tests."""


@dataclass
class Conjunction:
    """A conjunction. ``product`` multiplies counts."""

    formula: algebra.And
    parts: Conjuncts
    semantics: Semantics
    operands: Mapping[algebra.Formula, ChangingRows]
    product: Combine
    value: ChangingRows = field(init=False)
    started: bool = False

    def __post_init__(self) -> None:
        self.value = ChangingRows(algebra.free_variables(self.formula))
        self.joined = [self.operands[part] for part in self.parts.joined]
        self.places = [places_of(self.value.variables, part.variables) for part in self.joined]
        self.subtracted = [None if is_test(part) else self.operands[part] for part in self.parts.subtracted]
        self.places_subtracted = [
            places_of(self.value.variables, algebra.free_variables(part)) for part in self.parts.subtracted
        ]
        self.courses = [self._course(part.variables, number) for number, part in enumerate(self.joined)]
        self.courses_subtracted = [
            None if part is None else self._course(part.variables, None) for part in self.subtracted
        ]

    def refresh(self, now: CurrentPoint) -> None:
        """Count the rows again that may have changed."""
        affected: dict[Row, None] = {}
        for part, places, course in zip(self.joined, self.places, self.courses, strict=True):
            self._add_affected(affected, part, places, course, now)
        for minus, places, other in zip(self.subtracted, self.places_subtracted, self.courses_subtracted, strict=True):
            if minus is not None and other is not None:
                self._add_affected(affected, minus, places, other, now, grows=False)
        if not self.started and not self.joined:
            affected |= dict.fromkeys(self._completed([()], self._course((), None), now))
        self.started = True
        for row in affected:
            self.value.put(row, self._count(row))

    def _add_affected(
        self,
        affected: dict[Row, None],
        part: ChangingRows,
        places: Places,
        course: _Course,
        now: CurrentPoint,
        *,
        grows: bool = True,
    ) -> None:
        if not part.changed:
            return
        new = []
        for row, before in part.changed.items():
            more = part.rows.get(row, 0) > before
            if self.value.rows and (before if grows else more):
                affected.update(dict.fromkeys(self.value.having(places, row)))
            if more is grows:
                new.append(row)
        if new:
            affected.update(dict.fromkeys(self._completed(new, course, now)))

    def _course(self, variables: Variables, started: int | None) -> _Course:
        """Order the other parts so that each one shares variables with those before it, if possible."""
        waiting = [part for number, part in enumerate(self.joined) if number != started]
        extensions = []
        while waiting:
            there = set(variables)
            part = max(waiting, key=lambda one: (len(there & set(one.variables)), -len(one.variables)))
            waiting.remove(part)
            shared = [each for each in part.variables if each in there]
            added = [each for each in part.variables if each not in there]
            key, found = places_of(variables, shared), places_of(part.variables, shared)
            extensions.append(_Extension(part, key, found, places_of(part.variables, added)))
            variables = (*variables, *added)
        tests, bound = _in_order(self.parts.tests, variables)
        return _Course(tuple(extensions), variables, tests, places_of(bound, self.value.variables))

    def _completed(self, rows: Sequence[Row], course: _Course, now: CurrentPoint) -> Iterator[Row]:
        """Yield the rows of the conjunction, before the subtraction, that contain some rows of a part."""
        for extension in course.extensions:
            rows = list(_extended(rows, extension))
        variables = course.variables
        for test in course.tests:
            self._require_divisible(rows, variables, test, now)
            variables, rows = _tested(rows, variables, test)
        rows = [picked(row, course.order) for row in rows]
        for taken in self.parts.subtracted:
            self._require_divisible(rows, self.value.variables, taken, now)
        yield from rows

    def _require_divisible(
        self, rows: Sequence[Row], variables: Variables, test: algebra.Formula, now: CurrentPoint
    ) -> None:
        if not dividing(test):
            return
        for row in rows:
            division = divided_by_0(test, dict(zip(variables, row, strict=True)))
            if division is not None:
                raise DivisionByZero(division, test, now.tp)

    def _count(self, row: Row) -> int:
        counts = []
        for part, places in zip(self.joined, self.places, strict=True):
            count = part.rows.get(picked(row, places), 0)
            if not count:
                return 0
            counts.append(count)
        # A single part keeps its counts. Under minmax, a test makes the count 1.
        count = reduce(self.product, counts) if counts else 1
        if self.parts.tests:
            count = self.product(count, 1)
        for number, places in enumerate(self.places_subtracted):
            gone = self._gone(number, row, picked(row, places))
            count = 0 if gone and (self.semantics == "set" or gone >= count) else count - gone
            if not count:
                return 0
        return count

    def _gone(self, number: int, row: Row, key: Row) -> int:
        minus, formula = self.subtracted[number], self.parts.subtracted[number]
        if minus is not None:
            return minus.rows.get(key, 0)
        assert isinstance(formula, (algebra.Comparison, algebra.Matches))
        return int(satisfied(formula, dict(zip(self.value.variables, row, strict=True))))


def _extended(rows: Sequence[Row], extension: _Extension) -> Iterator[Row]:
    part, key, found, added = extension.part, extension.key, extension.found, extension.added
    for row in rows:
        for other in part.having(found, picked(row, key)):
            yield row + picked(other, added) if added else row


def _positive(test: algebra.Formula) -> algebra.Formula:
    return test.formula if isinstance(test, algebra.Not) else test


def _in_order(tests: Sequence[algebra.Formula], variables: Variables) -> tuple[tuple[algebra.Formula, ...], Variables]:
    """Return the tests in an order in which each one can be applied, and the variables after all tests."""
    waiting, ordered = list(tests), []
    while waiting:
        known = set(variables)
        groups = next((each for each in waiting if group_variables(each, known)), None)
        may = [each for each in waiting if applicable(each, known)] if groups is None else [groups]
        if not may:
            raise DerivationError(f"nothing binds the variables of {waiting}")
        test = min(may, key=lambda each: bool(dividing(each)))
        ordered.append(test)
        bound = binding(test, known)
        if groups is not None:
            variables = (*variables, *group_variables(groups, known))
            continue
        waiting.remove(test)
        if bound is not None and isinstance(bound.left, algebra.Variable):
            variables = (*variables, bound.left)
    return tuple(ordered), variables


def _tested(rows: Sequence[Row], variables: Variables, test: algebra.Formula) -> tuple[Variables, list[Row]]:
    """Return the rows that satisfy a test, with the values of the variables that the test binds."""
    groups, bound = group_variables(test, set(variables)), binding(test, variables)
    if groups and isinstance(test, algebra.Matches):
        return (*variables, *groups), list(_matched(rows, variables, test, tuple(groups.values())))
    if bound is not None and isinstance(bound.left, algebra.Variable):
        named = (dict(zip(variables, row, strict=True)) for row in rows)
        return (*variables, bound.left), [
            (*row, value(bound.right, each)) for row, each in zip(rows, named, strict=True)
        ]
    return variables, [row for row in rows if _holds(test, dict(zip(variables, row, strict=True)))]


def _matched(rows: Sequence[Row], variables: Variables, test: algebra.Matches, numbers: Places) -> Iterator[Row]:
    """Yield the rows that match the pattern, with the pattern's groups.

    If a group of the pattern took no part in the match, the row is left out.
    """
    for row in rows:
        match = groups_of(test, dict(zip(variables, row, strict=True)))
        values = () if match is None else tuple(match[number] for number in numbers)
        if values and None not in values:
            yield (*row, *values)


def _holds(test: algebra.Formula, values_by_variable: Mapping[algebra.Variable, object]) -> bool:
    positive = _positive(test)
    assert isinstance(positive, (algebra.Comparison, algebra.Matches))
    return satisfied(positive, values_by_variable) is not isinstance(test, algebra.Not)
