"""Write Γ and Δ of a synopsis as formulas over a state and the stored relations (Toman 2007, definition 4.3).

``R`` is a stored relation after the previous state, and ``R_now`` is the same relation after the current state.  ▽ψ
becomes an atom that reads ``R``.  Γ unfolds the fixpoints ◇ and ``since`` once, and then reads ``R_now``.  The interval
of ◇ or ``since`` decides which stored instants are visible, and which are discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra.formula import (
    And,
    Atom,
    Distinct,
    Fixpoint,
    Formula,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
    Variable,
    free_variables,
    parts,
    with_parts,
)
from weft.algebra.renaming import substituted
from weft.derivation.synopsis.construct import Stored, Synopsis, read_from, stored_of, temporal
from weft.derivation.synopsis.fixpoints import closed
from weft.derivation.synopsis.prepared import Semantics

NOW = "_now"


@dataclass(frozen=True)
class DeltaRule:
    """A rule of Δ.  The new stored relation has those answers of ``formula`` with an instant in ``interval``."""

    relation: Atom
    formula: Formula
    interval: Interval


@dataclass(frozen=True)
class Triple:
    """The rules Γ and Δ of a synopsis.  In the initial state ∅, every stored relation is empty.

    ``gamma`` has the formulas of the answers.  ``delta`` has one rule per stored relation, in the order of the
    synopsis.
    """

    gamma: tuple[Formula, ...]
    delta: tuple[DeltaRule, ...]


def triple(synopsis: Synopsis, names: Mapping[Stored, str]) -> Triple:
    """Return the triple of a synopsis.  ``names`` maps the stored relations to their names."""
    unfolding = _Unfolding(names, synopsis.semantics)
    delta = tuple(unfolding.change(stored) for stored in synopsis.stored)
    return Triple(tuple(unfolding.read(formula) for formula in synopsis.formulas), delta)


@dataclass(frozen=True)
class _Unfolding:
    names: Mapping[Stored, str]
    semantics: Semantics

    def read(self, formula: Formula) -> Formula:
        if temporal(formula):
            name = self.names[stored_of(read_from(formula) or formula, self.semantics)]
            if isinstance(formula, Since) and formula.strict:
                return And(Atom(name, free_variables(formula)), self.read(formula.left))
            return Atom(name if isinstance(formula, Previous) else name + NOW, free_variables(formula))
        if isinstance(formula, Fixpoint):
            unfolded = _unfolded(formula)
            return formula if unfolded is None else self.read(unfolded)
        return with_parts(formula, tuple(self.read(part) for part in parts(formula)))

    def change(self, stored: Stored) -> DeltaRule:
        formula, before = stored.formula, Atom(self.names[stored], stored.variables)
        after = Atom(before.predicate + NOW, stored.variables)
        match formula:
            case Previous(interval=interval, formula=inner):
                return DeltaRule(after, self.read(inner), interval)
            case Once(interval=interval, formula=inner, counting=counting):
                return DeltaRule(after, self._since(Truth(True), self.read(inner), before, counting), interval)
            case Since(interval=interval, left=left, right=right, counting=counting):
                return DeltaRule(after, self._since(self.read(left), self.read(right), before, counting), interval)

    def _since(self, left: Formula, right: Formula, before: Formula, counting: str) -> Formula:
        """Return the formula of section 4.1, with the previous stored relation ``before`` in place of ▽X."""
        if counting == "second":
            again, still = And(Distinct(before), Not(right)), And(Distinct(left), Not(right))
            return Or(Or(And(left, Distinct(right)), And(left, again)), And(before, still))
        if left == Truth(True):
            return Or(right, before)
        if counting == "first":
            return And(Or(right, before), left if isinstance(left, Not) else Distinct(left))
        return Or(right, And(before, left))


def _unfolded(formula: Fixpoint) -> Formula | None:
    """Return Q(µX.Q) for a fixpoint µX.Q, or None if its arguments are not distinct variables."""
    definition = next(each for each in formula.definitions if each.name == formula.name)
    arguments = [each for each in formula.arguments if isinstance(each, Variable)]
    if len(set(arguments)) < len(formula.arguments):
        return None
    body = closed(definition.body, {each.name: formula for each in formula.definitions})
    return substituted(body, dict(zip(definition.parameters, arguments, strict=True)))
