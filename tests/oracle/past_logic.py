"""Evaluate a formula at a time point, by the definitions alone: every operator reads the whole prefix.

The definitions are Figure 2 and section 4.1 of Toman 2007 for counts, and section 5 for the smallest and greatest
count. MonPoly's metric first-order logic is the same with sets. A substitution is a set of pairs (variable, value). The
value of a formula at a time point is the number of times that each substitution for its free variables is an answer.
Values are cached, and nothing else is kept from one time point to the next.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from statistics import median
from typing import Any

from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Defined,
    Definition,
    Distinct,
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
    Variable,
    free_variables,
    subformulas,
)

Value = int | float | str
Row = tuple[Value, ...]
Substitution = frozenset[tuple[Variable, Value]]
Answers = dict[Substitution, int]
"""Each answer with how often it is one, at least once."""
NOTHING: Substitution = frozenset()


@dataclass(frozen=True)
class Counts:
    """How duplicates are counted: ∧, ∨ with ∃, and ∧¬."""

    product: Callable[[int, int], int]
    sum: Callable[[int, int], int]
    minus: Callable[[int, int], int]


BAG = Counts(lambda m, n: m * n, lambda m, n: m + n, lambda m, n: max(0, m - n))
MINMAX = Counts(min, max, lambda m, n: max(0, m - n))
SET = Counts(lambda m, n: m and n and 1, lambda m, n: 1 if m or n else 0, lambda m, n: m if n == 0 else 0)
SEMANTICS = {"bag": BAG, "minmax": MINMAX, "set": SET}


@dataclass(frozen=True)
class Log:
    """A prefix: the time of each state (microseconds, never going down) and its rows, a multiset for each predicate."""

    at: tuple[int, ...]
    states: tuple[Mapping[str, Sequence[Row]], ...]

    def __len__(self) -> int:
        return len(self.at)

    def until(self, end: int) -> Log:
        """The first ``end`` states."""
        return Log(self.at[:end], self.states[:end])


class Unsafe(Exception):
    """A formula whose answers do not follow from its parts."""


@dataclass
class Meaning:
    """The answers of a formula, and of all below it, over one log."""

    formula: Formula
    log: Log
    counts: Counts
    known: dict[tuple[int, int], Answers] = field(default_factory=dict)
    kept: list[Formula] = field(default_factory=list)
    """Formulas made on the way, so that none has the identity of one that is gone."""

    def __post_init__(self) -> None:
        self.definitions: dict[str, Definition] = {
            each.name: each
            for part in subformulas(self.formula)
            if isinstance(part, Fixpoint)
            for each in part.definitions
        }

    def rows(self, tp: int) -> Counter[Row]:
        """The answers at a time point, values in the order of the free variables."""
        order = free_variables(self.formula)
        found = Counter[Row]()
        for substitution, count in self.at(self.formula, tp).items():
            given = dict(substitution)
            found[tuple(given[variable] for variable in order)] += count
        return found

    def at(self, formula: Formula, tp: int) -> Answers:
        """S, θ, tp, n |= Q for every θ with n > 0."""
        key = id(formula), tp
        if key not in self.known:
            self.kept.append(formula)
            found = self.worked_out(formula, tp)
            self.known[key] = {each: count for each, count in found.items() if count > 0}
        return self.known[key]

    def count(self, formula: Formula, given: Mapping[Variable, Value], tp: int) -> int:
        """How often a substitution for (at least) its free variables is an answer."""
        match formula:
            case Comparison(operator=operator, left=left, right=right):
                return int(compared(operator, value(left, given), value(right, given)))
            case Matches():
                return int(any(all(given[v] == x for v, x in each) for each in matched(formula, given)))
            case Not(formula=inner):
                return int(self.count(inner, given, tp) == 0)
        wanted = frozenset((variable, given[variable]) for variable in free_variables(formula))
        return self.at(formula, tp).get(wanted, 0)

    def worked_out(self, formula: Formula, tp: int) -> Answers:
        match formula:
            case Truth(value=true):
                return {NOTHING: int(true)}
            case Atom(predicate=predicate, terms=terms):
                return self.fitting(terms, Counter(self.log.states[tp].get(predicate, ())))
            case Comparison() | Matches():
                return self.extended({NOTHING: 1}, formula)
            case And(left=left, right=right):
                return self.both(left, right, tp)
            case Or(left=left, right=right):
                return self.added([self.at(left, tp), self.at(right, tp)])
            case Not(formula=inner):
                if free_variables(inner):
                    raise Unsafe(f"answers of {formula}")
                return {NOTHING: int(self.count(inner, {}, tp) == 0)}
            case Exists() | Distinct() | Aggregate():
                return self.of_one(formula, tp)
            case Fixpoint(name=name, arguments=arguments) | Defined(name=name, arguments=arguments):
                return self.defined(self.definitions[name], arguments, tp)
            case _:
                return self.over_time(formula, tp)

    def of_one(self, formula: Exists | Distinct | Aggregate, tp: int) -> Answers:
        match formula:
            case Exists(variables=variables, formula=inner):
                return self.without(set(variables), self.at(inner, tp))
            case Distinct(formula=inner):
                return dict.fromkeys(self.at(inner, tp), 1)
        return self.aggregated(formula, tp)

    def over_time(self, formula: Formula, tp: int) -> Answers:
        match formula:
            case Previous(interval=interval, formula=inner):
                there = tp > 0 and within(self.log, interval, tp - 1, tp)
                return self.at(inner, tp - 1) if there else {}
            case Once(interval=interval, formula=inner, counting=counting):
                return self.since(Since(interval, Truth(True), inner, counting), tp)
            case Since():
                return self.since(formula, tp)
        raise AssertionError(formula)

    def defined(self, definition: Definition, arguments: tuple[Term, ...], tp: int) -> Answers:
        """A relation equals its body, which refers to the relation at earlier time points only."""
        rows = Counter[Row]()
        for substitution, count in self.at(definition.body, tp).items():
            given = dict(substitution)
            rows[tuple(given[each] for each in definition.parameters)] += count
        return self.fitting(arguments, rows)

    def fitting(self, terms: tuple[Term, ...], rows: Mapping[Row, int]) -> Answers:
        """The substitutions under which the terms are a row, each with the row's count."""
        found: Answers = {}
        for row, count in rows.items():
            given: dict[Variable, Value] = {}
            for term, each in zip(terms, row, strict=True):
                if isinstance(term, Variable):
                    given.setdefault(term, each)
            if all(same(value(term, given), each) for term, each in zip(terms, row, strict=True)):
                self.add(found, frozenset(given.items()), count)
        return found

    def add(self, found: Answers, substitution: Substitution, count: int) -> None:
        found[substitution] = self.counts.sum(found.get(substitution, 0), count)

    def added(self, all_of: Sequence[Answers]) -> Answers:
        found: Answers = {}
        for each in all_of:
            for substitution, count in each.items():
                self.add(found, substitution, count)
        return found

    def without(self, variables: set[Variable], answers: Answers) -> Answers:
        found: Answers = {}
        for substitution, count in answers.items():
            self.add(found, frozenset(pair for pair in substitution if pair[0] not in variables), count)
        return found

    def both(self, left: Formula, right: Formula, tp: int) -> Answers:
        match right:
            case Not(formula=inner):
                found = {}
                for substitution, count in self.at(left, tp).items():
                    found[substitution] = self.counts.minus(count, self.count(inner, dict(substitution), tp))
                return found
            case Comparison() | Matches():
                return self.extended(self.at(left, tp), right)
        found = {}
        for one, m in self.at(left, tp).items():
            given = dict(one)
            for other, n in self.at(right, tp).items():
                if all(variable not in given or same(given[variable], each) for variable, each in other):
                    self.add(found, frozenset({**dict(other), **given}.items()), self.counts.product(m, n))
        return found

    def extended(self, answers: Answers, formula: Comparison | Matches) -> Answers:
        """Substitutions that also satisfy a comparison; = gives a variable that had no value the other side's."""
        found: Answers = {}
        for substitution, count in answers.items():
            for more in _satisfying(formula, dict(substitution)):
                self.add(found, substitution | more, self.counts.product(count, 1))
        return found

    def since(self, formula: Since, tp: int) -> Answers:
        """By the definitions of section 4.1 unfolded; a metric interval says which time points are summed."""
        match formula.counting:
            case "second":
                assert formula.interval.everything
                return self.since2(formula, tp)
            case "first" if formula.interval.everything:
                return self.since1(formula, tp)
        found: Answers = {}
        for then in range(tp + (not formula.strict)):
            if not within(self.log, formula.interval, then, tp):
                continue
            for substitution, count in self.at(formula.right, then).items():
                from_here = then if formula.counting == "first" else then + 1
                given = dict(substitution)
                if all(self.count(formula.left, given, k) for k in range(from_here, tp + 1)):
                    self.add(found, substitution, self.counts.product(1, count))
        return dict.fromkeys(found, 1) if formula.counting == "any" else found

    def since1(self, formula: Since, tp: int) -> Answers:
        """µX. (εQ1) ∧ (Q2 ∨ ▽X)"""
        before = self.at(formula, tp - 1) if tp > 0 else {}
        either = self.added([self.at(formula.right, tp), before])
        return {
            each: self.counts.product(1, count)
            for each, count in either.items()
            if self.count(formula.left, dict(each), tp)
        }

    def since2(self, formula: Since, tp: int) -> Answers:
        """µX. (Q1 ∧ εQ2) ∨ (Q1 ∧ (ε▽X ∧ ¬Q2)) ∨ (▽X ∧ (εQ1 ∧ ¬Q2))"""
        by = self.counts
        before = self.at(formula, tp - 1) if tp > 0 else {}
        now = self.at(formula.right, tp)
        found: Answers = {}
        for each in {*before, *now}:
            q1, q2, x = self.count(formula.left, dict(each), tp), now.get(each, 0), before.get(each, 0)
            last = by.product(q1, min(q2, 1))
            again = by.product(q1, by.minus(min(x, 1), q2))
            still = by.product(x, by.minus(min(q1, 1), q2))
            found[each] = reduce(by.sum, (last, again, still))
        return found

    def aggregated(self, formula: Aggregate, tp: int) -> Answers:
        groups: dict[Substitution, list[Value]] = {} if formula.groups else {NOTHING: []}
        for substitution in self.at(formula.formula, tp):
            given = dict(substitution)
            group = frozenset((variable, given[variable]) for variable in formula.groups)
            groups.setdefault(group, []).append(value(formula.item, given))
        found: Answers = {}
        for group, items in groups.items():
            result = aggregate(formula.function, items, formula.output.type.name)
            found[group | {(formula.output, result)}] = 1
        return found


def _satisfying(formula: Comparison | Matches, given: Mapping[Variable, Value]) -> list[Substitution]:
    """What to add to a substitution so that it satisfies: nothing, or a value for variables that had none."""
    if isinstance(formula, Matches):
        return matched(formula, given)
    if formula.operator == "=":
        for one, other in ((formula.left, formula.right), (formula.right, formula.left)):
            if isinstance(one, Variable) and one not in given:
                return [frozenset({(one, value(other, given))})]
    return [NOTHING] if compared(formula.operator, value(formula.left, given), value(formula.right, given)) else []


def matched(formula: Matches, given: Mapping[Variable, Value]) -> list[Substitution]:
    """What the groups found first, where the pattern is found at all; one that took no part is like no term."""
    found = re.search(formula.pattern, str(value(formula.text, given)))
    if found is None:
        return []
    added: dict[Variable, Value] = {}
    for term, text in zip(formula.groups, found.groups(), strict=False):
        if term is None:
            continue
        if text is None:
            return []
        if isinstance(term, Variable) and term not in given:
            added.setdefault(term, text)
        if not same(value(term, {**given, **added}), text):
            return []
    return [frozenset(added.items())]


def value(term: Term, given: Mapping[Variable, Value]) -> Value:
    """A term's value under a substitution."""
    match term:
        case Variable():
            if term not in given:
                raise Unsafe(f"no value for {term.name}")
            return given[term]
        case Constant(value=constant):
            return constant
        case Computed(operation=operation, arguments=arguments):
            return OPERATIONS[operation](*(value(each, given) for each in arguments))


def _quotient(a: Any, b: Any) -> Value:
    if isinstance(a, float):
        if b == 0:
            return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: Mapping[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "MOD": lambda a, b: a - b * int(_quotient(a, b)),
    "negate": lambda a: -a,
    "i2f": float,
    "f2i": lambda a: int(a) if math.isfinite(a) else 0,
}


def same(one: Value, other: Value) -> bool:
    """Equal as SQL takes it: NaN is itself."""
    return one == other or (one != one and other != other)


def compared(operator: str, one: Any, other: Any) -> bool:
    """NaN is greater than every number."""
    if operator == "substring":
        return one in other
    if operator in ("=", "<>"):
        return same(one, other) == (operator == "=")
    less = one < other or (one == one and other != other)
    return less or (operator == "<=" and same(one, other))


def within(log: Log, interval: Interval, then: int, now: int) -> bool:
    """Whether a time point lies as long ago as an interval says."""
    ago = log.at[now] - log.at[then]
    return interval.low <= ago and (interval.high is None or ago <= interval.high)


OF_NONE: Mapping[str, Mapping[str, Value]] = {
    "BIGINT": {"CNT": 0, "SUM": 0, "MIN": 0, "MAX": 0},
    "DOUBLE": {"SUM": 0.0, "AVG": 0.0, "MED": 0.0, "MIN": math.inf, "MAX": -math.inf},
    "STRING": {"MIN": "", "MAX": ""},
}
"""What MonPoly gives for an aggregate without groups over no answer, by the type of its result."""


def aggregate(function: str, items: list[Any], type_name: str) -> Value:
    """An aggregate over the items of some answers."""
    if not items:
        return OF_NONE[type_name][function]
    match function:
        case "CNT":
            return len(items)
        case "SUM":
            return sum(sorted(items))
        case "AVG":
            return sum(sorted(items)) / len(items)
        case "MIN":
            return min(items)
        case "MAX":
            return max(items)
        case "MED":
            return float(median(items))
    raise AssertionError(function)


def evaluated(formula: Formula, log: Log, semantics: str) -> list[Counter[Row]]:
    """The answers at every time point of a log."""
    meaning = Meaning(formula, log, SEMANTICS[semantics])
    return [meaning.rows(tp) for tp in range(len(log))]
