"""Evaluate conjunctions.

Conjuncts that share variables are joined first. A test is applied as soon as its variables are bound. A test ``x = t``
binds ``x`` if no conjunct has bound ``x`` before. A test with a division is applied last, because other conjuncts may
remove the rows with divisor 0. A remaining division by 0 rejects the whole batch. The error names the term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from weft.algebra.conjuncts import binding, compares, conjuncts, group_variables, is_test
from weft.algebra.formula import (
    And,
    Comparison,
    Computed,
    Formula,
    Matches,
    Not,
    Variable,
    free_variables,
    subformulas,
)
from weft.derivation.synopsis.alpha_equivalence import alpha_canonical
from weft.derivation.synopsis.divisions import dividing
from weft.errors import DerivationError, ExecutionError
from weft.execution.synopsis.relating import Operations, Value
from weft.formula.written import bare_text, term_text
from weft.period_sql.notation import listed
from weft.period_sql.steps import Steps
from weft.sql.rendering.formula_terms import extended, first_divided_by_0, grouped, lessened, selected


def conjoined(operations: Operations, formula: Formula, value: Callable[[Formula], Value]) -> Value:
    """Return the value of Q1 ∧ Q2, Q1 ∧ ¬Q2 or a single test.

    ``value`` returns the value of a subformula. The check ``algebra.safe_range`` ensures that the
    number of answers is finite.
    """
    if isinstance(formula, And) and _negates(formula.right):
        return operations.without(value(formula.left), value(_negated(formula.right)))
    if isinstance(formula, And) and isinstance(formula.right, Not) and operations.counts:
        return _lessened(operations, value(formula.left), formula.right.formula)
    parts = list(conjuncts(formula, counts=operations.counts))
    tests = [part for part in parts if compares(part)]
    taken = [part for part in parts if _negates(part) and free_variables(part)]
    values = [value(part) for part in parts if part not in tests and part not in taken]
    result = _joined(operations, values, tests)
    for part in taken:
        result = operations.without(result, value(_negated(part)))
    return result


def _negated(formula: Formula) -> Formula:
    return formula.formula if isinstance(formula, Not) else formula


def _negates(formula: Formula) -> bool:
    """Return False for the negation of a test, because such a negation is evaluated like a test."""
    return isinstance(formula, Not) and not is_test(formula.formula)


def _lessened(operations: Operations, left: Value, test: Formula) -> Value:
    """Subtract one from the count of each answer that passes the test. An answer with count 0 disappears."""
    assert isinstance(test, (Comparison, Matches))
    if left is None or not left.counted:
        return _joined(operations, [left], [Not(test)])
    left = _divisible(operations, left, test)
    query = lessened(left, test, operations.engine.dialect)
    return operations.relation(query, left.variables, counted=True, points=left.points)


def _joined(operations: Operations, values: list[Value], tests: list[Formula]) -> Value:
    if any(value is None for value in values):
        return None
    last = [test for test in tests if dividing(test)]
    waiting = [test for test in tests if test not in last]
    result: Value = values.pop(0) if values else operations.everything
    result = _tested(operations, result, waiting)
    while values and result is not None:
        known = set(result.variables)
        at = next((at for at, each in enumerate(values) if each is not None and known & set(each.variables)), 0)
        result = _tested(operations, operations.joined(result, values.pop(at)), waiting)
    while result is not None and (test := _applicable(last, result)) is not None:
        last.remove(test)
        result = _tested(operations, _divisible(operations, result, test), [test])
        result = _tested(operations, result, waiting)
    waiting += last
    if waiting and result is not None:
        raise DerivationError(f"nothing binds the variables of {waiting}")
    return result


def _tested(operations: Operations, value: Value, tests: list[Formula]) -> Value:
    """Apply the tests whose variables are bound, and remove these tests from ``tests``."""
    if value is None:
        return None
    dialect, steps = operations.engine.dialect, value
    while (test := _applicable(tests, steps)) is not None:
        inner = _negated(test)
        assert isinstance(inner, (Comparison, Matches))
        if isinstance(inner, Matches) and (groups := group_variables(inner, steps.variables)):
            query = grouped(steps, inner, groups, dialect)
            steps = replace(steps, source=f"({query})", variables=(*steps.variables, *groups))
            continue
        tests.remove(test)
        bound = binding(test, steps.variables)
        if bound is None or not isinstance(bound.left, Variable):
            query, variables = selected(steps, inner, dialect, negated=isinstance(test, Not)), steps.variables
        else:
            variables = (*steps.variables, bound.left)
            query = extended(steps, {bound.left: bound.right}, variables, dialect)
        # A test has the count 1. Under minmax, a conjunction with a test therefore has the count 1.
        counted = steps.counted and operations.semantics != "minmax"
        steps = replace(steps, source=f"({query})", variables=variables, counted=counted)
    if steps is value:
        return value
    return operations.relation(
        f"SELECT {listed(steps.heads)} FROM {steps.source} AS given",
        steps.variables,
        counted=steps.counted,
        points=steps.points,
    )


def _divisible(operations: Operations, value: Steps, test: Formula) -> Steps:
    for division in dividing(test):
        query = first_divided_by_0(value, division, operations.engine.dialect)
        (tp,) = operations.engine.rows(query).column("tp").to_pylist()
        if tp is not None:
            raise DivisionByZero(division, test, tp)
    return value


def _applicable(tests: list[Formula], steps: Steps) -> Formula | None:
    known = set(steps.variables)
    for each in tests:
        if set(free_variables(each)) <= known or binding(each, known) or group_variables(each, known):
            return each
    return None


class DivisionByZero(ExecutionError):
    """Raised if ``division`` divides by 0 at the time point ``tp``. ``test`` is the test that contains the division."""

    def __init__(self, division: Computed, test: Formula, tp: int) -> None:
        divisor = term_text(division.arguments[1])
        super().__init__(
            f"{bare_text(division)} divides by 0 at time point {tp}",
            hint=f"Exclude such rows: AND NOT ({divisor} = 0).",
        )
        self.division = division
        self.test = test
        self.tp = tp

    def named(self, formulas: Iterable[Formula]) -> DivisionByZero:
        """Return this error with the variable names of the first formula that contains the test."""
        wanted = alpha_canonical(_positive(self.test))
        for formula in formulas:
            for part in subformulas(formula):
                if isinstance(part, Comparison) and alpha_canonical(part) == wanted:
                    place = dividing(_positive(self.test)).index(self.division)
                    return DivisionByZero(dividing(part)[place], part, self.tp)
        return self


def _positive(test: Formula) -> Formula:
    return test.formula if isinstance(test, Not) else test
