"""Relations over time points as SQL: step functions of time points, that DuckDB and Spark read alike.

A relation is a table ``v1 … vk, [n,] from_tp, to_tp``: the values of its variables, how often they are an answer (where
it is *counted*; once otherwise), and at which time points, ``[from_tp, to_tp)``.  The periods of equal values are
disjoint; they are all within the batch's time points.  A relation of *points* has periods of one time point only.
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
        """The last one."""
        return self.end - 1


@dataclass(frozen=True)
class Dialect:
    """Where the two engines differ: DuckDB finds the latest row of a key in one pass through sorted rows.

    ``quotient`` is the operator that divides integers and truncates, ``matches`` the function that finds a pattern,
    ``groups`` whether what a group of it found is told from its having taken no part, ``infinite`` whether a DOUBLE
    divided by 0 is.
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
    """A relation over time points: ``source`` is a table's name, or a query in brackets."""

    source: str
    variables: tuple[Variable, ...]
    counted: bool = False
    points: bool = False

    @property
    def heads(self) -> list[str]:
        """All its columns."""
        return [*self.values(), *(["n"] if self.counted else []), *PERIOD]

    def values(self, alias: str = "") -> list[str]:
        """Its variables' columns, of ``alias`` where given."""
        return columns_of(len(self.variables), alias)

    def column(self, variable: Variable, alias: str = "") -> str:
        """The column of a variable."""
        return columns_of(len(self.variables), alias)[self.variables.index(variable)]

    def count(self, alias: str = "") -> str:
        """How often a row is an answer."""
        return (f"{alias}.n" if alias else "n") if self.counted else "1"

    def named(self, variables: tuple[Variable, ...]) -> Steps:
        """The same columns as other variables."""
        return replace(self, variables=variables)


def columns_of(width: int, alias: str = "") -> list[str]:
    """``v1 … vk``, of ``alias`` where given."""
    return [f"{alias}.v{number}" if alias else f"v{number}" for number in range(1, width + 1)]


def agreeing(left: Steps, right: Steps, a: str = "a", b: str = "b") -> list[str]:
    """The conditions that the rows ``a`` and ``b`` agree in the variables that both relations have."""
    shared = [variable for variable in left.variables if variable in right.variables]
    return [f"{left.column(variable, a)} = {right.column(variable, b)}" for variable in shared]


def conjunction(conditions: Sequence[str]) -> str:
    """All of them; TRUE where there are none."""
    return " AND ".join(conditions) or "TRUE"


def bounds(query: str, keys: Sequence[str], amount: str) -> str:
    """For each period its start and its end, ``tp``, and what is added there, ``d``."""
    return (
        f"SELECT {listed(keys, 'CASE WHEN side = 0 THEN from_tp ELSE to_tp END AS tp')}, "
        f"CASE WHEN side = 0 THEN {amount} ELSE -({amount}) END AS d FROM ({query}) AS given {BOTH_BOUNDS}"
    )


def coalesced(query: str, width: int) -> str:
    """The time points of each row in maximal periods; ``query`` gives ``v1 … vk, from_tp, to_tp``."""
    return in_maximal_periods(query, columns_of(width), PERIOD, "to_tp", "MAX(to_tp)")


def added_up(query: str, width: int) -> str:
    """The sum of the counts at each time point; ``query`` gives ``v1 … vk, n, from_tp, to_tp``, periods of any kind."""
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
    """The greatest of the counts at each time point; ``query`` as for ``added_up``.

    Nothing can be taken back from a maximum, so that each stretch between two bounds is looked at anew.
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
    """Each time point of each row: ``v1 … vk, [n,] tp``; ``name`` is the table of the batch's time points."""
    count = ["a.n"] if steps.counted else []
    if steps.points:
        return f"SELECT {listed(steps.values('a'), count, 'a.from_tp AS tp')} FROM {steps.source} AS a"
    return (
        f"SELECT {listed(steps.values('a'), count, 'p.tp')} FROM {steps.source} AS a "
        f"JOIN {name} AS p ON a.from_tp <= p.tp AND p.tp < a.to_tp"
    )
