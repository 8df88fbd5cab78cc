"""Compute operations on relations over time points. An engine runs the queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from weft.algebra.formula import Variable
from weft.derivation.synopsis.prepared import Semantics
from weft.execution.engines.engine import Engine
from weft.period_sql.notation import POINTS, listed
from weft.period_sql.steps import PERIOD, Extent, Steps, joined, without
from weft.period_sql.sweep import Sweep

Value: TypeAlias = "Steps | None"
"""A relation over time points. An empty relation is None."""


@dataclass
class Operations:
    """Operations over the time points of ``extent``. ``now`` is the instant of the last time point (µs UTC)."""

    engine: Engine
    semantics: Semantics
    extent: Extent
    now: int
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def counts(self) -> bool:
        """Whether answers may have counts greater than 1."""
        return self.semantics != "set"

    @property
    def sweep(self) -> Sweep:
        """The operations over periods of time points."""
        return Sweep(POINTS, self.engine.dialect)

    @property
    def everything(self) -> Steps:
        """A relation without columns that is true at all time points."""
        query = f"(SELECT CAST({self.extent.first} AS BIGINT) AS from_tp, CAST({self.extent.end} AS BIGINT) AS to_tp)"
        return Steps(query, (), points=self.extent.end == self.extent.first + 1)

    def relation(self, query: str, variables: tuple[Variable, ...], *, counted: bool, points: bool) -> Value:
        """Run a query and store the rows as a table of the engine. Return None if the query has no rows."""
        name = self.table(query)
        return None if name is None else Steps(name, variables, counted=counted, points=points)

    def table(self, query: str) -> str | None:
        """Store the rows of a query as a table of the engine. Return its name, or None if it certainly has no rows."""
        name = f"step_{self.extent.first}_{next(self.numbers)}"
        return name if self.engine.table(name, query) else None

    def merged(self, values: list[Value], variables: tuple[Variable, ...]) -> Value:
        """Return the value of ∨ or ∃: the union of ``values``, projected to ``variables``.

        The count of a row is the sum of the counts in all values, or the maximum with the semantics ``minmax``.
        """
        there = [value for value in values if value is not None]
        if not there or (len(there) == 1 and set(there[0].variables) == set(variables)):
            return there[0].named(there[0].variables) if there else None
        counted, width = self.semantics != "set", len(variables)
        count = ["n"] if counted else []
        parts = []
        for each in there:
            heads = [f"{each.column(variable)} AS v{number}" for number, variable in enumerate(variables, 1)]
            own = [f"CAST({each.count()} AS BIGINT) AS n"] if counted else []
            parts.append(f"SELECT {listed(heads, own, PERIOD)} FROM {each.source} AS given")
        every, points = " UNION ALL ".join(parts), all(each.points for each in there)
        keys = POINTS.columns(width)
        if points:
            function = "MAX(n)" if self.semantics == "minmax" else "CAST(SUM(n) AS BIGINT)"
            summed = [f"{function} AS n"] if counted else []
            query = f"SELECT {listed(keys, summed, PERIOD)} FROM ({every}) AS given GROUP BY {listed(keys, PERIOD)}"
        elif counted:
            query = (self.sweep.greatest if self.semantics == "minmax" else self.sweep.added_up)(every, width)
        else:
            query = self.sweep.coalesced(every, width)
        return self.relation(query, variables, counted=bool(count), points=points)

    def distinct(self, value: Value) -> Value:
        """Return the value of ε, in which each answer has the count 1."""
        if value is None or not value.counted:
            return value
        rows = f"SELECT {listed(value.values(), PERIOD)} FROM {value.source} AS given"
        query = rows if value.points else self.sweep.coalesced(rows, len(value.variables))
        return self.relation(query, value.variables, counted=False, points=value.points)

    def where(self, value: Value, when: Value) -> Value:
        """Return the rows of ``value`` that match a row of ``when`` at the same time point. Counts do not change."""
        return self.joined(value, when, least=False)

    def joined(self, left: Value, right: Value, *, least: bool | None = None) -> Value:
        """Return the value of ∧: the natural join of two values at each time point.

        The count of a joined row is the product of the two counts. If ``least`` is true, the count is the smaller of
        the two counts. If ``least`` is None, the semantics determines the count.
        """
        if left is None or right is None:
            return None
        variables = tuple(dict.fromkeys((*left.variables, *right.variables)))
        least = self.semantics == "minmax" if least is None else least
        query = joined(left, right, variables, self.engine.dialect, "least" if least else "times")
        counted, points = left.counted or right.counted, left.points or right.points
        return self.relation(query, variables, counted=counted, points=points)

    def without(self, left: Value, right: Value) -> Value:
        """Return the value of Q1 ∧ ¬Q2. ``left`` is the value of Q1, and ``right`` is the value of Q2."""
        if left is None or right is None:
            return left
        query = without(left, right, self.extent, self.engine.dialect)
        return self.relation(query, left.variables, counted=left.counted, points=left.points)

    def ordered(self, value: Value, variables: tuple[Variable, ...]) -> Value:
        """Return the relation with its columns in the order of ``variables``."""
        return None if value is None else value.ordered(variables)
