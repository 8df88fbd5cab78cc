"""The error for a division by 0 in a formula. The batch that contains it is not processed; the error names the term."""

from __future__ import annotations

from collections.abc import Iterable

from weft.algebra.formula import Comparison, Computed, Formula, Not, subformulas
from weft.derivation.synopsis.alpha_equivalence import alpha_canonical
from weft.derivation.synopsis.divisions import dividing
from weft.errors import ExecutionError
from weft.formula.written import bare_text, term_text


class DivisionByZero(ExecutionError):
    """``division`` divides by 0 in a row at the time point ``tp``; ``test`` is the comparison that contains it."""

    def __init__(self, division: Computed, test: Formula, tp: int) -> None:
        divisor = term_text(division.arguments[1])
        super().__init__(
            f"{bare_text(division)} divides by 0 at time point {tp}",
            hint=f"Exclude such rows: AND NOT ({divisor} = 0).",
        )
        self.division = division
        self.test = test
        self.tp = tp

    def named(self, formulas: Iterable[Formula]) -> DivisionByZero:
        """Return this error with the variable names of the first formula that contains the test."""
        wanted = alpha_canonical(_positive(self.test))
        for formula in formulas:
            for part in subformulas(formula):
                if isinstance(part, Comparison) and alpha_canonical(part) == wanted:
                    place = dividing(_positive(self.test)).index(self.division)
                    return DivisionByZero(dividing(part)[place], part, self.tp)
        return self


def _positive(test: Formula) -> Formula:
    return test.formula if isinstance(test, Not) else test
