"""Query the log of a tracked table: the periods known at an instant, and the change between two instants.

The change consists of ∇R and ΔR, and is limited to the rows with log records between the two instants. The deletions ∇R
contain each row with the times that are known only at the first instant. The insertions ΔR contain each row with the
times that are known only at the second instant. All queries are SQL for both engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.execution.engines.engine import Engine
from weft.period_sql.notation import VALID_TIME, listed
from weft.period_sql.sweep import Sweep
from weft.sql.rendering import render
from weft.sql.rendering.render import quoted
from weft.storage.periods import TS, values_of


@dataclass(frozen=True)
class Among:
    """The rows of a log that match some row of ``relation``.

    Each pair has a column of the log and an equal column of ``relation``.
    """

    relation: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def condition(self) -> str:
        """The SQL condition on a log row with the alias ``r``."""
        same = (f"r.{quoted(own)} IS NOT DISTINCT FROM o.{other}" for own, other in self.pairs)
        return f"EXISTS (SELECT 1 FROM {self.relation} AS o WHERE {' AND '.join(same)})"


@dataclass(frozen=True)
class LoggedTable:
    """The log of a tracked table as the view ``log`` of an engine, limited to the columns of ``schema``."""

    engine: Engine
    log: str
    stored: TableSchema
    schema: TableSchema
    ends: Mapping[int, str] = field(default_factory=dict)
    """If ``log`` has periods instead of log rows, the columns with their ends, by the instant (µs UTC) up to which the
    ends are known. A period that is not known then ends at its start.
    """

    @property
    def sweep(self) -> Sweep:
        """The operations over the periods of rows."""
        return Sweep(VALID_TIME, self.engine.dialect)

    @property
    def names(self) -> list[str]:
        """The quoted names of the value columns."""
        return [quoted(c.name) for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO, TS)]

    @property
    def width(self) -> int:
        """The number of value columns."""
        return len(self.names)

    def rows(self, after: int | None, until: int) -> str:
        """Return an SQL query for the rows ``c1 … cn`` that have log records in (after, until]."""
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        return f"SELECT DISTINCT {listed(heads)} FROM {self.log} WHERE {self.recorded(after, until)}"

    def recorded(self, after: int | None, until: int) -> str:
        """Return the SQL condition for log rows that were recorded in (after, until]."""
        low = "" if after is None else f"{TS} > {render.timestamp(after)} AND "
        return f"{low}{TS} <= {render.timestamp(until)}"

    def bounded(self, column: str, low: int, high: int) -> str:
        """Return an SQL query for the rows ``c1 … cn`` that have a log row with ``column`` in [low, high) (µs UTC)."""
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        bounds = f"{column} >= {render.timestamp(low)} AND {column} < {render.timestamp(high)}"
        return f"SELECT DISTINCT {listed(heads)} FROM {self.log} WHERE {bounds}"

    def known(self, until: int, among: Among | None = None, since: int | None = None) -> str:
        """Return an SQL query for the periods ``c1 … cn, valid_from, valid_to`` known at ``until`` (µs UTC).

        ``among`` limits the query to matching rows. The parts of periods before the instant ``since`` are cut off.
        """
        text = self.periods(until, among)
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        first, reaching = VALID_FROM, ""
        if since is not None:
            instant = render.timestamp(since)
            first = f"GREATEST({VALID_FROM}, {instant}) AS {VALID_FROM}"
            reaching = f" WHERE {VALID_TO} IS NULL OR {VALID_TO} > {instant}"
        text = f"SELECT {listed(heads, first, VALID_TO)} FROM ({text}) AS given{reaching}"
        return text if len(values_of(self.stored)) == self.width else self.sweep.coalesced(text, self.width)

    def periods(self, until: int, among: Among | None = None) -> str:
        """Return an SQL query for the periods known at ``until``. The columns have the names from the log."""
        every = [quoted(name) for name in values_of(self.stored)]
        some = f" AND {among.condition}" if among else ""
        if self.ends:
            end = self.ends[until]
            return (
                f"SELECT {listed(every, VALID_FROM, f'{end} AS {VALID_TO}')} FROM {self.log} AS r "
                f"WHERE {end} IS DISTINCT FROM {VALID_FROM}{some}"
            )
        last = f"MAX_BY({VALID_TO}, {TS})"  # NULL if the last log row has no end
        return (
            f"SELECT {listed(every, VALID_FROM)}, {last} AS {VALID_TO} FROM {self.log} AS r "
            f"WHERE {self.recorded(None, until)}{some} GROUP BY {listed(every, VALID_FROM)} "
            f"HAVING {last} IS DISTINCT FROM {VALID_FROM}"
        )

    def with_ends(self, ends: Mapping[int, str]) -> str:
        """Return an SQL query for all periods with the columns ``ends``, which are as in the field ``ends``."""
        heads = [*map(quoted, values_of(self.stored)), VALID_FROM]
        if self.ends:
            return f"SELECT {listed(heads, ends.values())} FROM {self.log}"
        texts = []
        for until, name in ends.items():
            recorded = self.recorded(None, until)
            last = f"MAX_BY({VALID_TO}, CASE WHEN {recorded} THEN {TS} END)"
            texts.append(f"CASE WHEN BOOL_OR({recorded}) THEN {last} ELSE {VALID_FROM} END AS {name}")
        return f"SELECT {listed(heads, texts)} FROM {self.log} GROUP BY {listed(heads)}"

    def all_of(self, relation: str) -> Among:
        """Return an ``Among`` that matches all value columns of the log with the relation ``c1 … cn``."""
        columns = [c.name for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO, TS)]
        return Among(relation, tuple((name, f"c{number}") for number, name in enumerate(columns, 1)))

    def make_change(self, name: str, touched: str, after: int, until: int) -> tuple[str | None, str | None]:
        """Create tables of ∇R and ΔR between two instants for the rows in ``touched``. Return both names.

        The names begin with ``name``. If a table would be empty, the table is not created and its name is None.
        """
        some, among = self, self.all_of(touched)
        if self.ends and len(values_of(self.stored)) == self.width:
            # No two periods of a row overlap, so the periods that stay as they are hide no change.
            changed = f"SELECT * FROM {self.log} WHERE {self.ends[after]} IS DISTINCT FROM {self.ends[until]}"
            some = replace(self, log=f"({changed})")
        both = ((f"({some.known(after, among)})", -1), (f"({some.known(until, among)})", 1))
        if not self.engine.table(name, self.sweep.summed(both, self.width, "<> 0")):
            return None, None
        heads = listed(VALID_TIME.columns(self.width), VALID_FROM, VALID_TO)
        deleted, inserted = (f"SELECT {heads} FROM {name} WHERE n {sign} 0" for sign in "<>")
        return self._created(f"{name}_deleted", deleted), self._created(f"{name}_inserted", inserted)

    def _created(self, name: str, text: str) -> str | None:
        return name if self.engine.table(name, text) else None


def change_of(old: str, new: str, width: int) -> str:
    """Return an SQL query for the log rows that change the periods of a log from ``old`` to ``new``.

    For a period that disappears, the query returns a row whose end equals its start. ``old`` and ``new`` are names of
    relations ``c1 … cn, valid_from, valid_to``.
    """
    rows = VALID_TIME.columns(width)
    same = " AND ".join(f"a.{each} IS NOT DISTINCT FROM b.{each}" for each in (*rows, VALID_FROM))
    heads = listed(VALID_TIME.columns(width, "a"), f"a.{VALID_FROM}")
    ends = f"a.{VALID_TO} IS NOT DISTINCT FROM b.{VALID_TO}"
    return (
        f"SELECT {heads}, a.{VALID_TO} FROM {new} AS a ANTI JOIN {old} AS b ON {same} AND {ends} "
        f"UNION ALL SELECT {heads}, a.{VALID_FROM} AS {VALID_TO} FROM {old} AS a ANTI JOIN {new} AS b ON {same}"
    )


def first_difference(old: str, new: str, sweep: Sweep, width: int) -> str:
    """Return an SQL query for the first instant (µs UTC) at which two coalesced relations differ."""
    differing = sweep.summed([(old, -1), (new, 1)], width, "<> 0")
    return f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({differing}) AS differing"
