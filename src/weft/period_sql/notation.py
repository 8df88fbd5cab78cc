"""Define how relations over time are written in SQL, what an engine can do, and compose SQL from parts.

A relation over an *axis* has a row for each value and period: the columns of the value by position, and a period
[start, end).  A row can have several periods.  The row and all its periods form a *tuple*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.schema import VALID_FROM, VALID_TO
from weft.period_sql.ordered import DuckdbOrdered, Ordered, SparkOrdered


def listed(*parts: str | Iterable[str]) -> str:
    """Join the items of ``parts`` by commas.  Omit empty items."""
    flat = [item for part in parts for item in ((part,) if isinstance(part, str) else part)]
    return ", ".join(item for item in flat if item)


def conjunction(conditions: Iterable[str]) -> str:
    """Return the SQL conjunction of ``conditions``, or TRUE if there are none."""
    return " AND ".join(conditions) or "TRUE"


def same(keys: Iterable[str], one: str, other: str) -> list[str]:
    """Return SQL conditions that the rows with the aliases ``one`` and ``other`` have equal or NULL ``keys``."""
    return [f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in keys]


def over(keys: Iterable[str], order: str = "", frame: str = "") -> str:
    """Return ``OVER (PARTITION BY keys ORDER BY order frame)`` without the empty parts."""
    names = listed(keys)
    parts = (f"PARTITION BY {names}" if names else "", f"ORDER BY {order}" if order else "", frame)
    return f"OVER ({' '.join(part for part in parts if part)})"


@dataclass(frozen=True)
class Axis:
    """The names of the columns of a relation: ``letter1 … lettern, start, end``.

    ``forever`` is SQL for the infinite end.  The end of an open period is NULL in a relation, and ``forever`` within a
    computation.  Without ``forever``, every period has an end.
    """

    start: str
    end: str
    letter: str
    forever: str = ""

    @property
    def period(self) -> tuple[str, str]:
        """The names of the start and the end."""
        return self.start, self.end

    def columns(self, width: int, alias: str = "") -> list[str]:
        """Return the names of the first ``width`` columns, qualified by ``alias`` if it is not empty."""
        return [
            f"{alias}.{self.letter}{number}" if alias else f"{self.letter}{number}" for number in range(1, width + 1)
        ]

    def closed(self, end: str) -> str:
        """Return SQL for an end that is never NULL."""
        return f"COALESCE({end}, {self.forever})" if self.forever else end

    def opened(self, end: str) -> str:
        """Return SQL for an end that is NULL if it is infinite."""
        return f"NULLIF({end}, {self.forever})" if self.forever else end

    def spelled(self, start: str, end: str) -> list[str]:
        """Return the heads of a SELECT for a period with the bounds ``start`` and ``end``, which is never NULL."""
        return [f"{start} AS {self.start}", f"{self.opened(end)} AS {self.end}"]

    def up_to(self, end: str, last: str) -> str:
        """Return SQL for an end if nothing is known after the instant ``last``."""
        return f"CASE WHEN {end} <= {last} THEN {end} END" if self.forever else f"LEAST({end}, {last} + 1)"

    def overlap(self, aliases: Sequence[str]) -> list[str]:
        """Return SQL conditions that the periods of ``aliases`` have a common instant."""
        pairs = [(one, other) for one in aliases for other in aliases if one != other]
        met = [(f"{one}.{self.start} < {other}.{self.end}", f"{other}.{self.end}") for one, other in pairs]
        return [f"({end} IS NULL OR {before})" if self.forever else before for before, end in met]

    def common(self, aliases: Sequence[str]) -> list[str]:
        """Return SQL for the start and the end of the intersection of the periods of ``aliases``."""
        starts, ends = [f"{each}.{self.start}" for each in aliases], [f"{each}.{self.end}" for each in aliases]
        bounds = starts + ends
        if len(aliases) > 1:
            bounds = [f"GREATEST({listed(starts)})", f"LEAST({listed(ends)})"]  # both ignore NULLs
        return [f"{bound} AS {name}" for bound, name in zip(bounds, self.period, strict=True)]

    def holds(self, alias: str, instant: str) -> list[str]:
        """Return SQL conditions that the period of ``alias`` contains an instant.  No period contains ``forever``."""
        return [f"{alias}.{self.start} <= {instant}", f"{instant} < {self.closed(f'{alias}.{self.end}')}"]


VALID_TIME: Final = Axis(VALID_FROM, VALID_TO, "c", "TIMESTAMP '9999-12-31 23:59:59.999999+00:00'")
"""Instants.  Temporal views and the histories of tables are relations over this axis."""
POINTS: Final = Axis("from_tp", "to_tp", "v")
"""The time points of a batch, as BIGINT.  The values of formulas are relations over this axis."""
RUNS: Final = Axis("instant", "last", "v")
"""Instants in microseconds, as BIGINT."""


@dataclass(frozen=True)
class Dialect:
    """The differences between the two engines.

    - ``asof``: whether the engine has ASOF JOIN, which finds the latest row of a key in one pass over sorted rows.
    - ``ahead``: whether window functions over the following values, up to the last one, take one pass over sorted rows.
    - ``numbers``: SQL that returns a row for each integer from ``{0}`` to ``{1}``, without the latter.
    - ``in_sequence``: whether window functions are faster over one sorted sequence than over a partition for each key.
    - ``materialized``: whether a query can read one of its parts several times without computing it again.
    - ``both_bounds``: text after FROM that returns each row twice, with ``side`` 0 and 1.  A union of two queries would
      contain the given query twice, and a chain of queries would grow exponentially.
    - ``quotient``: the operator for integer division that truncates.
    - ``matches``: the function that searches for a pattern.
    - ``groups``: whether an empty group of a match differs from a group that did not participate in the match.
    - ``infinite``: whether a DOUBLE divided by 0 is infinite.
    - ``ordered``: the aggregates that read the values of a group in ascending order.
    """

    asof: bool
    ahead: bool
    numbers: str
    in_sequence: bool
    materialized: bool
    both_bounds: str
    quotient: str
    matches: str
    groups: bool
    infinite: bool
    ordered: Ordered

    def over(self, keys: Sequence[str], order: str, frame: str = "") -> str:
        """Return the window of running totals that are 0 from the last row of each key on.

        The totals are therefore 0 at the first row of the next key, and one sequence serves all keys.  In this sequence
        LEAD at the last row of a key returns a value of the next key, so the caller must ignore it.
        """
        return over((), listed(keys, order), frame) if self.in_sequence else over(keys, order, frame)

    def sharing(self, name: str, query: str, reading: Callable[[str], str]) -> str:
        """Return ``reading(query)``, which reads ``query`` several times.  An engine that can computes it once.

        ``reading`` must not define ``name``.
        """
        if not self.materialized:
            return reading(query)
        return f"WITH {name} AS MATERIALIZED ({query}) SELECT * FROM ({reading(f'SELECT * FROM {name}')}) AS reading"


DUCKDB: Final = Dialect(
    asof=True,
    ahead=True,
    numbers="UNNEST(RANGE({0}, {1}))",
    in_sequence=True,
    materialized=True,
    both_bounds="CROSS JOIN (SELECT 0 AS side UNION ALL SELECT 1 AS side) AS sides",
    quotient="//",
    matches="REGEXP_MATCHES",
    groups=True,
    infinite=True,
    ordered=DuckdbOrdered(),
)
SPARK: Final = Dialect(
    asof=False,
    ahead=False,
    numbers="EXPLODE(SEQUENCE({0}, {1} - 1))",
    in_sequence=False,
    materialized=False,
    both_bounds="LATERAL VIEW EXPLODE(ARRAY(0, 1)) sides AS side",
    quotient="DIV",
    matches="REGEXP_LIKE",
    groups=False,
    infinite=False,
    ordered=SparkOrdered(),
)
