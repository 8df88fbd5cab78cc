"""Figures 1 and 2 of Toman 2007, implemented literally: the number of times that one valuation satisfies a formula.

Quantifiers are sums over the active domain. The module is an independent implementation beside ``past_logic``, which
works with sets of substitutions. It is the only evaluator of the paper's 2-FOL, with its own tree of formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TypeAlias

from oracle.past_logic import SEMANTICS, Counts, Log, Row, Value, compared, matched, same, value, within
from weft.algebra.formula import (
    And,
    Atom,
    Comparison,
    Defined,
    Definition,
    Distinct,
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
    Variable,
    free_variables,
    subformulas,
)

Valuation = Mapping[Variable, Value]
TYPES = {int: "BIGINT", str: "STRING", float: "DOUBLE"}


def active_domain(log: Log) -> dict[str, list[Value]]:
    """D(t) by type: every value that the prefix has."""
    found: dict[str, list[Value]] = {"BIGINT": [], "STRING": [], "DOUBLE": []}
    for state in log.states:
        for rows in state.values():
            for each in (each for row in rows for each in row):
                values = found[TYPES[type(each)]]
                if each not in values:
                    values.append(each)
    return found


@dataclass
class Figure2:
    """S(s), θ, t, n |= Q for past µTL."""

    formula: Formula
    log: Log
    by: Counts
    domain: Mapping[str, list[Value]]

    def __post_init__(self) -> None:
        fixpoints = [part for part in subformulas(self.formula) if isinstance(part, Fixpoint)]
        self.definitions: dict[str, Definition] = {each.name: each for one in fixpoints for each in one.definitions}

    def rows(self, t: int) -> Counter[Row]:
        variables = free_variables(self.formula)
        found = Counter[Row]()
        for values in product(*(self.domain[variable.type.name] for variable in variables)):
            n = self.n(self.formula, dict(zip(variables, values, strict=True)), t)
            if n:
                found[values] = n
        return found

    def n(self, formula: Formula, v: Valuation, t: int) -> int:
        by = self.by
        match formula:
            case Truth(value=true):
                return int(true)
            case Atom(predicate=predicate, terms=terms):
                wanted = [value(term, v) for term in terms]
                rows = self.log.states[t].get(predicate, ())
                found = [1 for row in rows if all(map(same, row, wanted))]
                return reduce(by.sum, found, 0) if by is SEMANTICS["set"] else len(found)
            case Comparison(operator=operator, left=left, right=right):
                return int(compared(operator, value(left, v), value(right, v)))
            case Matches():
                return len(matched(formula, v))
            case And() | Or():
                return self.of_two(formula, v, t)
            case Not(formula=inner):
                return int(self.n(inner, v, t) == 0)
            case Exists(variables=variables, formula=inner):
                found = 0
                for values in product(*(self.domain[variable.type.name] for variable in variables)):
                    found = by.sum(found, self.n(inner, {**v, **dict(zip(variables, values, strict=True))}, t))
                return found
            case Distinct(formula=inner):
                return int(self.n(inner, v, t) > 0)
            case _:
                return self.over_time(formula, v, t)

    def of_two(self, formula: And | Or, v: Valuation, t: int) -> int:
        by = self.by
        match formula:
            case And(left=left, right=Not(formula=right)):
                return by.minus(self.n(left, v, t), self.n(right, v, t))
            case And(left=left, right=right):
                return by.product(self.n(left, v, t), self.n(right, v, t))
            case Or(left=left, right=right):
                return by.sum(self.n(left, v, t), self.n(right, v, t))
        raise AssertionError(formula)

    def over_time(self, formula: Formula, v: Valuation, t: int) -> int:
        match formula:
            case Previous(interval=interval, formula=inner):
                return self.n(inner, v, t - 1) if t > 0 and within(self.log, interval, t - 1, t) else 0
            case Fixpoint(name=name, arguments=arguments) | Defined(name=name, arguments=arguments):
                return self.unfolded(name, arguments, v, t)
            case Once(interval=interval, formula=inner, counting=counting):
                return self.n(Since(interval, Truth(True), inner, counting), v, t)
            case Since():
                return self.since(formula, v, t)
        raise AssertionError(f"figure 2 has no {type(formula).__name__}")

    def unfolded(self, name: str, arguments: tuple[Term, ...], v: Valuation, t: int) -> int:
        definition = self.definitions[name]
        values = [value(each, v) for each in arguments]
        return self.n(definition.body, dict(zip(definition.parameters, values, strict=True)), t)

    def since(self, q: Since, v: Valuation, t: int) -> int:
        if q.counting == "any" or not q.interval.everything:
            return self.metric(q, v, t)
        by, left, right = self.by, self.n(q.left, v, t), self.n(q.right, v, t)
        x = self.n(q, v, t - 1) if t > 0 else 0
        if q.counting == "first":
            return by.product(min(1, left), by.sum(right, x))
        last = by.product(left, min(1, right))
        again = by.product(left, by.minus(min(1, x), right))
        still = by.product(x, by.minus(min(1, left), right))
        return by.sum(by.sum(last, again), still)

    def metric(self, q: Since, v: Valuation, t: int) -> int:
        found = 0
        for then in range(t + (not q.strict)):
            first = then if q.counting == "first" else then + 1
            held = all(self.n(q.left, v, k) for k in range(first, t + 1))
            if held and within(self.log, q.interval, then, t):
                found = self.by.sum(found, self.by.product(1, self.n(q.right, v, then)))
        return min(found, 1) if q.counting == "any" else found


def by_figure_2(formula: Formula, log: Log, semantics: str, more: Iterable[Value] = ()) -> list[Counter[Row]]:
    """The answers at every time point, over the values of the whole log and some more."""
    domain = active_domain(log)
    for each in more:
        values = domain[TYPES[type(each)]]
        if each not in values:
            values.append(each)
    figure = Figure2(formula, log, SEMANTICS[semantics], domain)
    return [figure.rows(t) for t in range(len(log))]


@dataclass(frozen=True)
class At:
    """S(t, x1, …, xk)"""

    predicate: str
    time: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """ti < tj, ti = tj, ti <= tj."""

    operator: str
    left: str
    right: str


@dataclass(frozen=True)
class Equal:
    """xi = xj, or the equality of a variable and a value."""

    left: str
    right: str | int


@dataclass(frozen=True)
class Both:
    left: TwoSorted
    right: TwoSorted


@dataclass(frozen=True)
class Either:
    left: TwoSorted
    right: TwoSorted


@dataclass(frozen=True)
class Without:
    """Q1 ∧ ¬Q2"""

    left: TwoSorted
    right: TwoSorted


@dataclass(frozen=True)
class SomeTime:
    """∃t.Q"""

    time: str
    formula: TwoSorted


@dataclass(frozen=True)
class SomeValue:
    """∃x.Q"""

    variable: str
    formula: TwoSorted


@dataclass(frozen=True)
class Once1:
    """εQ: each answer once."""

    formula: TwoSorted


TwoSorted: TypeAlias = "At | Order | Equal | Both | Either | Without | SomeTime | SomeValue | Once1"


def figure_1(q: TwoSorted, log: Log, θ: Mapping[str, Value]) -> int:
    """S(s), θ, n |= Q for 2-FOL: θ gives times as well as values."""
    match q:
        case At(predicate=predicate, time=time, variables=variables):
            row = tuple(θ[each] for each in variables)
            return list(log.states[int(θ[time])].get(predicate, ())).count(row)
        case Order(operator=operator, left=left, right=right):
            return int(compared(operator, θ[left], θ[right]))
        case Equal(left=left, right=right):
            return int(θ[left] == (θ[right] if isinstance(right, str) else right))
        case Both(left=left, right=right):
            m = figure_1(left, log, θ)
            return m and m * figure_1(right, log, θ)
        case Either(left=left, right=right):
            return figure_1(left, log, θ) + figure_1(right, log, θ)
        case Without(left=left, right=right):
            m = figure_1(left, log, θ)
            return m and max(0, m - figure_1(right, log, θ))
        case SomeTime(time=time, formula=inner):
            return sum(figure_1(inner, log, {**θ, time: u}) for u in range(len(log)))
        case SomeValue(variable=variable, formula=inner):
            return sum(figure_1(inner, log, {**θ, variable: each}) for each in active_domain(log)["BIGINT"])
        case Once1(formula=inner):
            return int(figure_1(inner, log, θ) > 0)
    raise AssertionError(q)


def by_figure_1(q: TwoSorted, free: tuple[str, ...], log: Log) -> Counter[Row]:
    """The answer over a prefix of a stream of integers."""
    found = Counter[Row]()
    for values in product(active_domain(log)["BIGINT"], repeat=len(free)):
        if n := figure_1(q, log, dict(zip(free, values, strict=True))):
            found[values] = n
    return found
