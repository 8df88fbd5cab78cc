"""Two-sorted first-order logic over a log (2-FOL; Toman 2007, definition 3.1) as trees of ``algebra.formula``.

Beside variables over data there are those over time points, of the type ``TIME``.  The last term of an atom is the time
point whose rows it speaks of; ``NOW`` is the one at which the formula is asked.  Time points are compared by their
number; the difference of two is the time that passed from one to the other, an INTERVAL of microseconds.  A variable
over time points ranges over those up to NOW.  There are no temporal operators and no fixpoints.

Where such a formula is evaluated over the history that is kept, a *dated* predicate has the rows of every time point
with its number as their last column, and ``POINTS`` each time point's number and time (µs UTC).
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
    """The name of a predicate's rows with their time points."""
    return f"{predicate}{_DATED}"


def undated(predicate: str) -> str | None:
    """The predicate whose rows a dated one has; None: it is not dated."""
    return predicate[: -len(_DATED)] if predicate.endswith(_DATED) and predicate != POINTS else None


def distance(term: Term) -> tuple[Variable, Variable] | None:
    """The later and the earlier time point of a difference of two; None for other terms."""
    match term:
        case Computed(operation="-", arguments=(Variable() as later, Variable() as earlier)) if term.type == INTERVAL:
            return later, earlier
        case _:
            return None
