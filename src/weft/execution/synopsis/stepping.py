"""Evaluate formulas with fixpoints in this process, one state at a time.

No SQL operator evaluates a fixpoint over a batch. A fixpoint refers only to earlier time points, so each state follows
from the previous one. A value maps each row to its count, which may be any integer. A row has the values of the free
variables, in order. Parts without a fixpoint are evaluated over the whole batch.

Each part of a formula keeps its rows from one time point to the next, and computes its changes from the changes of its
operands. Therefore the time of a state does not depend on the number of rows of a fixpoint. There are three exceptions:
an operator with an interval, a counted ◇ or since, and an aggregate, whose changed groups are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from weft.algebra import formula as algebra
from weft.algebra.formula import parts
from weft.derivation.synopsis.construct import Stored, stored_of, temporal
from weft.derivation.synopsis.fixpoints import closures, stepped
from weft.derivation.synopsis.prepared import Semantics
from weft.errors import DerivationError
from weft.execution.synopsis.changing_rows import ChangingRows, Combine, Places, Row, Rows, picked, places_of
from weft.execution.synopsis.stepping_join import Conjunction, split
from weft.execution.synopsis.stepping_past import Anchors, CurrentPoint, Past, measured, past, same_value, value

Changes: TypeAlias = "Mapping[int, Sequence[tuple[Row, int]]]"
"""By time point: rows and what is added to their counts."""
Leaf: TypeAlias = Callable[[algebra.Formula], Changes]


class Part(Protocol):
    """A part of a formula."""

    value: ChangingRows

    def refresh(self, now: CurrentPoint) -> None:
        """Update the value to the time point ``now``. The values of the operands are up to date."""


@dataclass
class Stepper:
    """Evaluates one formula at successive time points.

    ``leaf`` returns the changes of a part without fixpoints. ``before`` has the stored anchors.
    """

    formula: algebra.Formula
    semantics: Semantics
    leaf: Leaf
    before: Mapping[Stored, Anchors]
    keys: dict[algebra.Formula, Stored] = field(default_factory=dict)
    definitions: dict[str, algebra.Definition] = field(default_factory=dict)
    values: dict[algebra.Formula, ChangingRows] = field(default_factory=dict)
    order: list[Part] = field(default_factory=list)
    """The parts of the formula. The operands of a part come before the part."""
    past: dict[algebra.Formula, Past] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Use one object for equal parts, because comparing trees is slow.
        one_of: dict[algebra.Formula, algebra.Formula] = {}
        self.formula = algebra.rewritten(self.formula, lambda part: one_of.setdefault(part, part))
        for part, closure in closures(self.formula):
            if temporal(part) and stepped(part):
                self.keys[part] = stored_of(closure, self.semantics)
        for part in algebra.subformulas(self.formula):
            if isinstance(part, algebra.Fixpoint):
                self.definitions |= {definition.name: definition for definition in part.definitions}
        self._value(self.formula)
        for part in self.keys:
            self._value(part)
            for operand in self._operands(part):
                self._value(operand)

    def at(self, now: CurrentPoint) -> Rows:
        """Return the answers at the next time point ``now``. They are valid until the next call."""
        for part in self.order:
            part.refresh(now)
        rows = self.values[self.formula].rows
        for temporal_part in self.past.values():
            temporal_part.advance(now)
        for part in self.order:
            part.value.changed.clear()
        return rows

    def stored(self) -> dict[Stored, Anchors]:
        """Return the anchors to store after the last time point."""
        return {self.keys[formula]: part.anchors() for formula, part in self.past.items()}

    def _value(self, formula: algebra.Formula) -> ChangingRows:
        """Return the value of a part of the formula. The value changes with each time point."""
        if formula not in self.values:
            part = self._part(formula)
            self.values[formula] = part.value
            self.order.append(part)
        return self.values[formula]

    def _part(self, formula: algebra.Formula) -> Part:
        if not stepped(formula):
            return _Leaf(ChangingRows(algebra.free_variables(formula)), self.leaf(formula))
        if isinstance(formula, (algebra.Previous, algebra.Once, algebra.Since)):
            return self._past(formula)
        operands = {part: self._value(part) for part in self._operands(formula)}
        variables = algebra.free_variables(formula)
        match formula:
            case algebra.And():
                return Conjunction(formula, split(formula, self.semantics), self.semantics, operands, self._times)
            case algebra.Or(left=left, right=right):
                return _Union(ChangingRows(variables), operands[left], operands[right], self._sum)
            case algebra.Exists(formula=inner):
                return _Projection(ChangingRows(variables), operands[inner], self.semantics)
            case algebra.Distinct(formula=inner):
                return _EachOnce(ChangingRows(variables), operands[inner])
            case algebra.Not(formula=inner):
                return _Complement(ChangingRows(()), operands[inner])
            case algebra.Aggregate(formula=inner):
                return _Groups(ChangingRows(variables), operands[inner], formula)
            case algebra.Fixpoint(name=name, arguments=arguments) | algebra.Defined(name=name, arguments=arguments):
                definition = self.definitions[name]
                return _Fitting(ChangingRows(variables), operands[definition.body], definition, arguments)
            case _:
                raise DerivationError(f"{type(formula).__name__} contains no fixpoint")

    def _past(self, formula: algebra.Previous | algebra.Once | algebra.Since) -> Past:
        """▽ does not need the operand at the same time point. The operand may therefore use ▽ of a fixpoint."""
        before = self.before.get(self.keys[formula], {})
        if not isinstance(formula, algebra.Previous):
            for operand in self._operands(formula):
                self._value(operand)
        part = past(formula, self._value, before, self._sum)
        self.past[formula] = part
        return part

    def _operands(self, formula: algebra.Formula) -> tuple[algebra.Formula, ...]:
        if isinstance(formula, algebra.And):
            return split(formula, self.semantics).operands
        if isinstance(formula, (algebra.Fixpoint, algebra.Defined)):
            return (self.definitions[formula.name].body,)
        if isinstance(formula, algebra.Since) and isinstance(formula.left, algebra.Not):
            return formula.left.formula, formula.right
        return parts(formula)

    @property
    def _sum(self) -> Combine:
        if self.semantics == "bag":
            return lambda one, other: one + other
        return max

    @property
    def _times(self) -> Combine:
        if self.semantics == "bag":
            return lambda one, other: one * other
        return min


@dataclass
class _Leaf:
    """A part without fixpoints."""

    value: ChangingRows
    changes: Changes

    def refresh(self, now: CurrentPoint) -> None:
        for row, more in self.changes.get(now.tp, ()):
            self.value.put(row, self.value.rows.get(row, 0) + more)


@dataclass
class _Union:
    value: ChangingRows
    left: ChangingRows
    right: ChangingRows
    sum: Combine

    def __post_init__(self) -> None:
        self.to_value = [places_of(one.variables, self.value.variables) for one in (self.left, self.right)]
        self.to_right = places_of(self.value.variables, self.right.variables)

    def refresh(self, now: CurrentPoint) -> None:
        """A row of the value comes from one row of each operand."""
        affected = dict.fromkeys(picked(row, self.to_value[0]) for row in self.left.changed)
        affected |= dict.fromkeys(picked(row, self.to_value[1]) for row in self.right.changed)
        for row in affected:
            # The variables of the value begin with those of the left operand.
            count = self.left.rows.get(row, 0)
            other = self.right.rows.get(picked(row, self.to_right), 0)
            self.value.put(row, self.sum(count, other) if count and other else count or other)


@dataclass
class _Projection:
    """∃. ``totals`` has the number of rows, or the sum of their counts, that give a row of the value."""

    value: ChangingRows
    inner: ChangingRows
    semantics: Semantics
    totals: Rows = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = places_of(self.inner.variables, self.value.variables)

    def refresh(self, now: CurrentPoint) -> None:
        rows = self.inner.rows
        if self.semantics == "minmax":
            for row in dict.fromkeys(picked(row, self.places) for row in self.inner.changed):
                self.value.put(row, max((rows[one] for one in self.inner.having(self.places, row)), default=0))
            return
        affected: dict[Row, None] = {}
        for row, before in self.inner.changed.items():
            kept, count = picked(row, self.places), rows.get(row, 0)
            more = count - before if self.semantics == "bag" else bool(count) - bool(before)
            self.totals[kept] = self.totals.get(kept, 0) + more
            affected[kept] = None
        for kept in affected:
            total = self.totals[kept] or self.totals.pop(kept)
            self.value.put(kept, total if self.semantics == "bag" else min(total, 1))


@dataclass
class _EachOnce:
    value: ChangingRows
    inner: ChangingRows

    def refresh(self, now: CurrentPoint) -> None:
        for row in self.inner.changed:
            self.value.put(row, int(row in self.inner.rows))


@dataclass
class _Complement:
    """The negation of a formula without free variables."""

    value: ChangingRows
    inner: ChangingRows

    def refresh(self, now: CurrentPoint) -> None:
        self.value.put((), int(not self.inner.rows))


@dataclass
class _Groups:
    value: ChangingRows
    inner: ChangingRows
    formula: algebra.Aggregate
    results: dict[Row, Row] = field(default_factory=dict)
    """The row of each group."""

    def refresh(self, now: CurrentPoint) -> None:
        """Compute each group again that has a changed row. Without groups, no row is a group too."""
        places: Places = places_of(self.inner.variables, self.formula.groups)
        changed = dict.fromkeys(picked(row, places) for row in self.inner.changed)
        if not self.formula.groups and not self.results:
            changed[()] = None
        for group in changed:
            items = [
                value(self.formula.item, dict(zip(self.inner.variables, row, strict=True)))
                for row in self.inner.having(places, group)
            ]
            if (last := self.results.pop(group, None)) is not None:
                self.value.put(last, 0)
            if items or not self.formula.groups:
                self.results[group] = (measured(self.formula, items), *group)
                self.value.put(self.results[group], 1)


@dataclass
class _Fitting:
    """The rows of a fixpoint that fit its arguments. A row of the value comes from one row of the fixpoint."""

    value: ChangingRows
    body: ChangingRows
    definition: algebra.Definition
    arguments: tuple[algebra.Term, ...]

    def __post_init__(self) -> None:
        self.places = places_of(self.body.variables, self.definition.parameters)
        self.plain = self.arguments == self.value.variables
        """Whether the arguments are distinct variables."""

    def refresh(self, now: CurrentPoint) -> None:
        for row in self.body.changed:
            values = picked(row, self.places)
            fitting = values if self.plain else self._fitting(values)
            if fitting is not None:
                self.value.put(fitting, self.body.rows.get(row, 0))

    def _fitting(self, values: Row) -> Row | None:
        given: dict[algebra.Variable, Any] = {}
        for term, each in zip(self.arguments, values, strict=True):
            if isinstance(term, algebra.Variable):
                given.setdefault(term, each)
        if all(same_value(value(term, given), each) for term, each in zip(self.arguments, values, strict=True)):
            return tuple(given[variable] for variable in self.value.variables)
        return None
