"""Compute the value of each subformula over a batch, as a table of the engine.

If two subformulas differ only in the names of variables, they share one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.algebra import formula as algebra
from weft.derivation.synopsis.alpha_equivalence import alpha_canonical
from weft.derivation.synopsis.construct import Stored
from weft.errors import DerivationError
from weft.execution.synopsis.conjoining import conjoined
from weft.execution.synopsis.past import PastOperators
from weft.execution.synopsis.relating import Operations, Value
from weft.period_sql.notation import listed
from weft.period_sql.steps import PERIOD, gaps
from weft.sql.rendering.formula_terms import aggregated, atom, of_nothing


@dataclass
class BatchValues:
    """Computes the values of formulas over a batch. ``events`` has the tables of the batch by predicate."""

    operations: Operations
    past: PastOperators
    events: Mapping[str, str]
    known: dict[algebra.Formula, Value] = field(default_factory=dict)

    def value(self, formula: algebra.Formula) -> Value:
        """Return the value of a formula.

        Raise DerivationError if the formula can only be evaluated state by state.
        """
        form = alpha_canonical(formula)
        if form not in self.known:
            self.known[form] = self._computed(form)
        result = self.known[form]
        if result is None:
            return None
        names = dict(zip(algebra.free_variables(form), algebra.free_variables(formula), strict=True))
        return result.named(tuple(names[variable] for variable in result.variables))

    def query_to_store(self, stored: Stored) -> str | None:
        """Return the query for the rows to store after the batch. Return None if the relation becomes empty."""
        self.value(stored.formula)
        return self.past.keeping[stored]

    def _computed(self, formula: algebra.Formula) -> Value:
        match formula:
            case algebra.Truth(value=value):
                return self.operations.everything if value else None
            case algebra.Atom():
                return self._atom(formula)
            case (
                algebra.Comparison()
                | algebra.Matches()
                | algebra.And()
                | algebra.Not(formula=algebra.Comparison() | algebra.Matches())
            ):
                return conjoined(self.operations, formula, self.value)
            case algebra.Or(left=left, right=right):
                return self.operations.merged([self.value(left), self.value(right)], algebra.free_variables(formula))
            case algebra.Exists(formula=inner):
                return self.operations.merged([self.value(inner)], algebra.free_variables(formula))
            case algebra.Distinct(formula=inner):
                return self.operations.distinct(self.value(inner))
            case algebra.Not(formula=inner):
                return self._complement(self.value(inner))
            case algebra.Aggregate(formula=inner):
                return self._aggregate(formula, self.operations.distinct(self.value(inner)))
            case _:
                return self._looked_back(formula)

    def _looked_back(self, formula: algebra.Formula) -> Value:
        match formula:
            case algebra.Previous(formula=inner):
                return self.past.previous(formula, self.value(inner))
            case algebra.Once(formula=inner):
                return self.past.once(formula, self.value(inner))
            case algebra.Since(left=algebra.Not(formula=left), right=right):
                return self.past.since(formula, self.value(left), self.value(right), negated=True)
            case algebra.Since(left=left, right=right):
                return self.past.since(formula, self.value(left), self.value(right), negated=False)
            case _:
                raise DerivationError(f"{type(formula).__name__} is stepped state by state, not computed over a batch")

    def _complement(self, value: Value) -> Value:
        held = self.operations.distinct(value)
        if held is None:
            return self.operations.everything
        return self.operations.relation(gaps(held, self.operations.extent), (), counted=False, points=False)

    def _atom(self, formula: algebra.Atom) -> Value:
        operations, source = self.operations, self.events.get(formula.predicate)
        if source is None:
            return None
        query = atom(formula, source, operations.engine.dialect, counted=operations.counts)
        return operations.relation(query, algebra.free_variables(formula), counted=operations.counts, points=True)

    def _aggregate(self, formula: algebra.Aggregate, value: Value) -> Value:
        operations, variables = self.operations, (*formula.groups, formula.output)
        if value is None:
            if formula.groups:
                return None
            nothing = listed(f"{of_nothing(formula)} AS v1", PERIOD)
            query = f"SELECT {nothing} FROM {operations.everything.source} AS given"
            return operations.relation(query, variables, counted=False, points=False)
        query = aggregated(formula, value, operations.extent, operations.engine.dialect)
        points = value.points and bool(formula.groups)
        return operations.relation(query, variables, counted=False, points=points)
