"""Random formulas of past temporal logic, well typed and safe by construction.

Each formula is drawn for given free variables and binds all of them, so it needs no other conjunct to be safe.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Counting,
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
    rewritten,
    subformulas,
)
from weft.algebra.schema import DataType

INTEGER, TEXT, NUMBER = DataType("BIGINT"), DataType("STRING"), DataType("DOUBLE")
PREDICATES: dict[str, tuple[DataType, ...]] = {
    "e": (),
    "p": (INTEGER,),
    "q": (INTEGER, INTEGER),
    "r": (INTEGER, TEXT),
    "d": (INTEGER, NUMBER),
}
VALUES: dict[DataType, tuple[int | float | str, ...]] = {
    INTEGER: (0, 1, 2),
    TEXT: ("a", "b", "ab"),
    NUMBER: (0.5, 1.0, -1.5),
}
Variables = tuple[Variable, ...]
Case = Callable[[Variables, int], "Formula | None"]


@dataclass
class Drawing:
    """One formula under way; every bound variable and every definition gets a name of its own."""

    chance: random.Random
    semantics: str
    linear: bool = False
    """Whether counts of fixpoints may double."""
    aggregates: bool = True
    fixpoints: bool = True
    made: int = 0
    pool: list[Formula] = field(default_factory=list)

    def number(self) -> int:
        self.made += 1
        return self.made

    def variable(self, type: DataType | None = None) -> Variable:
        chosen = type or self.chance.choices((INTEGER, TEXT, NUMBER), (6, 2, 2))[0]
        return Variable(f"{'i' if chosen == INTEGER else 's' if chosen == TEXT else 'f'}{self.number()}", chosen)

    def formula(self, wanted: Variables, depth: int) -> Formula:
        """A formula with these free variables and no other."""
        again = [each for each in self.pool if _types(free_variables(each)) == _types(wanted)]
        if again and self.chance.random() < 0.12:
            chosen = self.chance.choice(again)
            return _renamed(chosen, dict(zip(free_variables(chosen), wanted, strict=True)))
        found = None
        while found is None:
            case = self.chance.choices(*zip(*self.cases(wanted, depth), strict=True))[0]
            found = case(wanted, depth - 1)
        assert set(free_variables(found)) == set(wanted), (found, wanted)
        if not any(isinstance(part, Fixpoint | Defined) for part in subformulas(found)):
            self.pool.append(found)
        return found

    def cases(self, wanted: Variables, depth: int) -> list[tuple[Case, int]]:
        if depth <= 0:
            return [(self.atom, 9), (self.constant, 1)]
        return [
            (self.atom, 1), (self.conjunction, 5), (self.tested, 3), (self.bound, 2), (self.difference, 4),
            (self.disjunction, 4), (self.projection, 3), (self.previous, 4), (self.once, 5), (self.since, 7),
            (self.distinct, 1 if self.semantics == "set" else 4), (self.aggregate, 3 * self.aggregates),
            (self.closed, 2), (self.fixpoint, 2 * self.fixpoints), (self.searched, 1),
        ]  # fmt: skip

    def atom(self, wanted: Variables, depth: int) -> Formula:
        """One atom where a predicate has a place for each variable, else several."""
        for name in self.chance.sample(list(PREDICATES), len(PREDICATES)):
            columns = list(PREDICATES[name])
            if name == "e" and self.chance.random() < 0.5:
                continue
            if all(columns.count(each) >= _types(wanted).count(each) for each in set(_types(wanted))):
                return self.placed(name, wanted)
        first = self.chance.randrange(len(wanted))
        rest = wanted[:first] + wanted[first + 1 :]
        if not rest:
            return self.atom(wanted, depth)
        return And(self.atom((wanted[first],), depth), self.atom(rest, depth))

    def placed(self, name: str, wanted: Variables) -> Formula:
        free = list(range(len(PREDICATES[name])))
        terms: dict[int, Term] = {}
        for variable in self.chance.sample(wanted, len(wanted)):
            place = self.chance.choice([each for each in free if PREDICATES[name][each] == variable.type])
            terms[place] = variable
            free.remove(place)
        bound = []
        for place in free:
            type = PREDICATES[name][place]
            same = [each for each in wanted if each.type == type]
            roll = self.chance.random()
            if same and roll < 0.2:
                terms[place] = self.chance.choice(same)
            elif same and type == INTEGER and roll < 0.35:
                terms[place] = Computed("+", (self.chance.choice(same), Constant(1, INTEGER)), INTEGER)
            elif roll < 0.6:
                terms[place] = self.value(type)
            else:
                terms[place] = variable = self.variable(type)
                bound.append(variable)
        atom = Atom(name, tuple(terms[place] for place in sorted(terms)))
        return Exists(tuple(bound), atom) if bound else atom

    def value(self, type: DataType) -> Constant:
        return Constant(self.chance.choice(VALUES[type]), type)

    def constant(self, wanted: Variables, depth: int) -> Formula | None:
        if not wanted:
            return Truth(True) if self.chance.random() < 0.9 else Truth(False)
        if len(wanted) > 1:
            return None
        return And(Truth(True), Comparison("=", wanted[0], self.value(wanted[0].type)))

    def part(self, wanted: Variables, least: int = 0) -> Variables:
        return tuple(self.chance.sample(wanted, self.chance.randint(min(least, len(wanted)), len(wanted))))

    def conjunction(self, wanted: Variables, depth: int) -> Formula:
        left = self.part(wanted)
        right = tuple(each for each in wanted if each not in left or self.chance.random() < 0.5)
        return And(self.formula(left, depth), self.formula(right, depth))

    def tested(self, wanted: Variables, depth: int) -> Formula | None:
        """Q ∧ a comparison of what Q gives values to, or its negation."""
        if not wanted:
            return None
        test: Formula = self.comparison(wanted)
        if self.semantics == "set" and self.chance.random() < 0.3:
            test = Not(test)
        return And(self.formula(wanted, depth), test)

    def comparison(self, wanted: Variables) -> Comparison:
        left = self.chance.choice(wanted)
        same = [each for each in wanted if each.type == left.type]
        right: Term = self.chance.choice([*same, self.value(left.type)])
        if left.type == TEXT:
            return Comparison(self.chance.choice(["=", "<>", "substring"]), left, right)
        if left.type == INTEGER and self.chance.random() < 0.4:
            right = self.computed(same)
        operator = self.chance.choice(["=", "<>", "<", "<="])
        return Comparison(operator, *((left, right) if self.chance.random() < 0.5 else (right, left)))

    def computed(self, over: Sequence[Variable]) -> Term:
        """An integer from integers."""
        operation = self.chance.choice(["+", "-", "*", "/", "MOD", "negate"])
        one: Term = self.chance.choice(over)
        if operation == "negate":
            return Computed("negate", (one,), INTEGER)
        other: Term = self.chance.choice([*over, Constant(2, INTEGER)])
        if operation in ("/", "MOD"):
            other = Constant(self.chance.choice([2, 3, -2]), INTEGER)
        return Computed(operation, (one, other), INTEGER)

    def bound(self, wanted: Variables, depth: int) -> Formula | None:
        """Q ∧ x = t, which gives x its value."""
        if not wanted:
            return None
        given = self.chance.choice(wanted)
        rest = tuple(each for each in wanted if each != given)
        same = [each for each in rest if each.type == given.type]
        term: Term = self.chance.choice([*same, self.value(given.type)])
        integers = [each for each in rest if each.type == INTEGER]
        if given.type == INTEGER and integers and self.chance.random() < 0.5:
            term = self.computed(integers)
        elif given.type == NUMBER and integers and self.chance.random() < 0.5:
            term = Computed("i2f", (self.chance.choice(integers),), NUMBER)
        sides = (given, term) if self.chance.random() < 0.5 else (term, given)
        return And(self.formula(rest, depth), Comparison("=", *sides))

    def searched(self, wanted: Variables, depth: int) -> Formula | None:
        texts = [each for each in wanted if each.type == TEXT]
        if not texts:
            return None
        return And(
            self.formula(wanted, depth), Matches(self.chance.choice(texts), self.chance.choice(["^a", "b", "."]))
        )

    def difference(self, wanted: Variables, depth: int) -> Formula:
        return And(self.formula(wanted, depth), Not(self.formula(self.part(wanted), depth)))

    def disjunction(self, wanted: Variables, depth: int) -> Formula:
        return Or(self.formula(wanted, depth), self.formula(wanted, depth))

    def projection(self, wanted: Variables, depth: int) -> Formula:
        more = tuple(self.variable() for _ in range(self.chance.choice([1, 1, 2])))
        return Exists(more, self.formula(self.shuffled((*wanted, *more)), depth))

    def shuffled(self, wanted: Variables) -> Variables:
        return tuple(self.chance.sample(wanted, len(wanted)))

    def distinct(self, wanted: Variables, depth: int) -> Formula:
        return Distinct(self.formula(wanted, depth))

    def closed(self, wanted: Variables, depth: int) -> Formula:
        """A formula without free variables, beside another one, or alone if no free variable is wanted."""
        inner = self.formula((), depth)
        one = Not(inner) if self.chance.random() < 0.6 else inner
        return And(self.formula(wanted, depth), one) if wanted else one

    def interval(self) -> Interval:
        low, high = self.chance.choice([0, 1, 2, 4]), self.chance.choice([0, 1, 2, 3, 6])
        return self.chance.choice([Interval(), Interval(0, high), Interval(low, None), Interval(low, low + high)])

    def previous(self, wanted: Variables, depth: int) -> Formula:
        interval = Interval() if self.chance.random() < 0.5 else self.interval()
        return Previous(interval, self.formula(wanted, depth))

    def counting(self) -> Counting:
        return "any" if self.semantics == "set" else self.chance.choice(["first", "second"])

    def once(self, wanted: Variables, depth: int) -> Formula:
        counting = self.counting()
        interval = Interval() if counting == "second" else self.interval()
        return Once(interval, self.formula(wanted, depth), counting)

    def since(self, wanted: Variables, depth: int) -> Formula:
        counting = self.counting()
        interval = Interval() if counting == "second" else self.interval()
        left = self.formula(self.part(wanted), depth)
        held = Not(left) if self.chance.random() < 0.4 else left
        strict = counting == "any" and interval in (Interval(0, 1), Interval(0, 6))
        return Since(interval, held, self.formula(wanted, depth), counting, strict)

    def aggregate(self, wanted: Variables, depth: int) -> Formula | None:
        outputs = [each for each in wanted if each.type in (INTEGER, NUMBER)]
        if not outputs:
            return None
        output = self.chance.choice(outputs)
        groups = tuple(each for each in wanted if each != output)
        item = self.variable(output.type)
        more = (item,) if self.chance.random() < 0.5 else (item, self.variable())
        inner = self.formula(self.shuffled((*groups, *more)), depth)
        if output.type == NUMBER:
            return Aggregate(output, self.chance.choice(["SUM", "AVG", "MIN", "MAX", "MED"]), item, groups, inner)
        function = self.chance.choice(["CNT", "SUM", "MIN", "MAX"])
        term: Term = Computed("*", (item, Constant(2, INTEGER)), INTEGER) if self.chance.random() < 0.2 else item
        return Aggregate(output, function, term, groups, inner)

    def fixpoint(self, wanted: Variables, depth: int) -> Formula:
        return FixpointDrawing(self, wanted, depth).drawn()


@dataclass
class FixpointDrawing:
    """A fixpoint for these variables: one of the shapes that connectives have, or of those that none has."""

    by: Drawing
    wanted: Variables
    depth: int

    def __post_init__(self) -> None:
        self.name = f"x{self.by.number()}"
        self.parameters = tuple(self.by.variable(each.type) for each in self.wanted)

    def base(self) -> Formula:
        return self.by.formula(self.parameters, self.depth)

    def guard(self) -> Formula:
        return self.by.formula(self.by.part(self.parameters), min(self.depth, 1))

    def before(self, name: str = "") -> Formula:
        interval = Interval() if self.by.chance.random() < 0.8 else self.by.interval()
        return Previous(interval, Defined(name or self.name, self.parameters))

    def drawn(self) -> Formula:
        shapes = [self.summed, self.since1, self.since2, self.guarded, self.joined, self.together, self.within_another]
        shapes += [self.under_operators, self.taken_away]
        if self.by.linear:
            shapes += [self.doubled] * 3
        definitions = self.by.chance.choice(shapes)()
        return Fixpoint(definitions, self.name, self.wanted)

    def alone(self, body: Formula) -> tuple[Definition, ...]:
        return (Definition(self.name, self.parameters, body),)

    def either(self, one: Formula, other: Formula) -> Formula:
        return Or(one, other) if self.by.chance.random() < 0.5 else Or(other, one)

    def summed(self) -> tuple[Definition, ...]:
        return self.alone(self.either(self.base(), self.before()))

    def since1(self) -> tuple[Definition, ...]:
        return self.alone(And(Distinct(self.guard()), self.either(self.base(), self.before())))

    def since2(self) -> tuple[Definition, ...]:
        q1, q2, x = self.guard(), self.base(), Previous(Interval(), Defined(self.name, self.parameters))
        last, again = And(q1, Distinct(q2)), And(q1, And(Distinct(x), Not(q2)))
        still = And(x, And(Distinct(q1), Not(q2))) if set(free_variables(q1)) == set(self.parameters) else x
        return self.alone(Or(Or(last, again), And(still, Not(q2))))

    def guarded(self) -> tuple[Definition, ...]:
        held = And(Distinct(self.guard()), self.before())
        return self.alone(self.either(self.base(), held))

    def joined(self) -> tuple[Definition, ...]:
        """Reachability: the values that were reached before, and those that follow from them now."""
        if not self.parameters:
            return self.guarded()
        place = self.by.chance.randrange(len(self.parameters))
        through = self.by.variable(self.parameters[place].type)
        arguments = tuple(through if k == place else each for k, each in enumerate(self.parameters))
        step = self.by.formula((through, self.parameters[place]), min(self.depth, 1))
        on = Exists((through,), And(Previous(Interval(), Defined(self.name, arguments)), step))
        return self.alone(self.either(self.base(), Distinct(on) if not self.by.linear else on))

    def together(self) -> tuple[Definition, ...]:
        """Two relations, each defined by the other."""
        other = f"x{self.by.number()}"
        first = Definition(self.name, self.parameters, self.either(self.base(), self.before(other)))
        second = And(Distinct(self.guard()), Previous(Interval(), Defined(self.name, self.parameters)))
        return first, Definition(other, self.parameters, second)

    def within_another(self) -> tuple[Definition, ...]:
        """A fixpoint in the body of another, to which it refers."""
        inner = f"x{self.by.number()}"
        body = Or(self.before(), Previous(Interval(), Defined(inner, self.parameters)))
        within = Fixpoint((Definition(inner, self.parameters, Distinct(body)),), inner, self.parameters)
        return self.alone(self.either(self.base(), Distinct(within)))

    def under_operators(self) -> tuple[Definition, ...]:
        """Another operator refers to its earlier value."""
        counting = self.by.counting()
        defined = Defined(self.name, self.parameters)
        if self.by.chance.random() < 0.5:
            inner: Formula = Once(Interval() if counting == "second" else self.by.interval(), defined, counting)
        else:
            inner = Since(Interval(), self.guard(), defined, counting)
        return self.alone(self.either(self.base(), Previous(Interval(), Distinct(inner))))

    def taken_away(self) -> tuple[Definition, ...]:
        """What held just before does not hold now, under two negations."""
        inside = And(self.base(), Not(self.before()))
        return self.alone(And(self.base(), Not(inside)))

    def doubled(self) -> tuple[Definition, ...]:
        """2 · X (section 3.2)."""
        twice = self.either(self.before(), self.before())
        return self.alone(self.either(Distinct(self.base()), twice))


def _types(variables: Sequence[Variable]) -> list[DataType]:
    return [each.type for each in variables]


def _renamed(formula: Formula, names: dict[Variable, Variable]) -> Formula:
    """Other free variables; no bound one has a name of theirs."""

    def term(given: Term) -> Term:
        match given:
            case Variable():
                return names.get(given, given)
            case Computed(arguments=arguments):
                return replace(given, arguments=tuple(map(term, arguments)))
        return given

    def rule(part: Formula) -> Formula:
        match part:
            case Atom(terms=terms):
                return replace(part, terms=tuple(map(term, terms)))
            case Comparison(left=left, right=right):
                return replace(part, left=term(left), right=term(right))
            case Matches(text=text, groups=groups):
                return replace(part, text=term(text), groups=tuple(map(term, groups)))
            case Aggregate(output=output, item=item, groups=groups):
                by = tuple(names.get(each, each) for each in groups)
                return replace(part, output=names.get(output, output), item=term(item), groups=by)
        return part

    return rewritten(formula, rule)


def drawn(chance: random.Random, semantics: str, **how: bool) -> Formula:
    """A formula with up to three free variables."""
    drawing = Drawing(chance, semantics, **how)
    wanted = tuple(drawing.variable() for _ in range(chance.choice([0, 1, 1, 2, 2, 3])))
    return drawing.formula(wanted, chance.choice([2, 2, 3, 3, 4]))


def folded(formula: Formula) -> str:
    """Return a formula without its constants, bounds of intervals and names."""
    names: dict[str, str] = {}
    text = re.sub(r"Constant\(value=[^,]*", "Constant(", repr(formula))
    text = re.sub(r"low=[1-9]\d*", "low=1", re.sub(r"high=\d+", "high=1", text))
    return re.sub(r"'([isfx]\d+)'", lambda found: names.setdefault(found[1], str(len(names))), text)


def operators(formula: Formula) -> Iterator[str]:
    """The operators of a formula, with the properties that select their rules."""
    for part in subformulas(formula):
        name = type(part).__name__
        match part:
            case Previous(interval=interval):
                yield f"{name} {_shape(interval)}"
            case Once(interval=interval, counting=counting):
                yield f"{name} {counting} {_shape(interval)}"
            case Since(interval=interval, counting=counting, left=left):
                yield f"{name} {counting} {_shape(interval)}{' not' if isinstance(left, Not) else ''}"
                if part.strict:
                    yield f"{name} strict"
            case Aggregate(function=function, groups=groups):
                yield f"{name} {function}{' by' if groups else ''}"
            case Comparison(operator=operator):
                yield f"{name} {operator}"
            case And(right=Not()):
                yield "AndNot"
            case _:
                yield name


def _shape(interval: Interval) -> str:
    return f"[{'a' if interval.low else '0'},{'*' if interval.high is None else 'b'}]"


@dataclass(frozen=True)
class Tables:
    """How many rows of a predicate a state has, at most, and how often a row comes twice."""

    rows: int = 3
    twice: float = 0.3


def rows(chance: random.Random, predicate: str, how: Tables) -> list[tuple[int | float | str, ...]]:
    found: list[tuple[int | float | str, ...]] = []
    for _ in range(chance.randint(0, how.rows) if chance.random() < 0.7 else 0):
        row = tuple(chance.choice(VALUES[type]) for type in PREDICATES[predicate])
        found += [row] * (chance.choice([2, 3]) if chance.random() < how.twice else 1)
    return found


def used(formula: Formula) -> Counter[str]:
    """The predicates of a formula."""
    return Counter(part.predicate for part in subformulas(formula) if isinstance(part, Atom))
