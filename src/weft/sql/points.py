"""Render relations over time points as SQL that DuckDB and Spark read alike.

A relation is a table ``v1 … vk, [n,] from_tp, to_tp``: the values of its variables, the count of each answer (if the
relation is *counted*; otherwise 1), and the time points ``[from_tp, to_tp)``.  The periods of equal values are disjoint
and lie within the batch's time points.  In a relation of *points* each period is one time point.
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
    """The time points of a batch, ``[first, end)``."""

    first: int
    end: int

    @property
    def last(self) -> int:
        """The last time point."""
        return self.end - 1


@dataclass(frozen=True)
class Dialect:
    """The differences between the two engines.

    ``latest`` says whether the engine finds the latest row of a key in one pass over sorted rows.  ``quotient`` is the
    operator of truncating integer division, ``matches`` the function that finds a pattern.  ``groups`` says whether an
    empty group differs from one that did not participate in the match, ``infinite`` whether a DOUBLE divided by 0 is
    infinite.
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
    """A relation over time points; ``source`` is the name of a table, or a query in parentheses."""

    source: str
    variables: tuple[Variable, ...]
    counted: bool = False
    points: bool = False

    @property
    def heads(self) -> list[str]:
        """The names of all columns."""
        return [*self.values(), *(["n"] if self.counted else []), *PERIOD]

    def values(self, alias: str = "") -> list[str]:
        """Return the columns of the variables, optionally qualified by ``alias``."""
        return columns_of(len(self.variables), alias)

    def column(self, variable: Variable, alias: str = "") -> str:
        """Return the column of a variable."""
        return columns_of(len(self.variables), alias)[self.variables.index(variable)]

    def count(self, alias: str = "") -> str:
        """Return the count of a row."""
        return (f"{alias}.n" if alias else "n") if self.counted else "1"

    def named(self, variables: tuple[Variable, ...]) -> Steps:
        """Return the same columns with other variables."""
        return replace(self, variables=variables)


def columns_of(width: int, alias: str = "") -> list[str]:
    """Return ``v1 … vk``, optionally qualified by ``alias``."""
    return [f"{alias}.v{number}" if alias else f"v{number}" for number in range(1, width + 1)]


def agreeing(left: Steps, right: Steps, a: str = "a", b: str = "b") -> list[str]:
    """Return the conditions that rows ``a`` and ``b`` are equal in the shared variables."""
    shared = [variable for variable in left.variables if variable in right.variables]
    return [f"{left.column(variable, a)} = {right.column(variable, b)}" for variable in shared]


def conjunction(conditions: Sequence[str]) -> str:
    """Join conditions with AND; without conditions return TRUE."""
    return " AND ".join(conditions) or "TRUE"


def bounds(query: str, keys: Sequence[str], amount: str) -> str:
    """Return the start and the end of each period as ``tp``, with ``amount`` or its negative as ``d``."""
    return (
        f"SELECT {listed(keys, 'CASE WHEN side = 0 THEN from_tp ELSE to_tp END AS tp')}, "
        f"CASE WHEN side = 0 THEN {amount} ELSE -({amount}) END AS d FROM ({query}) AS given {BOTH_BOUNDS}"
    )


def coalesced(query: str, width: int) -> str:
    """Merge the periods of each row into maximal ones; ``query`` returns ``v1 … vk, from_tp, to_tp``."""
    return in_maximal_periods(query, columns_of(width), PERIOD, "to_tp", "MAX(to_tp)")


def added_up(query: str, width: int) -> str:
    """Sum the counts at each time point; ``query`` returns ``v1 … vk, n, from_tp, to_tp`` with any periods."""
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
    """Return the greatest count at each time point; ``query`` is as for ``added_up``.

    A maximum cannot be updated by subtraction, so each interval between two bounds is computed from its rows.
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
    """Return a row for each time point: ``v1 … vk, [n,] tp``; ``name`` is the table of the batch's time points."""
    count = ["a.n"] if steps.counted else []
    if steps.points:
        return f"SELECT {listed(steps.values('a'), count, 'a.from_tp AS tp')} FROM {steps.source} AS a"
    return (
        f"SELECT {listed(steps.values('a'), count, 'p.tp')} FROM {steps.source} AS a "
        f"JOIN {name} AS p ON a.from_tp <= p.tp AND p.tp < a.to_tp"
    )
