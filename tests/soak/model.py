"""What a home of a soak test must have: rows, answers, histories. The module shares no code with Weft.

Answers are those of each text at every instant, evaluated by DuckDB. A tracked table is a list of periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from every_instant import Row, Timeline

HOUR = 3_600_000_000
HEADS = "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept"
Period = tuple[int, "int | None"]
Held = dict[Row, list[Period]]
"""The periods of each row. An open period ends with None."""


@dataclass
class Query:
    """A standing query. ``earlier`` has each earlier text with the instant up to which it ran."""

    text: str
    to: str
    keep: str
    paused: bool = False
    earlier: list[tuple[str, int]] = field(default_factory=list)

    def answers(self, timeline: Timeline, instants: Sequence[int], until: int) -> dict[Row, int]:
        """Map each answer before ``until`` to its first instant, for the text that delivered it."""
        found: dict[Row, int] = {}
        for text, end in (*self.earlier, (self.text, until)):
            for row, at in timeline.first(text, [instant for instant in instants if instant < end]).items():
                found.setdefault(row, at)
        return found


@dataclass
class Model:
    """The rows that were accepted, the queries, and the periods of the tracked table by key."""

    orders: dict[int, tuple[int, int]] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    staff: dict[int, list[tuple[int, int | None, str]]] = field(default_factory=dict)
    last_poll: int = 0
    views: dict[str, str] = field(default_factory=lambda: {"heads": HEADS})

    def appended(self, rows: Iterable[Sequence[int]]) -> None:
        for key, amount, ref in rows:
            self.orders[key] = (amount, ref)

    def polled(self, state: Mapping[int, str], at: int) -> None:
        """The source has this state from the instant ``at`` on."""
        for key in {*self.staff, *state}:
            periods = self.staff.setdefault(key, [])
            now = periods[-1][2] if periods and periods[-1][1] is None else None
            if now == state.get(key):
                continue
            if now is not None:
                begin, _, dept = periods.pop()
                periods.append((begin, at, dept))
            if key in state:
                periods.append((at, None, state[key]))
        self.last_poll = at

    def state(self) -> dict[int, str]:
        """The rows of the source that were there at the last poll."""
        return {key: each[-1][2] for key, each in self.staff.items() if each and each[-1][1] is None}

    def corrected(self, key: int, begin: int, end: int, dept: str | None) -> None:
        """In the period [begin, end), the row was ``dept``, or did not exist."""
        left = []
        for first, last, value in self.staff.get(key, []):
            if first < begin:
                left.append((first, begin if last is None else min(last, begin), value))
            if last is None or last > end:
                left.append((max(first, end), last, value))
        if dept is not None:
            left.append((begin, end, dept))
        self.staff[key] = sorted(left, key=lambda each: each[0])

    def history(self) -> Held:
        """The periods of each row of the tracked table."""
        return joined(((key, dept), (begin, end)) for key, each in self.staff.items() for begin, end, dept in each)

    def view(self, text: str) -> Held:
        """The periods of each row of a view: its text, evaluated at each instant at which the table changes."""
        rows = [(*row, *period) for row, periods in self.history().items() for period in periods]
        instants = sorted({at for row in rows for at in row[2:] if at is not None})
        found: list[tuple[Row, Period]] = []
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE held (id BIGINT, dept VARCHAR, begins BIGINT, ends BIGINT)")
            if rows:
                connection.executemany("INSERT INTO held VALUES (?, ?, ?, ?)", rows)
            connection.execute("SET VARIABLE moment = 0")
            connection.execute(
                "CREATE VIEW staff AS SELECT id, dept FROM held WHERE begins <= getvariable('moment') "
                "AND (ends IS NULL OR ends > getvariable('moment'))"
            )
            connection.execute(f"CREATE VIEW heads AS {HEADS}")
            for at, following in zip(instants, [*instants[1:], None], strict=True):
                connection.execute(f"SET VARIABLE moment = {at}")
                found += [(row, (at, following)) for row in connection.execute(text).fetchall()]
        return joined(found)


def joined(rows: Iterable[tuple[Row, Period]]) -> Held:
    """Join the periods of equal rows that touch."""
    found: Held = {}
    for row, (begin, end) in sorted(rows, key=lambda each: (repr(each[0]), each[1][0])):
        periods = found.setdefault(row, [])
        if begin == end:
            continue
        if periods and periods[-1][1] == begin:
            periods[-1] = (periods[-1][0], end)
        else:
            periods.append((begin, end))
    return {row: periods for row, periods in found.items() if periods}


def timeline(orders: pa.Table, until: int) -> tuple[Timeline, list[int]]:
    """The table as DuckDB sees it, and the instants before ``until`` at which an answer can change."""
    made = Timeline({"orders": orders})
    return made, made.instants({"orders": ["ts"]}, until, (0, HOUR))
