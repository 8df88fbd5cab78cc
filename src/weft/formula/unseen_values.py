"""Split a formula by a variable into a formula for seen values and a formula for unseen values.

A value is *seen* if an event at this or an earlier time point contains the value.  One symbolic value represents all
unseen values, because all unseen values behave in the same way.  No event has an unseen value, and no comparison is
true for an unseen value.  Before its first event, a value behaves like an unseen value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.algebra import formula as algebra
from weft.algebra.formula import ALWAYS, And, Exists, Formula, Not, Once, Or, Previous, Since, Truth, Variable
from weft.algebra.formula import free_variables as free


class Occurrences:
    """The event atoms that contain each variable."""

    def __init__(self, atoms: Iterable[algebra.Atom]) -> None:
        self._atoms: dict[Variable, list[algebra.Atom]] = {}
        for atom in atoms:
            for variable in free(atom):
                occurrences = self._atoms.setdefault(variable, [])
                if atom not in occurrences:
                    occurrences.append(atom)

    def now(self, variable: Variable) -> Formula:
        """Return a formula that is true if an event at this time point has the variable's value."""
        disjunction: Formula | None = None
        for atom in self._atoms.get(variable, ()):
            others = tuple(each for each in free(atom) if each != variable)
            given = Exists(others, atom) if others else atom
            disjunction = given if disjunction is None else Or(disjunction, given)
        if disjunction is None:
            nothing = And(Truth(True), algebra.Comparison("=", variable, variable))
            return And(nothing, Not(nothing))
        return disjunction

    def seen(self, variable: Variable) -> Formula:
        """Return a formula that is true if an event at this or an earlier time point has the variable's value."""
        return Once(ALWAYS, self.now(variable)) if variable in self._atoms else Truth(False)

    def first(self, variable: Variable) -> Formula:
        """Return a formula that is true at the first event with the variable's value."""
        return And(self.now(variable), Not(Previous(ALWAYS, self.seen(variable))))


@dataclass(frozen=True)
class SeenUnseen:
    """A formula for seen values of a variable (``seen``), and a formula for an unseen value (``fresh``)."""

    seen: Formula
    fresh: Formula


def split(formula: Formula, variable: Variable, occurrences: Occurrences) -> SeenUnseen | None:
    """Split a formula by the variable.  Return None if an interval or a rule depends on a value's past."""
    if variable not in free(formula):
        return SeenUnseen(formula, formula)
    match formula:
        case algebra.Atom() | algebra.Comparison():
            return SeenUnseen(formula, Truth(False))
        case Not() | And() | Or() | Exists():
            halves = [split(part, variable, occurrences) for part in algebra.parts(formula)]
            known = [each for each in halves if each is not None]
            if len(known) < len(halves):
                return None
            seen = algebra.with_parts(formula, tuple(each.seen for each in known))
            return SeenUnseen(seen, algebra.with_parts(formula, tuple(each.fresh for each in known)))
        case Previous() | Once() | Since():
            return _temporal(formula, variable, occurrences) if formula.interval.everything else None
        case _:
            return None


def _temporal(formula: Previous | Once | Since, variable: Variable, occurrences: Occurrences) -> SeenUnseen | None:
    """Before the first event with a value, the value has the past of an unseen value."""
    halves = [split(part, variable, occurrences) for part in algebra.parts(formula)]
    known = [each for each in halves if each is not None]
    if len(known) < len(halves):
        return None
    there, first = occurrences.seen(variable), occurrences.first(variable)
    fresh = algebra.with_parts(formula, tuple(each.fresh for each in known))
    before = Previous(ALWAYS, fresh)
    match formula:
        case Previous():
            earlier = known[0].fresh
            seen: Formula = Or(Previous(ALWAYS, And(there, known[0].seen)), And(first, Previous(ALWAYS, earlier)))
        case Once():
            seen = Or(Once(ALWAYS, And(there, known[0].seen)), Once(ALWAYS, And(first, before)))
        case Since():
            left, right = known[0].seen, known[1].seen
            seen = Since(ALWAYS, left, Or(And(there, right), And(And(first, left), before)))
    return SeenUnseen(seen, fresh)
