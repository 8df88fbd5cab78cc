"""From a formula the triple (∅, Δ, Γ) of its synopsis (Toman 2007, definitions 4.1 to 4.3).

For every temporal subformula ψ there is a stored relation R_ψ; subformulas that are equal up to the names of their
variables, in one formula or in several, share one.  ∅ has no rows in any of them.  Γ is the formula with each ▽ψ read
from its R_ψ, and Δ computes each R_ψ anew from a state of the log and the relations before it.  For ◇ and since, which
are fixpoints, R_ψ holds the anchors that a later time point can still see, with instants where the interval asks.
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
from weft.algebra.schema import BIGINT, BOOLEAN, STRING, DataType, hashed_once
from weft.derivation.synopsis.alpha_equivalence import canonical
from weft.derivation.synopsis.fixpoints import closures, stepped
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.derivation.synopsis.range_restriction import check
from weft.errors import Refused

Temporal: TypeAlias = "Previous | Once | Since"
INSTANT = "instant"
LAST = "last"
COUNT = "n"
THERE = "there"
"""The column of a stored relation of no variables and nothing else, TRUE in its one row."""


@hashed_once
@dataclass(frozen=True)
class Stored:
    """R_ψ: ``formula`` is the temporal subformula, canonical, under one of the semantics.

    Columns: ``v1 … vk`` for its free variables, or for ▽ψ those of ψ; ``instant`` (µs) of an anchor, or of the first
    of a run of them, ``last`` being that of its last, and ``n``, its count.  Its key is the values, with the instant
    where ``several``.
    """

    formula: Temporal
    semantics: Semantics

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of its columns."""
        return free_variables(self.formula)

    @property
    def timed(self) -> bool:
        """Whether instants are stored."""
        match self.formula:
            case Once(interval=interval) | Since(interval=interval):
                return not interval.everything
            case _:
                return False

    @property
    def several(self) -> bool:
        """Whether a row of values may be stored for several instants: those of the window."""
        match self.formula:
            case Once(interval=interval, counting=counting) | Since(interval=interval, counting=counting):
                if counting == "first":
                    return not interval.everything
                return interval.low > 0 and interval.high is not None
            case _:
                return False

    @property
    def runs(self) -> bool:
        """Whether anchors of one row are stored as runs: those that follow one another so soon that the stretches of
        time that see them meet.
        """
        return self.several and not self.counted

    @property
    def counted(self) -> bool:
        """Whether counts are stored."""
        match self.formula:
            case Once(counting=counting) | Since(counting=counting):
                return counting != "any"
            case _:
                return self.semantics != "set"

    @property
    def stepped(self) -> bool:
        """Whether it is kept state by state; its counts, which have no bound then, are stored as hexadecimal digits."""
        return stepped(self.formula)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """Names and types; of no variables and nothing else, one column that is always TRUE."""
        found = [(f"v{number}", variable.type) for number, variable in enumerate(self.variables, 1)]
        found += [(INSTANT, BIGINT)] * self.timed + [(LAST, BIGINT)] * self.runs
        found += [(COUNT, STRING if self.stepped else BIGINT)] * self.counted
        return tuple(found) or ((THERE, BOOLEAN),)


@hashed_once
@dataclass(frozen=True)
class Synopsis:
    """The synopsis of one formula or several: prepared, with the stored relations that they share."""

    formulas: tuple[Formula, ...]
    answers: tuple[tuple[Variable, ...], ...]
    """The variables of each one's answers, in order."""
    semantics: Semantics
    stored: tuple[Stored, ...]

    @property
    def predicates(self) -> tuple[tuple[str, int], ...]:
        """The predicates that are read, with how many columns each has."""
        found = {(atom.predicate, len(atom.terms)) for each in self.formulas for atom in _atoms(each)}
        return tuple(sorted(found))


def synopsis(formula: Formula, semantics: Semantics) -> Synopsis:
    """The synopsis of one formula; raises Refused for what cannot be computed."""
    return shared((formula,), semantics)


def shared(formulas: Sequence[Formula], semantics: Semantics) -> Synopsis:
    """One synopsis for several formulas; raises Refused for what cannot be computed."""
    for formula in formulas:
        check(formula)
    ready = tuple(prepared(formula, semantics) for formula in formulas)
    stored = dict.fromkeys(
        stored_of(closure, semantics)
        for each in ready
        for part, closure in closures(each)
        if temporal(part) and read_from(part) is None
    )
    return Synopsis(ready, tuple(map(free_variables, formulas)), semantics, tuple(stored))


def temporal(formula: Formula) -> bool:
    """Whether a relation is stored for it."""
    return isinstance(formula, (Previous, Once, Since))


def read_from(formula: Formula) -> Once | Since | None:
    """Of ▽◇Q and ▽(Q1 since Q2) what is under the ▽, whose stored relation has the answers before a state already.

    None for another formula, and where an interval of ▽ or a fixpoint has a say.
    """
    if not isinstance(formula, Previous) or not formula.interval.everything or stepped(formula):
        return None
    return formula.formula if isinstance(formula.formula, (Once, Since)) else None


def stored_of(formula: Formula, semantics: Semantics) -> Stored:
    """The stored relation of a temporal formula."""
    found = canonical(formula)
    if not isinstance(found, (Previous, Once, Since)):
        raise Refused(f"nothing is stored for {type(found).__name__}")
    return Stored(found, semantics)


def _atoms(formula: Formula) -> Iterator[Atom]:
    return (part for part in subformulas(formula) if isinstance(part, Atom))
