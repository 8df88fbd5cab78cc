"""Render the functions of a tuple's periods: first and last instant, length, and relations between two tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.period_sql.notation import VALID_TIME, listed, over


@dataclass(frozen=True)
class Until:
    """SQL for the instant at which periods are evaluated, and for the next instant.

    ``judged`` appends ``suffix`` to column names, so that one SELECT can use several instants.
    """

    instant: str
    after: str
    suffix: str = ""

    @property
    def start(self) -> str:
        """SQL for the start of a period, or NULL if the period starts after the instant."""
        return f"CASE WHEN valid_from <= {self.instant} THEN valid_from END"

    @property
    def end(self) -> str:
        """SQL for the end of a period, or NULL if the period starts after the instant.

        The end is at most the next instant.
        """
        return f"CASE WHEN valid_from <= {self.instant} THEN LEAST(COALESCE(valid_to, {self.after}), {self.after}) END"


def judged(name: str, width: int, untils: Sequence[Until]) -> str:
    """Return SQL that adds columns with the values of the period functions at the instants ``untils``.

    The columns are ``period_start``, ``period_end`` and ``period_length``, each with the suffix of the instant.
    """
    tuple_ = over(VALID_TIME.columns(width))
    said = []
    for each in untils:
        length = f"SUM(UNIX_MICROS({each.end}) - UNIX_MICROS({each.start})) {tuple_}"
        said += [
            f"MIN({each.start}) {tuple_} AS period_start{each.suffix}",
            f"MAX({each.end}) {tuple_} - INTERVAL '1' MICROSECOND AS period_end{each.suffix}",
            f"TIMESTAMP_MICROS(CAST({length} AS BIGINT)) - TIMESTAMP '1970-01-01 00:00:00+00:00' "
            f"AS period_length{each.suffix}",
        ]
    return f"SELECT {listed(VALID_TIME.columns(width), 'valid_from', 'valid_to', said)} FROM {name}"


def cut(name: str, width: int, until: Until) -> str:
    """Return SQL for the periods up to an instant.  The column ``periods`` is the number of periods in the tuple.

    If a period is open or ends after the instant, the SQL ends the period just after the instant.
    """
    columns = VALID_TIME.columns(width)
    return (
        f"SELECT {listed(columns)}, valid_from, {until.end} AS valid_to, COUNT(*) {over(columns)} AS periods "
        f"FROM {name} WHERE valid_from <= {until.instant}"
    )


def pairs(outer: tuple[str, int], inner: tuple[str, int], condition: str, until: Until, *, contained: bool) -> str:
    """Return SQL for pairs of an outer tuple and an inner tuple whose periods up to an instant are related.

    If ``contained`` is true, the outer tuple must be valid at every instant of the inner tuple.  Otherwise, the outer
    tuple must be valid at some instant of the inner tuple.  The columns are ``c1 …`` of both tuples, in order, and
    ``holds``.  ``outer`` and ``inner`` are pairs (name, width).  ``condition`` refers to the aliases ``a`` and ``b``.

    Because periods are maximal, a period of the inner tuple is covered by a single period of the outer tuple, or not at
    all.  The SQL compares the number of covered periods with the number of all periods.
    """
    pair = [*VALID_TIME.columns(outer[1], "a"), *VALID_TIME.columns(inner[1], "b")]
    named = [f"{column} AS c{number}" for number, column in enumerate(pair, 1)]
    related = (
        "a.valid_from <= b.valid_from AND b.valid_to <= a.valid_to"
        if contained
        else "a.valid_from < b.valid_to AND b.valid_from < a.valid_to"
    )
    all_of_them = " HAVING COUNT(*) = b.periods" if contained else ""
    return (
        f"SELECT {listed(named)}, TRUE AS holds "
        f"FROM ({cut(*outer, until)}) AS a CROSS JOIN ({cut(*inner, until)}) AS b "
        f"WHERE {related}{condition} GROUP BY {listed(pair, 'b.periods')}{all_of_them}"
    )
