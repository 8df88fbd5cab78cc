"""What is evaluated of a formula of two sorts, and what can be said of its size.

A union of conjunctive queries becomes a nest of ◇1 with a synopsis of its own (Toman 2007, section 4.2); every other
formula is asked of the history that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.derivation.synopsis.prepared import Semantics
from weft.derivation.synopsis.two_sorted import nest
from weft.errors import FormulaError, SynopsisError
from weft.formula.evaluation_form import answerable
from weft.formula.monitorable import monitorable
from weft.formula.parse_formula import Reading
from weft.formula.twofol.kept import over_history
from weft.formula.twofol.resolve import TwoSorted

NOT_CONSTRUCTED: Final = "bounded by Proposition 2.4, not constructed here"
NO_BOUND: Final = "no bound guaranteed (Theorem 3.2)"
"""The verdicts on formulas beyond unions of conjunctive queries, with sets and with duplicates."""


def verdict_on_history(semantics: Semantics) -> str:
    """What can be said of the size of what a formula needs that is asked of the kept history."""
    return NOT_CONSTRUCTED if semantics == "set" else NO_BOUND


@dataclass(frozen=True)
class TwoSortedPlan:
    """The formula that is evaluated; ``history``: why it is asked of the kept history (None: it has a synopsis)."""

    reading: Reading
    history: str | None


def planned(found: TwoSorted, semantics: Semantics) -> TwoSortedPlan:
    """How a formula is evaluated; raises FormulaError where it has no finite answers."""
    counts = semantics != "set"
    kept = over_history(found.formula, counts=counts)
    try:
        nests = answerable(monitorable(nest(found.formula, counts=counts), counts=counts))
    except SynopsisError as refused:
        return TwoSortedPlan(Reading(kept, found.columns), refused.message)
    except FormulaError:
        return TwoSortedPlan(Reading(kept, found.columns), "its comparisons bind variables that its predicates do not")
    return TwoSortedPlan(Reading(nests, found.columns), None)
