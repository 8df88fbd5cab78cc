"""Render relations over time points as SQL for both DuckDB and Spark.

A relation is a table ``v1 … vk, [n,] from_tp, to_tp``.  The columns are the values of the variables, the count of the
answer, and the period of time points ``[from_tp, to_tp)``.  Only a *counted* relation has the column ``n``.  In other
relations every count is 1.  The periods of equal values are disjoint and lie within the time points of the batch.  In a
relation of *points* each period is one time point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.formula import Variable
from weft.sql.sweeping import BOTH_BOUNDS, in_maximal_periods, listed, over

PERIOD: Final = ("from_tp", "to_tp")


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
class Dialect:
    """The differences between the two engines.

    - ``latest``: whether the engine has ASOF JOIN, which finds the latest row of a key in one pass over sorted rows.
    - ``quotient``: the operator for integer division that truncates.
    - ``matches``: the function that searches for a pattern.
    - ``groups``: whether an empty group of a match differs from a group that did not participate in the match.
    - ``infinite``: whether a DOUBLE divided by 0 is infinite.
    """

    latest: bool
    quotient: str
    matches: str
    groups: bool
    infinite: bool


DUCKDB: Final = Dialect(latest=True, quotient="//", matches="REGEXP_MATCHES", groups=True, infinite=True)
SPARK: Final = Dialect(latest=False, quotient="DIV", matches="REGEXP_LIKE", groups=False, infinite=False)


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
        return columns_of(len(self.variables), alias)

    def column(self, variable: Variable, alias: str = "") -> str:
        """Return the column name of ``variable``, qualified by ``alias`` if it is not empty."""
        return columns_of(len(self.variables), alias)[self.variables.index(variable)]

    def count(self, alias: str = "") -> str:
        """Return SQL for the count of a row."""
        return (f"{alias}.n" if alias else "n") if self.counted else "1"

    def named(self, variables: tuple[Variable, ...]) -> Steps:
        """Return the same relation after renaming its variables to ``variables``."""
        return replace(self, variables=variables)


def columns_of(width: int, alias: str = "") -> list[str]:
    """Return the names ``v1 … vk``, where k is ``width``, qualified by ``alias`` if it is not empty."""
    return [f"{alias}.v{number}" if alias else f"v{number}" for number in range(1, width + 1)]


def agreeing(left: Steps, right: Steps, a: str = "a", b: str = "b") -> list[str]:
    """Return SQL conditions that two rows are equal in the common variables of ``left`` and ``right``.

    ``a`` and ``b`` are the aliases of the rows.
    """
    shared = [variable for variable in left.variables if variable in right.variables]
    return [f"{left.column(variable, a)} = {right.column(variable, b)}" for variable in shared]


def conjunction(conditions: Sequence[str]) -> str:
    """Return the SQL conjunction of ``conditions``, or TRUE for an empty sequence."""
    return " AND ".join(conditions) or "TRUE"


def bounds(query: str, keys: Sequence[str], amount: str) -> str:
    """Return SQL with two rows for each period of ``query``.  The column ``tp`` is the start or the end of the period.

    The column ``d`` is ``amount`` at the start, and minus ``amount`` at the end.
    """
    return (
        f"SELECT {listed(keys, 'CASE WHEN side = 0 THEN from_tp ELSE to_tp END AS tp')}, "
        f"CASE WHEN side = 0 THEN {amount} ELSE -({amount}) END AS d FROM ({query}) AS given {BOTH_BOUNDS}"
    )


def coalesced(query: str, width: int) -> str:
    """Return SQL that merges the periods of equal rows into maximal periods.

    ``query`` returns ``v1 … vk, from_tp, to_tp``.
    """
    return in_maximal_periods(query, columns_of(width), PERIOD, "to_tp", "MAX(to_tp)")


def added_up(query: str, width: int) -> str:
    """Return SQL that sums the counts of equal rows at each time point.

    ``query`` returns ``v1 … vk, n, from_tp, to_tp``.  The periods may overlap.
    """
    keys = columns_of(width)
    at_once = (
        f"SELECT {listed(keys, 'tp', 'SUM(d) AS d')} FROM ({bounds(query, keys, 'n')}) AS bounds "
        f"GROUP BY {listed(keys, 'tp')} HAVING SUM(d) <> 0"
    )
    window = over(keys, "tp")
    swept = (
        f"SELECT {listed(keys, f'SUM(d) {window} AS n', 'tp AS from_tp', f'LEAD(tp) {window} AS to_tp')} "
        f"FROM ({at_once}) AS at_once"
    )
    return f"SELECT {listed(keys, 'CAST(n AS BIGINT) AS n', PERIOD)} FROM ({swept}) AS swept WHERE n > 0"


def greatest(query: str, width: int) -> str:
    """Return SQL for the greatest count among equal rows at each time point.

    ``query`` returns ``v1 … vk, n, from_tp, to_tp``.  The periods may overlap.  A maximum cannot be updated by
    subtraction, so the SQL computes the maximum for each interval between two bounds.
    """
    keys = columns_of(width)
    cuts = f"SELECT DISTINCT {listed(keys, 'tp')} FROM ({bounds(query, keys, '1')}) AS bounds"
    following = f"LEAD(tp) {over(keys, 'tp')} AS next"
    stretches = f"SELECT {listed(keys, 'tp', following)} FROM ({cuts}) AS cuts"
    same = conjunction([*(f"f.{key} = g.{key}" for key in keys), "g.from_tp <= f.tp", "f.tp < g.to_tp"])
    own = columns_of(width, "f")
    return (
        f"SELECT {listed(own, 'MAX(g.n) AS n', 'f.tp AS from_tp', 'f.next AS to_tp')} "
        f"FROM ({stretches}) AS f JOIN ({query}) AS g ON {same} GROUP BY {listed(own, 'f.tp', 'f.next')}"
    )


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
