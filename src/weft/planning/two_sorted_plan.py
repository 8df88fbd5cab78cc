"""Choose how to evaluate a two-sorted formula, and state what is known of its size.

A union of conjunctive queries becomes a nest of ◇1 with a synopsis (Toman 2007, section 4.2); every other formula reads
the stored history.
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
    """Return the verdict on the size of the state that a formula over the stored history needs."""
    return NOT_CONSTRUCTED if semantics == "set" else NO_BOUND


@dataclass(frozen=True)
class TwoSortedPlan:
    """The formula to evaluate; ``history`` is the reason why it reads the stored history (None: it has a synopsis)."""

    reading: Reading
    history: str | None


def planned(formula: TwoSorted, semantics: Semantics) -> TwoSortedPlan:
    """Return how to evaluate a formula; raise FormulaError if its answers are infinite."""
    counts = semantics != "set"
    historic = over_history(formula.formula, counts=counts)
    try:
        nests = answerable(monitorable(nest(formula.formula, counts=counts), counts=counts))
    except SynopsisError as error:
        return TwoSortedPlan(Reading(historic, formula.columns), error.message)
    except FormulaError:
        return TwoSortedPlan(
            Reading(historic, formula.columns), "its comparisons bind variables that its predicates do not"
        )
    return TwoSortedPlan(Reading(nests, formula.columns), None)
