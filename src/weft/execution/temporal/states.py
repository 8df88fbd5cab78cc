"""What the log of a tracked table told at an instant, and what has changed between two, as tables of ``TemporalSql``.

A change between two instants is ∇R and ΔR: of the rows that the log has anything about in between, the instants that
were known to hold and do not, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.sql import render
from weft.sql.sweeping import columns_of, listed
from weft.sql.sweeping_local import coalesced_locally, without_locally
from weft.storage.local_sql import quoted
from weft.storage.periods import TS, values_of
from weft.storage.temporal_sql import TemporalSql


@dataclass(frozen=True)
class Among:
    """The rows of a log that agree with some row of ``relation`` in pairs of columns (its own, the relation's)."""

    relation: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def condition(self) -> str:
        """It, of the log under the alias ``r``."""
        same = (f"r.{quoted(own)} IS NOT DISTINCT FROM o.{other}" for own, other in self.pairs)
        return f"EXISTS (SELECT 1 FROM {self.relation} AS o WHERE {' AND '.join(same)})"


@dataclass(frozen=True)
class LoggedTable:
    """The log of a tracked table as the view ``log``, seen through the columns of ``schema`` (all it has, or fewer)."""

    sql: TemporalSql
    log: str
    stored: TableSchema
    schema: TableSchema
    told: bool = False
    """Whether ``log`` has no log rows but the periods that they tell of, as known at the instant that is asked for."""

    @property
    def names(self) -> list[str]:
        """The columns of its rows, quoted."""
        return [quoted(c.name) for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO, TS)]

    @property
    def width(self) -> int:
        """How many columns its rows have."""
        return len(self.names)

    def rows(self, after: int | None, until: int) -> str:
        """A query of the rows that the log has anything about, recorded in (after, until]: ``c1 … cn``."""
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        return f"SELECT DISTINCT {listed(heads)} FROM {self.log} WHERE {self.recorded(after, until)}"

    def recorded(self, after: int | None, until: int) -> str:
        """That a log row was recorded in (after, until]."""
        low = "" if after is None else f"{TS} > {render.timestamp(after)} AND "
        return f"{low}{TS} <= {render.timestamp(until)}"

    def bounded(self, column: str, low: int, high: int) -> str:
        """A query of the rows with a log row whose ``column`` is in [low, high) (µs UTC): ``c1 … cn``."""
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        bounds = f"{column} >= {render.timestamp(low)} AND {column} < {render.timestamp(high)}"
        return f"SELECT DISTINCT {listed(heads)} FROM {self.log} WHERE {bounds}"

    def known(self, until: int, among: Among | None = None, since: int | None = None) -> str:
        """A query of the periods as known at ``until`` (µs UTC): ``c1 … cn, valid_from, valid_to``; see ``Among``.

        With ``since`` only what they have from that instant on.
        """
        text = self.periods(until, among)
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        first, reaching = VALID_FROM, ""
        if since is not None:
            instant = render.timestamp(since)
            first = f"GREATEST({VALID_FROM}, {instant}) AS {VALID_FROM}"
            reaching = f" WHERE {VALID_TO} IS NULL OR {VALID_TO} > {instant}"
        text = f"SELECT {listed(heads, first, VALID_TO)} FROM ({text}) AS told{reaching}"
        return text if len(values_of(self.stored)) == self.width else coalesced_locally(text, self.width)

    def periods(self, until: int, among: Among | None = None) -> str:
        """The same with all columns of the log under their own names."""
        every = [quoted(name) for name in values_of(self.stored)]
        some = f" AND {among.condition}" if among else ""
        if self.told:
            return f"SELECT {listed(every, VALID_FROM, VALID_TO)} FROM {self.log} AS r WHERE TRUE{some}"
        # An aggregate leaves out NULLs, and a period that is open ends in one.
        last = f"arg_max(struct_pack(at := {VALID_TO}), {TS}).at"
        return (
            f"SELECT {listed(every, VALID_FROM)}, {last} AS {VALID_TO} FROM {self.log} AS r "
            f"WHERE {self.recorded(None, until)}{some} GROUP BY {listed(every, VALID_FROM)} "
            f"HAVING {last} IS DISTINCT FROM {VALID_FROM}"
        )

    def all_of(self, relation: str) -> Among:
        """The rows of a relation ``c1 … cn``."""
        columns = [c.name for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO, TS)]
        return Among(relation, tuple((name, f"c{number}") for number, name in enumerate(columns, 1)))

    def make_change(self, name: str, touched: str, after: int, until: int) -> tuple[str | None, str | None]:
        """Makes tables of ∇R and ΔR between two instants, of the rows ``touched``; their names begin with ``name``.

        None for one that is empty.
        """
        among = self.all_of(touched)
        old = self._made(f"{name}_old", self.known(after, among))
        new = self._made(f"{name}_new", self.known(until, among))
        if old is None or new is None:
            return old, new
        gone = self._made(f"{name}_deleted", without_locally(old, new, self.width))
        return gone, self._made(f"{name}_inserted", without_locally(new, old, self.width))

    def _made(self, name: str, text: str) -> str | None:
        """The table of a query; None where it has no rows."""
        return name if self.sql.table(name, text) else None


def change_of(kept: str, new: str, width: int) -> str:
    """A query of what a log must gain for periods ``kept`` to become ``new``: an ended one, or an empty one for none.

    Both are names of relations ``c1 … cn, valid_from, valid_to``.
    """
    rows = columns_of(width)
    same = " AND ".join(f"a.{each} IS NOT DISTINCT FROM b.{each}" for each in (*rows, VALID_FROM))
    heads = listed(columns_of(width, "a"), f"a.{VALID_FROM}")
    ends = f"a.{VALID_TO} IS NOT DISTINCT FROM b.{VALID_TO}"
    return (
        f"SELECT {heads}, a.{VALID_TO} FROM {new} AS a ANTI JOIN {kept} AS b ON {same} AND {ends} "
        f"UNION ALL SELECT {heads}, a.{VALID_FROM} AS {VALID_TO} FROM {kept} AS a ANTI JOIN {new} AS b ON {same}"
    )


def first_difference(kept: str, new: str, width: int) -> str:
    """A query of the first instant (µs UTC) at which two relations differ; both are names of coalesced ones."""
    both = " UNION ALL ".join(f"SELECT * FROM ({without_locally(*pair, width)})" for pair in ((kept, new), (new, kept)))
    return f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({both}) AS changed"
