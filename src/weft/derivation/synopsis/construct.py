"""Construct the triple (∅, Δ, Γ) of a formula's synopsis (Toman 2007, definitions 4.1 to 4.3).

Every temporal subformula ψ has a stored relation R_ψ.  Subformulas that differ only in variable names share one stored
relation, even if they are parts of different formulas.  In the initial state ∅, all stored relations are empty.  The
answer Γ is the formula with R_ψ in place of each ▽ψ.  The step Δ computes the new stored relations from the previous
stored relations and a state of the log.  For the fixpoints ◇ and ``since``, R_ψ contains the anchors that a later time
point can still see.  If the interval requires the instants of the anchors, R_ψ contains the instants too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.algebra.formula import (
    Atom,
    Formula,
    Once,
    Previous,
    Since,
    Variable,
    free_variables,
    subformulas,
)
from weft.algebra.safe_range import EVALUATED, HINT, violation
from weft.algebra.schema import BIGINT, BOOLEAN, STRING, DataType, hashed_once
from weft.derivation.synopsis.alpha_equivalence import alpha_canonical
from weft.derivation.synopsis.fixpoints import closures, stepped
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.errors import Refused

Temporal: TypeAlias = "Previous | Once | Since"
INSTANT = "instant"
LAST = "last"
COUNT = "n"
THERE = "there"
"""The column of a stored relation without other columns.  The value in the only row is TRUE."""


@hashed_once
@dataclass(frozen=True)
class Stored:
    """The stored relation R_ψ of a canonical temporal subformula, for one semantics.

    The columns ``v1 … vk`` have the values of the formula's free variables.  The column ``instant`` has the instant of
    an anchor in microseconds.  If the relation stores runs, ``instant`` belongs to the first anchor of a run, and
    ``last`` to the last anchor.  The column ``n`` has the count.  The key consists of the values, plus ``instant`` if
    ``several`` is true.
    """

    formula: Temporal
    semantics: Semantics

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the columns ``v1 … vk``."""
        return free_variables(self.formula)

    @property
    def timed(self) -> bool:
        """Whether the relation stores the instants of anchors."""
        match self.formula:
            case Once(interval=interval) | Since(interval=interval):
                return not interval.everything
            case _:
                return False

    @property
    def several(self) -> bool:
        """Whether one row of values may be stored for several instants of the window."""
        match self.formula:
            case Once(interval=interval, counting=counting) | Since(interval=interval, counting=counting):
                if counting == "first":
                    return not interval.everything
                return interval.low > 0 and interval.high is not None
            case _:
                return False

    @property
    def runs(self) -> bool:
        """Whether the relation stores runs, that is, sequences of anchors with adjacent periods of visibility."""
        return self.several and not self.counted

    @property
    def counted(self) -> bool:
        """Whether the relation stores counts."""
        match self.formula:
            case Once(counting=counting) | Since(counting=counting):
                return counting != "any"
            case _:
                return self.semantics != "set"

    @property
    def stepped(self) -> bool:
        """Whether the relation is computed state by state.  If so, its unbounded counts are stored as hexadecimal
        digits.
        """
        return stepped(self.formula)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The names and types of the columns.  A relation without other columns has one column that is always TRUE."""
        pairs = [(f"v{number}", variable.type) for number, variable in enumerate(self.variables, 1)]
        pairs += [(INSTANT, BIGINT)] * self.timed + [(LAST, BIGINT)] * self.runs
        pairs += [(COUNT, STRING if self.stepped else BIGINT)] * self.counted
        return tuple(pairs) or ((THERE, BOOLEAN),)


@hashed_once
@dataclass(frozen=True)
class Synopsis:
    """The synopsis of one or more prepared formulas, with their common stored relations."""

    formulas: tuple[Formula, ...]
    answers: tuple[tuple[Variable, ...], ...]
    """The answer variables of each formula, in order."""
    semantics: Semantics
    stored: tuple[Stored, ...]

    @property
    def predicates(self) -> tuple[tuple[str, int], ...]:
        """The predicates that the formulas read, each with its number of columns."""
        arities = {(atom.predicate, len(atom.terms)) for each in self.formulas for atom in _atoms(each)}
        return tuple(sorted(arities))


def synopsis(formula: Formula, semantics: Semantics) -> Synopsis:
    """Return the synopsis of one formula.  Raise Refused if the formula has infinitely many answers."""
    return shared((formula,), semantics)


def shared(formulas: Sequence[Formula], semantics: Semantics) -> Synopsis:
    """Return one synopsis for several formulas.  Raise Refused if a formula has infinitely many answers."""
    for formula in formulas:
        if (refused := violation(formula, EVALUATED)) is not None:
            unbound = ", ".join(variable.name for variable in refused.unbound)
            nothing = f" (nothing binds {unbound})" if unbound else ""
            raise Refused(f"the formula has infinitely many answers: {refused.rule}{nothing}", hint=HINT)
    ready = tuple(prepared(formula, semantics) for formula in formulas)
    stored = dict.fromkeys(
        stored_of(closure, semantics)
        for each in ready
        for part, closure in closures(each)
        if temporal(part) and read_from(part) is None
    )
    return Synopsis(ready, tuple(map(free_variables, formulas)), semantics, tuple(stored))


def temporal(formula: Formula) -> bool:
    """Return whether a formula is ▽, ◇ or ``since``.  No other formula has a stored relation."""
    return isinstance(formula, (Previous, Once, Since))


def read_from(formula: Formula) -> Once | Since | None:
    """Return ◇Q for ▽◇Q, ``Q1 since Q2`` for ▽(Q1 since Q2), and None for any other formula.

    The stored relation of ◇ or ``since`` already has the answers of the previous state.  Therefore ▽ needs no stored
    relation of its own.  Return None also if ▽ has an interval, if ``since`` is strict, or if the formula contains a
    fixpoint.
    """
    if not isinstance(formula, Previous) or not formula.interval.everything or stepped(formula):
        return None
    inner = formula.formula
    return inner if isinstance(inner, Once) or (isinstance(inner, Since) and not inner.strict) else None


def stored_of(formula: Formula, semantics: Semantics) -> Stored:
    """Return the stored relation of a temporal formula."""
    renamed = alpha_canonical(formula)
    if not isinstance(renamed, (Previous, Once, Since)):
        raise Refused(f"{type(renamed).__name__} is not a temporal operator (▽, ◇, since) and has no stored relation")
    return Stored(renamed, semantics)


def _atoms(formula: Formula) -> Iterator[Atom]:
    return (part for part in subformulas(formula) if isinstance(part, Atom))
