"""What is evaluated of a formula of two sorts, and what can be said of its size.

A union of conjunctive queries becomes a nest of ◇1 with a synopsis of its own (Toman 2007, section 4.2); every other
formula is asked of the history that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.derivation.synopsis.prepared import Semantics
from weft.formula.reading import Reading
from weft.formula.twofol.kept import over_history
from weft.formula.twofol.reading import TwoSorted


@dataclass(frozen=True)
class TwoSortedPlan:
    """The formula that is evaluated; ``history``: over what is kept of the history, there being no synopsis."""

    reading: Reading
    history: bool


def planned(found: TwoSorted, semantics: Semantics) -> TwoSortedPlan:
    """How a formula is evaluated; raises FormulaError where it has no finite answers."""
    return TwoSortedPlan(Reading(over_history(found.formula, counts=semantics != "set"), found.columns), True)
