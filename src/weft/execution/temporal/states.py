"""What the log of a tracked table told at an instant, and what has changed between two, as tables of ``TemporalSql``.

A change between two instants is ∇R and ΔR: of the rows that the log has anything about in between, the instants that
were known to hold and do not, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.sql import render
from weft.sql.sweeping import coalesced, columns_of, listed, without
from weft.storage.delta_log import DataFile
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

    @property
    def names(self) -> list[str]:
        """The columns of its rows, quoted."""
        return [quoted(c.name) for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO)]

    @property
    def width(self) -> int:
        """How many columns its rows have."""
        return len(self.names)

    def rows(self, after: int | None, until: int) -> str:
        """A query of the rows that the log has anything about, recorded in (after, until]: ``c1 … cn``."""
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        return f"SELECT DISTINCT {listed(heads)} FROM {self.log} WHERE {_recorded(after, until)}"

    def known(self, until: int, among: Among | None = None) -> str:
        """A query of the periods as known at ``until`` (µs UTC): ``c1 … cn, valid_from, valid_to``; see ``Among``."""
        every = [quoted(name) for name in values_of(self.stored)]
        some = f" AND {among.condition}" if among else ""
        # An aggregate leaves out NULLs, and a period that is open ends in one.
        last = f"arg_max(struct_pack(at := {VALID_TO}), {TS}).at"
        told = (
            f"SELECT {listed(every, VALID_FROM)}, {last} AS {VALID_TO} FROM {self.log} AS r "
            f"WHERE {_recorded(None, until)}{some} GROUP BY {listed(every, VALID_FROM)} "
            f"HAVING {last} IS DISTINCT FROM {VALID_FROM}"
        )
        heads = (f"{name} AS c{number}" for number, name in enumerate(self.names, 1))
        text = f"SELECT {listed(heads, VALID_FROM, VALID_TO)} FROM ({told}) AS told"
        return text if len(every) == self.width else coalesced(text, self.width)

    def all_of(self, relation: str) -> Among:
        """The rows of a relation ``c1 … cn``."""
        columns = [c.name for c in self.schema.columns if c.name not in (VALID_FROM, VALID_TO)]
        return Among(relation, tuple((name, f"c{number}") for number, name in enumerate(columns, 1)))

    def make_change(self, name: str, touched: str, after: int, until: int) -> tuple[str, str]:
        """Makes tables of ∇R and ΔR between two instants, of the rows ``touched``; their names begin with ``name``."""
        old, new = f"{name}_old", f"{name}_new"
        self.sql.table(old, self.known(after, self.all_of(touched)))
        self.sql.table(new, self.known(until, self.all_of(touched)))
        gone, come = f"{name}_deleted", f"{name}_inserted"
        self.sql.table(gone, without(old, new, self.width))
        self.sql.table(come, without(new, old, self.width))
        return gone, come

    def named(self, query: str) -> str:
        """A query of ``c1 … cn, valid_from, valid_to`` with the columns' own names."""
        heads = (f"c{number} AS {name}" for number, name in enumerate(self.names, 1))
        return f"SELECT {listed(heads, VALID_FROM, VALID_TO)} FROM ({query}) AS given"


def logged(sql: TemporalSql, files: Sequence[DataFile], stored: TableSchema, schema: TableSchema) -> LoggedTable:
    """The log of a tracked table in these files; raises StorageError for one that is missing or damaged."""
    log = f"log_{stored.id}"
    sql.log(log, files, stored)
    return LoggedTable(sql, log, stored, schema)


def _recorded(after: int | None, until: int) -> str:
    low = "" if after is None else f"{TS} > {render.timestamp(after)} AND "
    return f"{low}{TS} <= {render.timestamp(until)}"


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
    both = " UNION ALL ".join(f"SELECT * FROM ({without(*pair, width)})" for pair in ((kept, new), (new, kept)))
    return f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({both}) AS changed"
