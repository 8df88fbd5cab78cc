"""Evaluate formulas with fixpoints in this process, one state at a time.

No SQL operator evaluates a fixpoint over a batch. A fixpoint refers only to earlier time points, so each state follows
from the previous one. A value maps each row to its count, which may be any integer. A row has the values of the free
variables, in order. Parts without a fixpoint are evaluated over the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, TypeAlias

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import applicable, binding, compares, conjuncts, group_variables, is_test
from weft.algebra.formula import parts
from weft.derivation.synopsis.construct import Stored, stored_of, temporal
from weft.derivation.synopsis.divisions import dividing
from weft.derivation.synopsis.fixpoints import closures, stepped
from weft.derivation.synopsis.prepared import Semantics
from weft.errors import DerivationError
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.execution.synopsis.stepping_past import (
    Anchors,
    CurrentPoint,
    Row,
    Rows,
    after,
    divided_by_0,
    groups_of,
    looked_back,
    measured,
    same_value,
    satisfied,
    value,
)

_NONE: Final[Anchors] = {}
Leaf: TypeAlias = Callable[[algebra.Formula], Callable[[int], Rows]]


@dataclass
class Stepper:
    """Evaluates one formula at successive time points.

    For a part without fixpoints, ``leaf`` returns a function from time points to rows. The function must be called for
    each time point in order, and returns the same object while the rows do not change. A value is recomputed only if
    one of the inputs is a new object.
    """

    formula: algebra.Formula
    semantics: Semantics
    leaf: Leaf
    before: dict[Stored, Anchors]
    keys: dict[algebra.Formula, Stored] = field(default_factory=dict)
    definitions: dict[str, algebra.Definition] = field(default_factory=dict)
    leaves: dict[algebra.Formula, Callable[[int], Rows]] = field(default_factory=dict)
    known: dict[algebra.Formula, Rows] = field(default_factory=dict)
    operands: dict[algebra.Formula, tuple[algebra.Formula, ...]] = field(default_factory=dict)
    last: dict[algebra.Formula, tuple[tuple[object, ...], Rows]] = field(default_factory=dict)
    """The inputs and the result of the last computation, for each part of the formula."""
    last_stored: dict[algebra.Formula, tuple[tuple[object, ...], Anchors]] = field(default_factory=dict)
    """The inputs and the stored anchors of the last computation, for each part of the formula."""
    now: CurrentPoint = field(default_factory=lambda: CurrentPoint(0, 0, None))

    def __post_init__(self) -> None:
        # Use one object for equal parts, because comparing trees is slow.
        one_of: dict[algebra.Formula, algebra.Formula] = {}
        self.formula = algebra.rewritten(self.formula, lambda part: one_of.setdefault(part, part))
        same: dict[Stored, Stored] = {}
        for part, closure in closures(self.formula):
            if temporal(part) and stepped(part):
                stored = stored_of(closure, self.semantics)
                self.keys[part] = same.setdefault(stored, stored)
        for part in algebra.subformulas(self.formula):
            if isinstance(part, algebra.Fixpoint):
                self.definitions |= {definition.name: definition for definition in part.definitions}
        self.before = {stored: self.before.get(stored, _NONE) for stored in same}
        for part in _maximal(self.formula, counts=self.counts):
            self.leaves[part] = self.leaf(part)

    def at(self, now: CurrentPoint) -> Rows:
        """Return the answers at the next time point ``now``, and update the stored anchors."""
        self.now = now
        self.known = {part: leaf(now.tp) for part, leaf in self.leaves.items()}
        rows = self.of(self.formula)
        self.before = {stored: self._after(part, stored) for part, stored in self.keys.items()}
        return rows

    def of(self, formula: algebra.Formula) -> Rows:
        """Return the value of a part of the formula at the current time point."""
        if formula not in self.known:
            self.known[formula] = self._again(formula)
        return self.known[formula]

    def _again(self, formula: algebra.Formula) -> Rows:
        inputs, last = self._inputs(formula), self.last.get(formula)
        if last is not None and _same(last[0], inputs):
            return last[1]
        rows = self._computed(formula)
        if last is not None and last[1] == rows:
            rows = last[1]
        self.last[formula] = inputs, rows
        return rows

    def _inputs(self, formula: algebra.Formula) -> tuple[object, ...]:
        if isinstance(formula, (algebra.Fixpoint, algebra.Defined)):
            return (self.of(self.definitions[formula.name].body),)
        if not temporal(formula):
            return tuple(self.of(part) for part in self._parts(formula))
        before = self.before.get(self.keys[formula], _NONE)
        if isinstance(formula, algebra.Previous):
            return before, (True if formula.interval.everything and self.now.earlier is not None else self.now)
        return before, *self._looked_at(formula)

    def _parts(self, formula: algebra.Formula) -> tuple[algebra.Formula, ...]:
        if formula not in self.operands:
            self.operands[formula] = _operands(formula, counts=self.counts)
        return self.operands[formula]

    def _looked_at(self, formula: algebra.Formula) -> tuple[object, ...]:
        assert isinstance(formula, (algebra.Once, algebra.Since))
        operands = (self.of(part) for part in self._parts(formula))
        return (*operands, True if formula.interval.everything else self.now)

    def _after(self, part: algebra.Formula, stored: Stored) -> Anchors:
        """If the anchors have not changed, return the same object as before."""
        before = self.before.get(stored, _NONE)
        looked_at = (self.of(part.formula),) if isinstance(part, algebra.Previous) else (before, *self._looked_at(part))
        last = self.last_stored.get(part)
        if last is not None and _same(last[0], looked_at):
            return last[1]
        anchors = after(part, self.of, before, self.now, sums=self._sum)
        if anchors == before:
            anchors = before
        self.last_stored[part] = looked_at, anchors
        return anchors

    @property
    def counts(self) -> bool:
        """Whether answers may have counts greater than 1."""
        return self.semantics != "set"

    def _computed(self, formula: algebra.Formula) -> Rows:
        match formula:
            case algebra.And():
                return self._conjunction(formula)
            case algebra.Or(left=left, right=right):
                return self._merged([left, right], algebra.free_variables(formula))
            case algebra.Exists(formula=inner):
                return self._merged([inner], algebra.free_variables(formula))
            case algebra.Distinct(formula=inner):
                return dict.fromkeys(self.of(inner), 1)
            case algebra.Not(formula=inner):
                return {} if self.of(inner) else {(): 1}
            case algebra.Aggregate():
                return self._aggregated(formula)
            case algebra.Fixpoint(name=name, arguments=arguments) | algebra.Defined(name=name, arguments=arguments):
                return self._fitting(self.definitions[name], arguments, formula)
            case _:
                stored = self.keys[formula]
                return looked_back(formula, self.of, self.before.get(stored, {}), self.now, sums=self._sum)

    @property
    def _sum(self) -> Callable[[int, int], int]:
        if self.semantics == "bag":
            return lambda one, other: one + other
        return max

    def _times(self, one: int, other: int) -> int:
        return one * other if self.semantics == "bag" else min(one, other)

    def _merged(self, parts: list[algebra.Formula], variables: tuple[algebra.Variable, ...]) -> Rows:
        merged: Rows = {}
        for part in parts:
            places = _places(algebra.free_variables(part), variables)
            for row, count in self.of(part).items():
                brought = tuple(row[place] for place in places)
                merged[brought] = self._sum(merged.get(brought, 0), count)
        return merged

    def _fitting(
        self, definition: algebra.Definition, arguments: tuple[algebra.Term, ...], formula: algebra.Formula
    ) -> Rows:
        places = _places(algebra.free_variables(definition.body), definition.parameters)
        variables = algebra.free_variables(formula)
        fitting: Rows = {}
        for row, count in self.of(definition.body).items():
            values = tuple(row[place] for place in places)
            values_by_variable: dict[algebra.Variable, Any] = {}
            for term, each in zip(arguments, values, strict=True):
                if isinstance(term, algebra.Variable):
                    values_by_variable.setdefault(term, each)
            if all(
                same_value(value(term, values_by_variable), each) for term, each in zip(arguments, values, strict=True)
            ):
                brought = tuple(values_by_variable[variable] for variable in variables)
                fitting[brought] = self._sum(fitting.get(brought, 0), count)
        return fitting

    def _aggregated(self, formula: algebra.Aggregate) -> Rows:
        variables = algebra.free_variables(formula.formula)
        groups: dict[Row, list[Any]] = {} if formula.groups else {(): []}
        for row in self.of(formula.formula):
            values_by_variable = dict(zip(variables, row, strict=True))
            group = groups.setdefault(tuple(values_by_variable[each] for each in formula.groups), [])
            group.append(value(formula.item, values_by_variable))
        return {(measured(formula, items), *group): 1 for group, items in groups.items()}

    def _conjunction(self, formula: algebra.And) -> Rows:
        right = formula.right
        if isinstance(right, algebra.Not) and (self.semantics != "set" or not is_test(right.formula)):
            return self._without(
                _Table(algebra.free_variables(formula.left), self.of(formula.left)), right.formula
            ).rows
        every = list(conjuncts(formula, counts=self.counts))
        tests = [part for part in every if compares(part)]
        taken = [
            part.formula
            for part in every
            if isinstance(part, algebra.Not) and part not in tests and algebra.free_variables(part)
        ]
        rows = [
            each
            for each in every
            if each not in tests and not (isinstance(each, algebra.Not) and each.formula in taken)
        ]
        tables = [_Table(algebra.free_variables(part), self.of(part)) for part in rows]
        # A single part keeps its counts. Under minmax, a join with TRUE would change the counts to 1.
        table = reduce(lambda one, other: one.joined(other, self._times), tables) if tables else _Table((), {(): 1})
        table = self._tested(table, tests)
        for part in taken:
            table = self._without(table, part)
        return table.ordered(algebra.free_variables(formula)).rows

    def _without(self, table: _Table, taken: algebra.Formula) -> _Table:
        remaining: Rows = {}
        variables = algebra.free_variables(taken)
        others = {} if is_test(taken) else self.of(taken)
        self._require_divisible(table, taken)
        for row, count in table.rows.items():
            values_by_variable = dict(zip(table.variables, row, strict=True))
            if isinstance(taken, (algebra.Comparison, algebra.Matches)):
                gone = int(satisfied(taken, values_by_variable))
            else:
                gone = others.get(tuple(values_by_variable[each] for each in variables), 0)
            if count > gone and not (gone and self.semantics == "set"):
                remaining[row] = count - gone
        return _Table(table.variables, remaining)

    def _tested(self, table: _Table, tests: list[algebra.Formula]) -> _Table:
        waiting = list(tests)
        while waiting:
            known = set(table.variables)
            groups = next((each for each in waiting if group_variables(each, known)), None)
            if isinstance(groups, algebra.Matches):
                table = table.matched(groups)
                continue
            may = [each for each in waiting if applicable(each, known)]
            if not may:
                raise DerivationError(f"nothing binds the variables of {waiting}")
            test = min(may, key=lambda each: bool(dividing(each)))
            waiting.remove(test)
            self._require_divisible(table, test)
            table = table.tested(test, self._times)
        return table

    def _require_divisible(self, table: _Table, test: algebra.Formula) -> None:
        if not dividing(test):
            return
        for row in table.rows:
            division = divided_by_0(test, dict(zip(table.variables, row, strict=True)))
            if division is not None:
                raise DivisionByZero(division, test, self.now.tp)


@dataclass(frozen=True)
class _Table:
    """Rows with their counts. ``variables`` has the variable of each column."""

    variables: tuple[algebra.Variable, ...]
    rows: Rows

    def joined(self, other: _Table, times: Callable[[int, int], int]) -> _Table:
        """Return the natural join of the two tables. ``times`` multiplies counts."""
        mine, its = set(self.variables), set(other.variables)
        if (mine < its) or (mine == its and len(self.rows) > len(other.rows)):
            return other.joined(self, times)
        if its <= mine:
            return _Table(self.variables, self._met(other, times))
        return self._paired(other, times)

    def _met(self, other: _Table, times: Callable[[int, int], int]) -> Rows:
        """Join with a table whose variables are a subset of ``variables``."""
        places, met = _places(self.variables, other.variables), {}
        for row, count in self.rows.items():
            number = other.rows.get(tuple(row[place] for place in places))
            if number is not None:
                met[row] = times(count, number)
        return met

    def _paired(self, other: _Table, times: Callable[[int, int], int]) -> _Table:
        shared = [each for each in self.variables if each in other.variables]
        added = [each for each in other.variables if each not in self.variables]
        mine, its = _places(self.variables, shared), _places(other.variables, shared)
        more = _places(other.variables, added)
        by: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in other.rows.items():
            by.setdefault(tuple(row[each] for each in its), []).append((tuple(row[each] for each in more), count))
        joined: Rows = {}
        for row, count in self.rows.items():
            for rest, number in by.get(tuple(row[each] for each in mine), ()):
                pair = (*row, *rest)
                joined[pair] = times(count, number)
        return _Table((*self.variables, *added), joined)

    def tested(self, test: algebra.Formula, times: Callable[[int, int], int]) -> _Table:
        """Return the rows that satisfy a test. If the test binds a variable, add the variable's value to each row."""
        bound = binding(test, self.variables)
        rows: Rows = {}
        for row, count in self.rows.items():
            values_by_variable = dict(zip(self.variables, row, strict=True))
            if bound is not None:
                each = value(bound.right, values_by_variable)
                more = (*row, each)
                rows[more] = times(count, 1)
            elif _holds(test, values_by_variable):
                rows[row] = times(count, 1)
        new = (bound.left,) if bound is not None and isinstance(bound.left, algebra.Variable) else ()
        return _Table((*self.variables, *new), rows)

    def matched(self, test: algebra.Matches) -> _Table:
        """Return the rows that match the pattern, with the pattern's groups as new columns.

        If a group of the pattern took no part in the match, the row is left out.
        """
        groups = group_variables(test, self.variables)
        rows: Rows = {}
        for row, count in self.rows.items():
            match = groups_of(test, dict(zip(self.variables, row, strict=True)))
            values = [] if match is None else [match[number] for number in groups.values()]
            if values and None not in values:
                extended = (*row, *values)
                rows[extended] = count
        return _Table((*self.variables, *groups), rows)

    def ordered(self, variables: tuple[algebra.Variable, ...]) -> _Table:
        """Return the same rows, with columns in the order of ``variables``."""
        if variables == self.variables:
            return self
        places = _places(self.variables, variables)
        return _Table(variables, {tuple(row[each] for each in places): count for row, count in self.rows.items()})


def _holds(test: algebra.Formula, values_by_variable: Mapping[algebra.Variable, Any]) -> bool:
    if isinstance(test, algebra.Not):
        assert isinstance(test.formula, (algebra.Comparison, algebra.Matches))
        return not satisfied(test.formula, values_by_variable)
    assert isinstance(test, (algebra.Comparison, algebra.Matches))
    return satisfied(test, values_by_variable)


def _places(variables: tuple[algebra.Variable, ...], wanted: Any) -> list[int]:
    return [variables.index(each) for each in wanted]


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _maximal(formula: algebra.Formula, *, counts: bool) -> list[algebra.Formula]:
    """Return the largest subformulas that contain no fixpoint and are not tests."""
    if not stepped(formula):
        return [formula]
    return [each for part in _operands(formula, counts=counts) for each in _maximal(part, counts=counts)]


def _operands(formula: algebra.Formula, *, counts: bool) -> tuple[algebra.Formula, ...]:
    if isinstance(formula, algebra.And):
        every = list(conjuncts(formula, counts=counts))
        if len(every) == 1:
            every = [formula.left, formula.right]
        rows = (part.formula if isinstance(part, algebra.Not) else part for part in every)
        return tuple(part for part in rows if not is_test(part))
    if isinstance(formula, algebra.Since) and isinstance(formula.left, algebra.Not):
        return formula.left.formula, formula.right
    return parts(formula)
