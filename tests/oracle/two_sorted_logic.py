"""Figure 1 of Toman 2007, implemented literally over the tree of ``algebra.formula``.

The result is the number of times that one valuation of data variables and time points satisfies a formula over a prefix
of a log. Quantifiers are sums over both domains. Weft's additions are included: NOW is the last time point of the
prefix, the distance of time points is that of their times, and aggregations cover the distinct answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from oracle.past_figures import active_domain
from oracle.past_logic import SEMANTICS, Log, Row, Value, compared
from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Distinct,
    Exists,
    Formula,
    Not,
    Or,
    Term,
    Truth,
    Variable,
    free_variables,
    subformulas,
)

MOST = 130
"""A number above every count and sum in the drawn cases."""
Valuation = Mapping[Variable, Value]


def by_figure_1(formula: Formula, columns: tuple[Variable, ...], prefix: Log, semantics: str) -> Counter[Row]:
    """The answers over a prefix, each with its count; ``columns`` are the free variables over data."""
    return Figure1(formula, prefix, semantics).answers(columns)


@dataclass
class Figure1:
    formula: Formula
    prefix: Log
    semantics: str
    known: dict[tuple[int, tuple[Value, ...]], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by = SEMANTICS[self.semantics]
        self.domain: dict[str, list[Value]] = dict(active_domain(self.prefix))
        for part in subformulas(self.formula):
            terms = part.terms if isinstance(part, Atom) else ()
            terms = (part.left, part.right) if isinstance(part, Comparison) else terms
            for term in terms:
                if isinstance(term, Constant) and term.type.name in self.domain:
                    values = self.domain[term.type.name]
                    if term.value not in values:
                        values.append(term.value)
        self.domain["TIME POINT"] = list(range(len(self.prefix)))
        outputs = (part.output for part in subformulas(self.formula) if isinstance(part, Aggregate))
        self.results: dict[Variable, list[Value]] = {
            each: list({*self.domain["BIGINT"], *range(MOST)}) for each in outputs
        }
        self.free = {id(part): free_variables(part) for part in subformulas(self.formula)}

    @property
    def now(self) -> int:
        return len(self.prefix) - 1

    def answers(self, columns: tuple[Variable, ...]) -> Counter[Row]:
        found = Counter[Row]()
        for values in self.valuations(columns):
            count = self.n(self.formula, values)
            if count:
                found[tuple(values[each] for each in columns)] = count
        return found

    def valuations(self, variables: tuple[Variable, ...]) -> Iterator[dict[Variable, Value]]:
        domains = (self.results.get(each, self.domain[each.type.name]) for each in variables)
        for values in product(*domains):
            yield dict(zip(variables, values, strict=True))

    def n(self, formula: Formula, v: Valuation) -> int:
        """S(now), v, n |= formula."""
        free = self.free[id(formula)]
        key = id(formula), tuple(v.get(each, self.now) for each in free)
        if key not in self.known:
            self.known[key] = self.worked_out(formula, v)
        return self.known[key]

    def worked_out(self, formula: Formula, v: Valuation) -> int:
        by = self.by
        match formula:
            case Truth(value=true):
                return int(true)
            case Atom(predicate=predicate, terms=(*terms, point)):
                wanted = tuple(self.value(term, v) for term in terms)
                rows = self.prefix.states[int(self.value(point, v))].get(predicate, ())
                found = sum(1 for row in rows if tuple(row) == wanted)
                return min(found, 1) if self.semantics == "set" else found
            case Comparison(operator=operator, left=left, right=right):
                return int(compared(operator, self.value(left, v), self.value(right, v)))
            case And(left=left, right=Not(formula=right)):
                return by.minus(self.n(left, v), self.n(right, v))
            case And(left=left, right=right):
                first = self.n(left, v)
                return by.product(first, self.n(right, v)) if first else 0
            case Or(left=left, right=right):
                return by.sum(self.n(left, v), self.n(right, v))
            case Not(formula=inner):
                return int(self.n(inner, v) == 0)
            case Exists(variables=variables, formula=inner):
                found = 0
                for values in self.valuations(variables):
                    found = by.sum(found, self.n(inner, {**v, **values}))
                return found
            case Distinct(formula=inner):
                return int(self.n(inner, v) > 0)
            case Aggregate():
                return self.aggregate(formula, v)
        raise AssertionError(f"figure 1 has no {type(formula).__name__}")

    def value(self, term: Term, v: Valuation) -> Value:
        match term:
            case Constant(value=constant):
                return constant
            case Variable(name="NOW"):
                return self.now
            case Variable():
                return v[term]
            case Computed(operation="-", arguments=(later, earlier)):
                ends = (self.prefix.at[int(self.value(each, v))] for each in (later, earlier))
                return next(ends) - next(ends)
        raise AssertionError(term)

    def aggregate(self, formula: Aggregate, v: Valuation) -> int:
        groups = {each: v[each] for each in formula.groups}
        others = tuple(each for each in self.free[id(formula.formula)] if each not in groups and each.name != "NOW")
        items = []
        for values in self.valuations(others):
            whole = {**groups, **values}
            if self.n(formula.formula, whole):
                items.append(self.value(formula.item, whole))
        if not items and formula.groups:
            return 0
        found = measured(formula.function, items)
        assert not isinstance(found, int) or found < MOST, found
        return int(v[formula.output] == found)


def measured(function: str, items: list[Value]) -> Value:
    numbers = [each for each in items if not isinstance(each, str)]
    match function:
        case "CNT":
            return len(items)
        case "SUM":
            return sum(numbers)
        case "MIN":
            return min(numbers, default=0)
        case "MAX":
            return max(numbers, default=0)
    raise AssertionError(function)
