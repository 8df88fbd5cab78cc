"""Define what an engine can do, and which of two equal queries it runs faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.period_sql.axis import listed, over


@dataclass(frozen=True)
class Dialect:
    """The differences between the two engines.

    - ``asof``: whether the engine has ASOF JOIN, which finds the latest row of a key in one pass over sorted rows.
    - ``in_sequence``: whether window functions are faster over one sorted sequence than over a partition for each key.
    - ``materialized``: whether a query can read one of its parts several times without computing it again.
    - ``both_bounds``: text after FROM that returns each row twice, with ``side`` 0 and 1.  A union of two queries would
      contain the given query twice, and a chain of queries would grow exponentially.
    - ``quotient``: the operator for integer division that truncates.
    - ``matches``: the function that searches for a pattern.
    - ``groups``: whether an empty group of a match differs from a group that did not participate in the match.
    - ``infinite``: whether a DOUBLE divided by 0 is infinite.
    """

    asof: bool
    in_sequence: bool
    materialized: bool
    both_bounds: str
    quotient: str
    matches: str
    groups: bool
    infinite: bool

    def over(self, keys: Sequence[str], order: str, frame: str = "") -> str:
        """Return the window of running totals that are 0 from the last row of each key on.

        The totals are therefore 0 at the first row of the next key, and one sequence serves all keys.  In this sequence
        LEAD at the last row of a key returns a value of the next key, so the caller must ignore it.
        """
        return over((), listed(keys, order), frame) if self.in_sequence else over(keys, order, frame)


DUCKDB: Final = Dialect(
    asof=True,
    in_sequence=True,
    materialized=True,
    both_bounds="CROSS JOIN (SELECT 0 AS side UNION ALL SELECT 1 AS side) AS sides",
    quotient="//",
    matches="REGEXP_MATCHES",
    groups=True,
    infinite=True,
)
SPARK: Final = Dialect(
    asof=False,
    in_sequence=False,
    materialized=False,
    both_bounds="LATERAL VIEW EXPLODE(ARRAY(0, 1)) sides AS side",
    quotient="DIV",
    matches="REGEXP_LIKE",
    groups=False,
    infinite=False,
)
