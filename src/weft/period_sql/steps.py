"""Define relations over the time points of a batch.

A relation is a table ``v1 … vk, [n,] from_tp, to_tp``.  The columns are the values of the variables, the count of the
answer, and the period of time points ``[from_tp, to_tp)``.  Only a *counted* relation has the column ``n``.  In other
relations every count is 1.  The periods of equal values are disjoint and lie within the time points of the batch.  In a
relation of *points* each period is one time point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.formula import Variable
from weft.period_sql.axis import POINTS, listed

PERIOD: Final = POINTS.period


@dataclass(frozen=True)
class Extent:
    """The range ``[first, end)`` of the time points in a batch."""

    first: int
    end: int

    @property
    def last(self) -> int:
        """The last time point of the batch."""
        return self.end - 1


@dataclass(frozen=True)
class Steps:
    """A relation over time points.

    ``source`` is the name of a table, or a query in parentheses.
    """

    source: str
    variables: tuple[Variable, ...]
    counted: bool = False
    points: bool = False

    @property
    def heads(self) -> list[str]:
        """The names of all columns of the relation."""
        return [*self.values(), *(["n"] if self.counted else []), *PERIOD]

    def values(self, alias: str = "") -> list[str]:
        """Return the column names of the variables, qualified by ``alias`` if it is not empty."""
        return POINTS.columns(len(self.variables), alias)

    def column(self, variable: Variable, alias: str = "") -> str:
        """Return the column name of ``variable``, qualified by ``alias`` if it is not empty."""
        return POINTS.columns(len(self.variables), alias)[self.variables.index(variable)]

    def count(self, alias: str = "") -> str:
        """Return SQL for the count of a row."""
        return (f"{alias}.n" if alias else "n") if self.counted else "1"

    def named(self, variables: tuple[Variable, ...]) -> Steps:
        """Return the same relation after renaming its variables to ``variables``."""
        return replace(self, variables=variables)

    def ordered(self, variables: tuple[Variable, ...]) -> Steps:
        """Return the same relation with its columns in the order of ``variables``."""
        if self.variables == variables:
            return self
        names = POINTS.columns(len(variables))
        heads = [f"{self.column(variable)} AS {name}" for variable, name in zip(variables, names, strict=True)]
        query = f"SELECT {listed(heads, self.heads[len(heads) :])} FROM {self.source} AS given"
        return replace(self, source=f"({query})", variables=variables)


def agreeing(left: Steps, right: Steps, a: str = "a", b: str = "b") -> list[str]:
    """Return SQL conditions that two rows are equal in the common variables of ``left`` and ``right``.

    ``a`` and ``b`` are the aliases of the rows.
    """
    shared = [variable for variable in left.variables if variable in right.variables]
    return [f"{left.column(variable, a)} = {right.column(variable, b)}" for variable in shared]


def spread(steps: Steps, name: str) -> str:
    """Return SQL that repeats each row of ``steps`` for every time point in its period: ``v1 … vk, [n,] tp``.

    The table ``name`` contains the time points of the batch.
    """
    count = ["a.n"] if steps.counted else []
    if steps.points:
        return f"SELECT {listed(steps.values('a'), count, 'a.from_tp AS tp')} FROM {steps.source} AS a"
    return (
        f"SELECT {listed(steps.values('a'), count, 'p.tp')} FROM {steps.source} AS a "
        f"JOIN {name} AS p ON a.from_tp <= p.tp AND p.tp < a.to_tp"
    )
