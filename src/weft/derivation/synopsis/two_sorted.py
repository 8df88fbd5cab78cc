"""Translate unions of two-sorted conjunctive queries to µTL (Toman 2007, section 4.2).

    ∃t1 … tk, ȳ. P1(x̄1) AT t1 ∧ … ∧ φ ∧ ψ  =  ⋁ over the weak orders of ψ:  ◇1(G1 ∧ ▽◇1(G2 ∧ …))

Here φ is the condition on values, and ψ is the condition on time points.  A weak order divides the time points into
groups with equal numbers.  G1, G2 … are the conjunctions of the atoms in each group, beginning with the latest group.
Two time points with different numbers may have the same time.

Suppose a group Q must lie at most the time b before another group.  Then Q has either an earlier time, or the same time
and a smaller number: ◇1[1us,b] Q ∨ ▽[0,0] ◇1[0,0] Q.  If the query mentions NOW, the latest group contains NOW, and the
nest starts with this group, without a ◇1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from typing import Final, TypeVar
from typing import Literal as OneOf

from weft.algebra import formula as algebra
from weft.derivation.synopsis.conjunctive import MOST_TABLES
from weft.derivation.synopsis.distances import LATER, MICROSECOND, Distance, Distances, Order, allowed_orders, nested
from weft.errors import SynopsisError

_MOST_QUERIES: Final = 16
_Leaf = TypeVar("_Leaf", bound="algebra.Atom | algebra.Comparison | algebra.Matches")
_AGO: Final = Distance(0, None)
_OPPOSITE: Final[Mapping[str, OneOf["=", "<>", "<", "<="]]] = {"=": "<>", "<>": "=", "<": "<=", "<=": "<"}


@dataclass(frozen=True)
class _Query:
    """A conjunctive query, where the last term of each atom is its time point."""

    times: tuple[algebra.Variable, ...] = ()
    atoms: tuple[algebra.Atom, ...] = ()
    tests: tuple[algebra.Comparison | algebra.Matches, ...] = ()

    def joined(self, other: _Query) -> _Query:
        return _Query(self.times + other.times, self.atoms + other.atoms, self.tests + other.tests)


def nest(formula: algebra.Formula, *, counts: bool) -> algebra.Formula:
    """Return a formula of µTL that is equivalent to a two-sorted formula.

    If ``counts`` is false, duplicates do not matter, and NOT of a comparison becomes the opposite comparison.  Raise
    SynopsisError with the reason if the formula is not a union of conjunctive queries.
    """
    if isinstance(formula, algebra.Distinct):
        return algebra.Distinct(nest(formula.formula, counts=counts))
    wanted = tuple(each for each in algebra.free_variables(formula) if each != algebra.NOW)
    names = _Names({each.name for each in wanted})
    queries = _Taking(names, counts).queries(formula, {})
    formulas = [each for query in queries for each in _Nest(query, set(wanted)).formulas()]
    if not formulas:
        raise _refused("no order of its time points satisfies its conditions, so the formula is never true")
    return reduce(algebra.Or, formulas)


def _refused(why: str) -> SynopsisError:
    return SynopsisError(f"Weft does not construct a synopsis of this formula: {why}")


@dataclass
class _Names:
    taken: set[str]

    def fresh(self, variable: algebra.Variable) -> algebra.Variable:
        names = (variable.name if not number else f"{variable.name}_{number}" for number in count())
        name = next(name for name in names if name not in self.taken)
        self.taken.add(name)
        return algebra.Variable(name, variable.type)


@dataclass(frozen=True)
class _Taking:
    names: _Names
    counts: bool

    def queries(self, formula: algebra.Formula, known: Mapping[algebra.Variable, algebra.Variable]) -> list[_Query]:
        """Return queries whose union is the formula.  ``known`` maps bound variables to their new names."""
        match formula:
            case algebra.Truth(value=true):
                return [_Query()] if true else []
            case algebra.Atom():
                return [_Query(atoms=(_renamed(formula, known),))]
            case algebra.Comparison() | algebra.Matches():
                return [_Query(tests=(_renamed(formula, known),))]
            case algebra.Not(formula=algebra.Comparison() as test) if not self.counts and test.operator != "substring":
                return self.queries(_opposite(test), known)
            case algebra.And(left=left, right=right):
                sides = self.queries(left, known), self.queries(right, known)
                return self._few([one.joined(other) for one in sides[0] for other in sides[1]])
            case algebra.Or(left=left, right=right):
                return self._few([*self.queries(left, known), *self.queries(right, known)])
            case algebra.Exists(variables=variables, formula=inner):
                given = {each: self.names.fresh(each) for each in variables}
                times = tuple(each for each in given.values() if each.type == algebra.TIME)
                return [_Query(times).joined(each) for each in self.queries(inner, {**known, **given})]
            case algebra.Distinct(formula=inner) if not self.counts:
                return self.queries(inner, known)
            case _:
                raise _refused(
                    f"{_WHAT.get(type(formula), type(formula).__name__)} is not allowed in a conjunctive query"
                )

    def _few(self, queries: list[_Query]) -> list[_Query]:
        if len(queries) > _MOST_QUERIES:
            raise _refused(f"the formula is a union of more than {_MOST_QUERIES} conjunctive queries")
        return queries


_WHAT: Final[Mapping[type, str]] = {
    algebra.Not: "NOT",
    algebra.Distinct: "DISTINCT within the formula",
    algebra.Aggregate: "an aggregation",
}


def _opposite(test: algebra.Comparison) -> algebra.Comparison:
    turned = test.operator in ("<", "<=")
    sides = (test.right, test.left) if turned else (test.left, test.right)
    return algebra.Comparison(_OPPOSITE[test.operator], *sides)


def _renamed(leaf: _Leaf, known: Mapping[algebra.Variable, algebra.Variable]) -> _Leaf:
    renamed = algebra.with_terms(leaf, lambda term: algebra.with_variables(term, lambda each: known.get(each, each)))
    assert isinstance(renamed, type(leaf))
    return renamed


class _Nest:
    def __init__(self, query: _Query, wanted: set[algebra.Variable]) -> None:
        self.query, self.wanted = query, wanted
        self.tests = [test for test in query.tests if not _of_times(test)]
        timed = [test for test in query.tests if isinstance(test, algebra.Comparison) and _of_times(test)]
        now = any(algebra.NOW in algebra.free_variables(atom) for atom in query.atoms) or any(
            algebra.NOW in algebra.free_variables(test) for test in timed
        )
        self.names = [each.name for each in (*query.times, *([algebra.NOW] if now else []))]
        self.sequence, self.lengths = Distances(), Distances()
        for name in self.names:
            if algebra.NOW.name in self.names and name != algebra.NOW.name:
                self.sequence.demand(algebra.NOW.name, name, _AGO)
        for test in timed:
            self._demand(test)

    def formulas(self) -> list[algebra.Formula]:
        if len(self.names) > MOST_TABLES:
            raise _refused(
                f"the formula uses {len(self.names)} time points together, but at most {MOST_TABLES} are allowed"
            )
        orders = allowed_orders(self.names, self.sequence)
        return [self._of_order(each) for each in orders if self.lengths.allow(each, 0)]

    def _demand(self, test: algebra.Comparison) -> None:
        apart = algebra.distance(test.left) or algebra.distance(test.right)
        if apart is not None:
            self._demand_length(test, *apart)
            return
        assert isinstance(test.left, algebra.Variable)
        assert isinstance(test.right, algebra.Variable)
        earlier, later = test.left.name, test.right.name
        match test.operator:
            case "<":
                self.sequence.demand(later, earlier, LATER)
            case "<=":
                self.sequence.demand(later, earlier, _AGO)
            case "=":
                self.sequence.demand(later, earlier, Distance(0, 0))
            case _:
                self.sequence.apart.add(frozenset((later, earlier)))

    def _demand_length(self, test: algebra.Comparison, later: algebra.Variable, earlier: algebra.Variable) -> None:
        constant = test.right if isinstance(test.right, algebra.Constant) else test.left
        assert isinstance(constant, algebra.Constant)
        length, strict = int(constant.value), int(test.operator == "<")
        match test.operator:
            case "<" | "<=" if constant is test.right:
                bound = Distance(None, length - strict)
            case "<" | "<=":
                bound = Distance(length + strict, None)
            case "=":
                bound = Distance(length, length)
            case _:
                raise _refused("the formula compares the time between two time points with <>")
        self.lengths.demand(later.name, earlier.name, bound)

    def _ago(self, later: Sequence[str], earlier: Sequence[str]) -> Distance:
        return self.lengths.of_groups(later, earlier, _AGO)

    def _of_order(self, order: Order) -> algebra.Formula:
        def before(number: int, below: algebra.Formula) -> algebra.Formula:
            return self._before(order, number, below)

        nesting = nested(order, self._group, self.tests, self.wanted, before) if order else algebra.Truth(True)
        if not order:
            return reduce(algebra.And, self.tests, nesting)
        return nesting if algebra.NOW.name in order[0] else algebra.Once(algebra.ALWAYS, nesting, "first")

    def _group(self, names: tuple[str, ...]) -> algebra.Formula:
        atoms = list(self._atoms(names))
        return reduce(algebra.And, atoms) if atoms else algebra.Truth(True)

    def _atoms(self, names: tuple[str, ...]) -> Iterator[algebra.Formula]:
        for atom in self.query.atoms:
            *terms, point = atom.terms
            if isinstance(point, algebra.Variable) and point.name in names:
                yield algebra.Atom(atom.predicate, tuple(terms))

    def _before(self, order: Order, number: int, below: algebra.Formula) -> algebra.Formula:
        for place in range(number + 2, len(order)):
            if not self.lengths.implied(order, number, place, _AGO):
                raise _refused(
                    f"the formula limits the time between {', '.join(order[number])} and {', '.join(order[place])}, "
                    "but another time point may lie between the two"
                )
        ago = self._ago(order[number], order[number + 1])
        assert ago.low is not None
        if ago == _AGO:
            return algebra.Previous(algebra.ALWAYS, algebra.Once(algebra.ALWAYS, below, "first"))
        if ago.low >= MICROSECOND:
            return algebra.Once(algebra.Interval(ago.low, ago.high), below, "first")
        here = algebra.Previous(algebra.Interval(0, 0), algebra.Once(algebra.Interval(0, 0), below, "first"))
        if ago.high == 0:
            return here
        return algebra.Or(algebra.Once(algebra.Interval(MICROSECOND, ago.high), below, "first"), here)


def _of_times(test: algebra.Comparison | algebra.Matches) -> bool:
    return any(each.type == algebra.TIME for each in algebra.free_variables(test))
