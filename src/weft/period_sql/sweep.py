"""Render the operations that pass over the bounds of periods in the order of time.

Each operation takes queries, and returns a query with the columns of the axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from weft.period_sql.notation import Axis, Dialect, conjunction, listed, over, same

Span: TypeAlias = "tuple[str, str] | None"
"""SQL for the start and the end of the time in which a group without keys exists, also without rows."""


@dataclass(frozen=True)
class Sweep:
    """The operations over an axis, as SQL for an engine."""

    axis: Axis
    dialect: Dialect

    def bounds(
        self, query: str, keys: Sequence[str], heads: Sequence[str], span: Span = None, of_span: Sequence[str] = ()
    ) -> str:
        """Return SQL with two rows for each period: ``keys``, the bound as ``instant``, and ``heads``.

        ``heads`` is SQL over ``query`` and ``side``, which is 0 at the start and 1 at the end.  At the bounds of
        ``span``, the values of ``heads`` are ``of_span``.
        """
        axis = self.axis
        instant = f"CASE WHEN side = 0 THEN {axis.start} ELSE {axis.closed(axis.end)} END AS instant"
        events = f"SELECT {listed(keys, instant, heads)} FROM ({query}) AS given {self.dialect.both_bounds}"
        for bound in span or ():
            events += f" UNION ALL SELECT {listed(bound, of_span)}"
        return events

    def totals(
        self,
        query: str,
        keys: Sequence[str],
        amounts: Mapping[str, str],
        heads: Sequence[str],
        span: Span = None,
        extremes: Mapping[str, tuple[str, str]] = MappingProxyType({}),
        there: str = "> 0",
    ) -> str:
        """Return SQL with ``keys``, ``heads`` and a period for each fragment between two bounds of the same keys.

        ``amounts`` maps names to SQL over ``query``.  A running total adds an amount at the start of its period, and
        subtracts it at the end.  ``heads`` is SQL over the totals, which have these names.  The first amount counts
        rows: without ``span``, the result omits fragments in which its total is not ``there``.  ``extremes`` maps names
        to MIN or MAX and SQL over ``query``.  They are right only if no period ends before the last instant.
        """
        names = tuple(amounts)
        signed = [f"CASE WHEN side = 0 THEN {value} ELSE -{value} END AS {name}" for name, value in amounts.items()]
        signed += [f"CASE WHEN side = 0 THEN {value} END AS {name}" for name, (_, value) in extremes.items()]
        bounds = self.bounds(query, keys, signed, span, ["0"] * len(names) + ["NULL"] * len(extremes))
        sums = [f"SUM({name}) AS {name}" for name in names]
        sums += [f"{function}({name}) AS {name}" for name, (function, _) in extremes.items()]
        at_once = f"SELECT {listed(keys, 'instant', sums)} FROM ({bounds}) AS bounds GROUP BY {listed(keys, 'instant')}"
        if not span:  # otherwise the bounds of the span, which change no total, must remain
            at_once += f" HAVING {' OR '.join(f'SUM({name}) <> 0' for name in names)}"
        window = self.dialect.over(keys, "instant")
        so_far = [f"SUM({name}) {window} AS {name}" for name in names]
        alone = over(keys, "instant")
        so_far += [f"{function}({name}) {alone} AS {name}" for name, (function, _) in extremes.items()]
        totals = (
            f"SELECT {listed(keys, so_far, 'instant', f'LEAD(instant) {window} AS next')} FROM ({at_once}) AS at_once"
        )
        exists = "next IS NOT NULL" if span else f"{names[0]} {there}"
        period = self.axis.spelled("instant", "next")
        return f"SELECT {listed(keys, heads, period)} FROM ({totals}) AS totals WHERE {exists}"

    def fragments(self, query: str, keys: Sequence[str], measures: Sequence[str], span: Span = None) -> str:
        """Return SQL that computes ``measures`` again for each fragment between two bounds of the same keys.

        ``measures`` are SQL aggregates over ``query``, which has the alias ``r``.  With ``span``, there must be no
        keys.
        """
        return self.dialect.sharing("lived", query, lambda rows: self._fragments(rows, keys, measures, span))

    def _fragments(self, query: str, keys: Sequence[str], measures: Sequence[str], span: Span) -> str:
        bounds = f"SELECT DISTINCT {listed(keys, 'instant')} FROM ({self.bounds(query, keys, (), span)}) AS bounds"
        following = f"LEAD(instant) {self.dialect.over(keys, 'instant')} AS next"
        cuts = f"SELECT {listed(keys, 'instant', following)} FROM ({bounds}) AS bounds"
        met = conjunction([*same(keys, "f", "r"), *self.axis.holds("r", "f.instant")])
        joined = (
            f"LEFT JOIN ({query}) AS r ON {met} WHERE f.next IS NOT NULL" if span else f"JOIN ({query}) AS r ON {met}"
        )
        own = [f"f.{key}" for key in keys]
        heads = listed(own, measures, self.axis.spelled("f.instant", "f.next"))
        return f"SELECT {heads} FROM ({cuts}) AS f {joined} GROUP BY {listed(own, 'f.instant', 'f.next')}"

    def coalesced(self, query: str, width: int) -> str:
        """Return SQL that merges overlapping or adjacent periods of equal rows into maximal periods."""
        keys = self.axis.columns(width)
        if not self.dialect.in_sequence:
            return self._islands(query, keys)
        if not self.dialect.materialized or not keys:
            return self._counted(query, keys)
        (start, end), columns = self.axis.period, listed(keys, self.axis.period)
        only = (f"MIN({start}) AS {start}", f"MIN({end}) AS {end}", "COUNT(*) AS periods")
        once = f"SELECT {listed(keys, only)} FROM given GROUP BY {listed(keys)}"
        several = f"SELECT g.* FROM given AS g SEMI JOIN several AS o ON {conjunction(same(keys, 'g', 'o'))}"
        return (
            f"WITH given AS MATERIALIZED ({query}), once AS MATERIALIZED ({once}), "
            f"several AS (SELECT * FROM once WHERE periods > 1) SELECT {columns} FROM once WHERE periods = 1 "
            f"UNION ALL SELECT {columns} FROM ({self._counted(several, keys)}) AS swept"
        )

    def once(self, query: str, width: int) -> str:
        """Return SQL with the first period of each row.  If each row has one period, the result is ``coalesced``."""
        (start, end), keys = self.axis.period, listed(self.axis.columns(width))
        only = f"MIN({start}) AS {start}, MIN({end}) AS {end}"
        return f"SELECT {listed(keys, only)} FROM ({query}) AS given GROUP BY {keys}"

    def _counted(self, query: str, keys: Sequence[str]) -> str:
        """Count the periods that hold.  At one instant starts come before ends, so that adjacent periods merge."""
        order = "instant, d DESC"
        counted = f"SUM(d) {self.dialect.over(keys, order, 'ROWS UNBOUNDED PRECEDING')} AS n"
        bounds = self.bounds(query, keys, ["CASE WHEN side = 0 THEN 1 ELSE -1 END AS d"])
        counts = f"SELECT {listed(keys, 'instant', 'd', counted)} FROM ({bounds}) AS bounds"
        heads = listed(keys, "instant", f"LEAD(instant) {self.dialect.over(keys, order)} AS next", "n")
        outer = f"SELECT {heads} FROM ({counts}) AS counts WHERE n = 0 OR (n = 1 AND d = 1)"
        return f"SELECT {listed(keys, self.axis.spelled('instant', 'next'))} FROM ({outer}) AS outer_bounds WHERE n > 0"

    def _islands(self, query: str, keys: Sequence[str]) -> str:
        """A period that starts after the end of all earlier periods begins an island."""
        start, reach = self.axis.start, self.axis.closed(self.axis.end)
        before = over(keys, start, "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")
        begins = f"CASE WHEN {start} <= MAX({reach}) {before} THEN 0 ELSE 1 END AS begins"
        begun = f"SELECT {listed(keys, self.axis.period, begins)} FROM ({query}) AS given"
        # Periods with the same start are peers in the running sum, so they belong to one island.
        island = f"SUM(begins) {over(keys, start)} AS island"
        islands = f"SELECT {listed(keys, self.axis.period, island)} FROM ({begun}) AS begun"
        period = self.axis.spelled(f"MIN({start})", f"MAX({reach})")
        return f"SELECT {listed(keys, period)} FROM ({islands}) AS islands GROUP BY {listed(keys, 'island')}"

    def subtracted(self, left: str, right: str, width: int, counts: tuple[str, str] = ("1", "1")) -> str:
        """Return SQL for the counts of ``left`` minus the counts of equal rows of ``right``, where the rest exceeds 0.

        ``left`` and ``right`` are names, or queries in parentheses.  In each, the periods of equal rows are disjoint.
        ``counts`` is SQL for the counts of both.  The result has the column ``n`` if ``left`` has counts other than 1.
        """
        keys, (one, other) = self.axis.columns(width), counts
        count = [] if one == "1" else [f"{one} AS n"]
        alone = ""
        if self.dialect.materialized:
            met = conjunction(same(keys, "g", "o"))
            heads = listed(keys, count, self.axis.period)
            alone = f"SELECT {heads} FROM {left} AS g ANTI JOIN {right} AS o ON {met} UNION ALL "
            left, right = (
                f"(SELECT g.* FROM {source} AS g SEMI JOIN {others} AS o ON {met})"
                for source, others in ((left, right), (right, left))
            )
        both = " UNION ALL ".join(
            f"SELECT {listed(keys, f'{n} AS n', self.axis.period)} FROM {source} AS given"
            for n, source in ((one, left), (f"-{other}", right))
        )
        rest = ["CAST(n AS BIGINT) AS n"] if count else []
        return f"{alone}{self.totals(both, keys, {'n': 'n'}, rest)}"

    def summed(self, parts: Sequence[tuple[str, int]], width: int, there: str = "> 0") -> str:
        """Return SQL that sums signed relations: the rows, the sum as ``n``, and maximal periods with the same sum.

        ``parts`` are names or queries in parentheses, each with the number that one of its periods counts.  The result
        omits the periods for which ``there`` is false.
        """
        keys = self.axis.columns(width)
        signed = " UNION ALL ".join(
            f"SELECT {listed(keys, f'{count} AS n', self.axis.period)} FROM {part} AS given" for part, count in parts
        )
        return self.totals(signed, keys, {"n": "n"}, ["CAST(n AS BIGINT) AS n"], there=there)

    def added_up(self, query: str, width: int) -> str:
        """Return SQL that adds the counts ``n`` of equal rows at each instant.  Periods may overlap."""
        keys = self.axis.columns(width)
        return self.totals(query, keys, {"n": "n"}, ["CAST(n AS BIGINT) AS n"])

    def greatest(self, query: str, width: int) -> str:
        """Return SQL for the greatest count ``n`` among equal rows at each instant.  Periods may overlap."""
        return self.fragments(query, self.axis.columns(width), ["MAX(r.n) AS n"])

    def extended(self, query: str, width: int, by: str, last: str) -> str:
        """Return SQL that extends each period [a, b) to [a, b + ``by``).

        A period that would continue after the instant ``last`` is open, or ends just after ``last``.
        """
        (start, end), keys = self.axis.period, self.axis.columns(width)
        later = f"{self.axis.up_to(f'{end} + {by}', last)} AS {end}"
        return self.coalesced(f"SELECT {listed(keys, start, later)} FROM {query} AS given", width)
