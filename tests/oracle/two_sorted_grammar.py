"""Random formulas with two sorts of variables.

Each formula is drawn for given free data variables. It may use all time points that are bound around it, and NOW.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from oracle.past_grammar import INTEGER, PREDICATES, TEXT, VALUES
from weft.algebra.formula import (
    NOW,
    TIME,
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
    Variable,
    distance,
    free_variables,
    subformulas,
)
from weft.algebra.schema import INTERVAL, DataType

Variables = tuple[Variable, ...]
_NAMES = ("e", "p", "q", "r")
_LENGTHS = (0, 1, 2, 4)


@dataclass
class Drawing:
    """One formula under way; every bound variable gets a name of its own."""

    chance: random.Random
    semantics: str
    made: int = 0

    def variable(self, type: DataType) -> Variable:
        self.made += 1
        return Variable(f"{'t' if type == TIME else 'i' if type == INTEGER else 's'}{self.made}", type)

    def data(self) -> Variable:
        return self.variable(self.chance.choice((INTEGER, INTEGER, INTEGER, TEXT)))

    def formula(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        """A formula with these free data variables and no other."""
        cases: list[tuple[Callable[[Variables, Variables, int], Formula], int]] = [(self.atoms, 2)]
        if depth > 0:
            cases += [
                (self.conjunction, 4), (self.difference, 4), (self.disjunction, 3), (self.ordered, 4), (self.within, 3),
                (self.tested, 1), (self.projection, 2), (self.at_some_time, 5), (self.at_all_times, 2),
                (self.distinct, 2), (self.aggregate, 4),
            ]  # fmt: skip
        draw = self.chance.choices(*zip(*cases, strict=True))[0]
        return draw(wanted, times, depth - 1)

    def point(self, times: Variables) -> Variable:
        return self.chance.choice((*times, *times, NOW)) if times else NOW

    def atoms(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        """One atom where a predicate has a place for each variable, else several."""
        for name in self.chance.sample(_NAMES, len(_NAMES)):
            columns = PREDICATES[name]
            needed = Counter(each.type for each in wanted)
            if all(columns.count(type) >= number for type, number in needed.items()):
                return self.placed(name, wanted, times)
        return And(self.atoms(wanted[:1], times, 0), self.atoms(wanted[1:], times, 0))

    def placed(self, name: str, wanted: Variables, times: Variables) -> Formula:
        terms: list[Term | None] = [None] * len(PREDICATES[name])
        for variable in wanted:
            places = [n for n, type in enumerate(PREDICATES[name]) if type == variable.type and terms[n] is None]
            terms[self.chance.choice(places)] = variable
        bound: list[Variable] = []
        filled: list[Term] = []
        for term, type in zip(terms, PREDICATES[name], strict=True):
            if term is None and self.chance.random() < 0.6:
                term = self.variable(type)
                bound.append(term)
            filled.append(term or Constant(self.chance.choice(VALUES[type]), type))
        atom = Atom(name, (*filled, self.point(times)))
        return Exists(tuple(bound), atom) if bound else atom

    def conjunction(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        left = tuple(each for each in wanted if self.chance.random() < 0.7)
        right = tuple(each for each in wanted if each not in left or self.chance.random() < 0.5)
        return And(self.formula(left, times, depth), self.formula(right, times, depth))

    def difference(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        some = tuple(each for each in wanted if self.chance.random() < 0.7)
        return And(self.formula(wanted, times, depth), Not(self.formula(some, times, depth)))

    def disjunction(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        return Or(self.formula(wanted, times, depth), self.formula(wanted, times, depth))

    def ordered(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        inner = self.formula(wanted, times, depth)
        if not times:
            return inner
        one, other = self.chance.choice(times), self.point(times)
        test = Comparison(self.chance.choice(("<", "<", "<=", "=", "<>")), one, other)
        return And(inner, Not(test) if self.chance.random() < 0.15 else test)

    def within(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        inner = self.formula(wanted, times, depth)
        if not times:
            return inner
        apart = Computed("-", (self.point(times), self.chance.choice(times)), INTERVAL)
        length = Constant(self.chance.choice(_LENGTHS), INTERVAL)
        sides = (apart, length) if self.chance.random() < 0.7 else (length, apart)
        test = Comparison(self.chance.choice(("<", "<=", "=", "<>")), *sides)
        return And(inner, Not(test) if self.chance.random() < 0.15 else test)

    def tested(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        inner = self.formula(wanted, times, depth)
        same = [each for each in wanted if each.type == INTEGER]
        if not same:
            return inner
        return And(inner, Comparison(self.chance.choice(("<", "<>", "=")), same[0], Constant(1, INTEGER)))

    def projection(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        bound = self.data()
        return Exists((bound,), self.formula((*wanted, bound), times, depth))

    def at_some_time(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        bound = tuple(self.variable(TIME) for _ in range(self.chance.choice((1, 1, 2)) if len(times) < 2 else 1))
        return Exists(bound, self.formula(wanted, (*bound, *times), depth))

    def at_all_times(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        """FORALL TIME t. F IMPLIES G, or with duplicates as it has to be written, NOT EXISTS TIME t. F AND NOT G."""
        bound = self.variable(TIME)
        inner = (bound, *times)
        first, then = self.atoms(wanted, inner, 0), self.formula(wanted, inner, depth - 1)
        broken = Not(Or(Not(first), then)) if self.semantics == "set" else And(first, Not(then))
        return And(self.formula(wanted, times, depth - 1), Not(Exists((bound,), broken)))

    def distinct(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        return Distinct(self.formula(wanted, times, depth))

    def aggregate(self, wanted: Variables, times: Variables, depth: int) -> Formula:
        outputs = [each for each in wanted if each.type == INTEGER]
        if not outputs:
            return self.formula(wanted, times, depth)
        output, item, time = outputs[0], self.variable(INTEGER), self.variable(TIME)
        groups = tuple(each for each in wanted if each != output)
        function = self.chance.choice(("CNT", "SUM", "MIN", "MAX", "CNT"))
        inner = self.atoms((item, *groups), (time,), 0)
        if self.chance.random() < 0.4:
            inner = And(inner, Comparison("<", time, NOW))
        if time not in free_variables(inner):
            return Aggregate(output, function, item, groups, inner)
        counted = time if function == "CNT" and self.chance.random() < 0.5 else item
        hidden = inner if self.chance.random() < 0.6 or counted == time else Exists((time,), inner)
        return Aggregate(output, function, counted, groups, hidden)


def drawn(chance: random.Random, semantics: str) -> tuple[Formula, Variables]:
    """A formula and its free variables; time points are bound."""
    drawing = Drawing(chance, semantics)
    wanted = tuple(drawing.data() for _ in range(chance.choice((0, 1, 1, 1, 2))))
    times = tuple(drawing.variable(TIME) for _ in range(chance.choice((0, 1, 1, 2))))
    inner = drawing.formula(wanted, times, chance.choice((2, 3, 3, 4)))
    return (Exists(times, inner) if times else inner), wanted


def drawn_conjunctive(chance: random.Random, semantics: str) -> tuple[Formula, Variables]:
    """A union of conjunctive queries and its free variables."""
    drawing = Drawing(chance, semantics)
    wanted = tuple(drawing.data() for _ in range(chance.choice((0, 1, 1, 2))))
    found = _conjunctive(drawing, wanted)
    if chance.random() < 0.3:
        found = Or(found, _conjunctive(drawing, wanted))
    return (Distinct(found) if chance.random() < 0.2 else found), wanted


def _conjunctive(drawing: Drawing, wanted: Variables) -> Formula:
    chance = drawing.chance
    times = tuple(drawing.variable(TIME) for _ in range(chance.choice((1, 2, 2, 3))))
    hidden = tuple(drawing.data() for _ in range(chance.choice((0, 0, 1))))
    found: Formula = drawing.atoms((*wanted, *hidden), times, 0)
    for _ in range(chance.choice((0, 1, 2))):
        some = tuple(each for each in (*wanted, *hidden) if chance.random() < 0.5)
        more = drawing.atoms(some, times, 0)
        found = Or(And(found, more), found) if chance.random() < 0.1 else And(found, more)
    for _ in range(chance.choice((0, 1, 1, 2))):
        case = chance.choice((drawing.ordered, drawing.ordered, drawing.within, drawing.tested))
        found = _with_test(found, case(wanted, times, 0))
    found = Exists(hidden, found) if hidden else found
    return Exists(times, found)


def _with_test(found: Formula, drawn: Formula) -> Formula:
    """The formula with the comparison of one that was drawn."""
    match drawn:
        case And(right=Comparison() as test):
            return And(found, test)
        case _:
            return found


def operators(formula: Formula) -> Iterator[str]:
    """The operators of a formula, with the properties that select their rules."""
    for part in subformulas(formula):
        name = type(part).__name__
        match part:
            case Atom(terms=(*_, point)):
                yield f"Atom{' NOW' if point == NOW else ''}"
            case Exists(variables=variables):
                yield f"Exists{' TIME' if variables[0].type == TIME else ''}"
            case Aggregate(function=function, item=item):
                yield f"Aggregate {function}{' TIME' if isinstance(item, Variable) and item.type == TIME else ''}"
            case Comparison(operator=operator, left=left, right=right):
                apart = distance(left) is not None or distance(right) is not None
                kind = " apart" if apart else " TIME" if left.type == TIME else ""
                yield f"Comparison{kind} {operator}"
            case And(right=Not(formula=Comparison())):
                yield "AndNotTest"
            case And(right=Not()):
                yield "AndNot"
            case _:
                yield name
