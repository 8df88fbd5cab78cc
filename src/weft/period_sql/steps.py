"""Render relations over the time points of a batch, their conjunctions and their differences.

A relation is a table ``v1 … vk, [n,] from_tp, to_tp``.  The columns are the values of the variables, the count of the
answer, and the period of time points ``[from_tp, to_tp)``.  Only a *counted* relation has the column ``n``.  In other
relations every count is 1.  The periods of equal values are disjoint and lie within the time points of the batch.  In a
relation of *points* each period is one time point.

    Q1 ∧ Q2     joined:  rows equal in the shared variables, at the shared time points, with counts multiplied
    Q1 ∧ ¬Q2    without: the counts of Q1 minus the counts of Q2, at least 0

If Q1 has all variables of Q2, each row of Q1 matches at most one row of Q2 per time point.  One pass over the sorted
relations then finds all matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.formula import Variable
from weft.period_sql.notation import POINTS, Dialect, conjunction, listed, over
from weft.period_sql.sweep import Sweep

PERIOD: Final = POINTS.period
Multiplied: TypeAlias = OneOf["times", "least"]
"""The way to combine two counts in a conjunction: by the product ("times") or the minimum ("least")."""
_OVERLAP: Final = POINTS.overlap("ab")
_COMMON: Final = POINTS.common("ab")


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


def spread(steps: Steps, dialect: Dialect) -> str:
    """Return SQL that repeats each row of ``steps`` for every time point in its period: ``v1 … vk, [n,] tp``."""
    count = ["a.n"] if steps.counted else []
    each = "a.from_tp" if steps.points else dialect.numbers.format("a.from_tp", "a.to_tp")
    return f"SELECT {listed(steps.values('a'), count, f'{each} AS tp')} FROM {steps.source} AS a"


def joined(
    left: Steps, right: Steps, variables: tuple[Variable, ...], dialect: Dialect, multiplied: Multiplied = "times"
) -> str:
    """Return SQL for Q1 ∧ Q2.  The columns are ``variables``, the variables of Q1 and Q2."""
    if right.points and not left.points:
        left, right = right, left
    count = _count(left, right, multiplied)
    if left.points and right.points:
        heads = listed(_values(left, right, variables), count, "a.from_tp", "a.to_tp")
        met = conjunction([*agreeing(left, right), "a.from_tp = b.from_tp"])
        return f"SELECT {heads} FROM {left.source} AS a JOIN {right.source} AS b ON {met}"
    if left.points and set(right.variables) <= set(left.variables):
        heads = listed(_values(left, right, variables), count, "a.from_tp", "a.to_tp")
        return f"SELECT {heads} FROM {containing(left, right, 'a.from_tp', dialect)} WHERE a.from_tp < b.to_tp"
    heads = listed(_values(left, right, variables), count, _COMMON)
    if set(left.variables) == set(right.variables):
        return _one_to_one(left, right, heads, dialect)
    met = conjunction([*agreeing(left, right), *_OVERLAP])
    return f"SELECT {heads} FROM {left.source} AS a JOIN {right.source} AS b ON {met}"


def _one_to_one(left: Steps, right: Steps, heads: str, dialect: Dialect) -> str:
    """Join two relations with the same variables.  Each resulting period starts where one of the two periods starts."""
    among_right = containing(left, right, "a.from_tp", dialect)
    among_left = containing(right, left, "b.from_tp", dialect, outer="b", inner="a")
    return (
        f"SELECT {heads} FROM {among_right} WHERE a.from_tp < b.to_tp "
        f"UNION ALL SELECT {heads} FROM {among_left} WHERE b.from_tp < a.to_tp AND a.from_tp < b.from_tp"
    )


def containing(
    left: Steps, right: Steps, at: str, dialect: Dialect, kind: str = "", *, outer: str = "a", inner: str = "b"
) -> str:
    """Return a FROM clause that joins each row of ``left`` with the latest period of ``right`` that starts at or before
    ``at``.

    Every variable of ``right`` must be a variable of ``left``.  The period may have ended, so the caller must check
    ``at < to_tp``.  If ``kind`` is LEFT and no period has started, the columns of ``right`` are NULL.
    """
    if not dialect.asof:
        return _latest(left, right, at, kind, outer, inner)
    met = conjunction([*agreeing(left, right, outer, inner), f"{at} >= {inner}.from_tp"])
    return f"{left.source} AS {outer} ASOF {kind} JOIN {right.source} AS {inner} ON {met}"


def _latest(left: Steps, right: Steps, at: str, kind: str, outer: str, inner: str) -> str:
    """Return the same as an ASOF JOIN, by a window function.  The rows of both sides are the structs of two columns.

    A join by the keys would compare all rows of a key with each other.
    """
    keys = [f"k{number}" for number in range(1, len(right.variables) + 1)]

    def place(steps: Steps, alias: str, instant: str, side: int) -> str:
        own = [f"{steps.column(each, alias)} AS {key}" for each, key in zip(right.variables, keys, strict=True)]
        return f"{listed(own, f'{instant} AS place', f'{side} AS side')} FROM {steps.source} AS {alias}"

    both = (
        f"SELECT STRUCT({outer}.*) AS {outer}, NULL AS {inner}, {place(left, outer, at, 1)} UNION ALL "
        f"SELECT NULL AS {outer}, STRUCT({inner}.*) AS {inner}, {place(right, inner, f'{inner}.from_tp', 0)}"
    )
    latest = f"LAST({inner}, TRUE) {over(keys, 'place, side', 'ROWS UNBOUNDED PRECEDING')} AS {inner}"
    there = "" if kind else f" AND {inner} IS NOT NULL"
    return (
        f"(SELECT {outer}, {inner} FROM (SELECT {outer}, {latest}, side FROM ({both}) AS placed) AS found "
        f"WHERE side = 1{there}) AS latest"
    )


def without(left: Steps, right: Steps, extent: Extent, dialect: Dialect) -> str:
    """Return SQL for Q1 ∧ ¬Q2 with the columns of Q1.  Every variable of Q2 must be a variable of Q1.

    If Q1 is not counted, each answer of Q1 has the count 1, and a matching answer of Q2 removes the answer.
    """
    if left.points:
        return _points_without(left, right, dialect)
    if set(left.variables) == set(right.variables):
        others, counts = right.ordered(left.variables).source, (left.count(), right.count())
        return Sweep(POINTS, dialect).subtracted(left.source, others, len(left.variables), counts)
    return _periods_without(left, right, extent)


def _points_without(left: Steps, right: Steps, dialect: Dialect) -> str:
    if right.points:
        met = conjunction([*agreeing(left, right), "a.from_tp = b.from_tp"])
        matched = f"{left.source} AS a LEFT JOIN {right.source} AS b ON {met}"
    else:
        matched = containing(left, right, "a.from_tp", dialect, "LEFT")
    taken = f"CASE WHEN a.from_tp < b.to_tp THEN {right.count('b')} ELSE 0 END"
    count = [f"a.n - {taken} AS n"] if left.counted else []
    heads = listed(left.values("a"), count, "a.from_tp", "a.to_tp")
    return f"SELECT {heads} FROM {matched} WHERE {left.count('a')} > {taken}"


def _periods_without(left: Steps, right: Steps, extent: Extent) -> str:
    others = gaps(right, extent)
    if left.counted:
        held = f"SELECT {listed(right.values(), f'{right.count()} AS n', PERIOD)} FROM {right.source}"
        others = f"{held} UNION ALL SELECT {listed(right.values(), '0 AS n', PERIOD)} FROM ({others}) AS gaps"
    met = [*agreeing(left, right), *_OVERLAP, *(["a.n > b.n"] if left.counted else [])]
    heads = listed(left.values("a"), ["a.n - b.n AS n"] if left.counted else [], _COMMON)
    near = f"SELECT {heads} FROM {left.source} AS a JOIN ({others}) AS b ON {conjunction(met)}"
    untouched = listed(left.values("a"), ["a.n"] if left.counted else [], "a.from_tp", "a.to_tp")
    same = conjunction(agreeing(left, right))
    far = (
        f"SELECT {untouched} FROM {left.source} AS a WHERE NOT EXISTS (SELECT 1 FROM {right.source} AS b WHERE {same})"
    )
    return f"{near} UNION ALL {far}"


def gaps(steps: Steps, extent: Extent) -> str:
    """Return SQL for the time points at which a row of ``steps`` is not an answer: ``v1 … vk, from_tp, to_tp``."""
    keys = steps.values()
    before = f"COALESCE(LAG(to_tp) {over(keys, 'from_tp')}, {extent.first}) AS from_tp"
    between = f"SELECT {listed(keys, before, 'from_tp AS to_tp')} FROM {steps.source} AS given"
    last = f"SELECT {listed(keys, 'MAX(to_tp) AS from_tp', f'{extent.end} AS to_tp')} FROM {steps.source} AS given"
    if keys:
        last += f" GROUP BY {listed(keys)}"
    return f"SELECT {listed(keys, PERIOD)} FROM ({between} UNION ALL {last}) AS given WHERE from_tp < to_tp"


def _values(left: Steps, right: Steps, variables: tuple[Variable, ...]) -> list[str]:
    sources = (left.column(each, "a") if each in left.variables else right.column(each, "b") for each in variables)
    return [f"{source} AS {name}" for source, name in zip(sources, POINTS.columns(len(variables)), strict=True)]


def _count(left: Steps, right: Steps, multiplied: Multiplied) -> list[str]:
    if not left.counted and not right.counted:
        return []
    if multiplied == "least":
        return [f"LEAST({left.count('a')}, {right.count('b')}) AS n"]
    factors = [f"{alias}.n" for alias, side in (("a", left), ("b", right)) if side.counted]
    return [f"{' * '.join(factors)} AS n"]
