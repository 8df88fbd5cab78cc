"""Two-sorted first-order logic over a log (2-FOL; Toman 2007, definition 3.1) as trees of ``algebra.formula``.

Besides variables over data, a formula has variables over time points, of the type ``TIME``.  The last term of an atom
is the time point of its rows; ``NOW`` is the time point at which the formula is evaluated.  Comparisons of time points
compare their numbers.  The difference of two is the time between them, an INTERVAL of microseconds.  A variable over
time points ranges over those up to NOW.  The language has no temporal operators and no fixpoints.

For an evaluation over stored history, a *dated* predicate has the rows of every time point, with the number of the time
point as their last column.  ``POINTS`` has the number and the time (µs UTC) of each time point.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.formula import Computed, Term, Variable
from weft.algebra.schema import INTERVAL, DataType

TIME: Final = DataType("TIME POINT")
NOW: Final = Variable("NOW", TIME)
POINTS: Final = "@"
_DATED: Final = "@"


def dated(predicate: str) -> str:
    """Return the name of a predicate's rows with their time points."""
    return f"{predicate}{_DATED}"


def undated(predicate: str) -> str | None:
    """Return the predicate of a dated predicate, or None if the name is not dated."""
    return predicate[: -len(_DATED)] if predicate.endswith(_DATED) and predicate != POINTS else None


def distance(term: Term) -> tuple[Variable, Variable] | None:
    """Return the later and the earlier time point of a difference of two, or None for other terms."""
    match term:
        case Computed(operation="-", arguments=(Variable() as later, Variable() as earlier)) if term.type == INTERVAL:
            return later, earlier
        case _:
            return None
