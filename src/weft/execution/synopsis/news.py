"""Read the states that a tick processes, and the events of these states, from data files.

A table of states has one row for each state: ``tp`` is the number and ``at`` is the time of the state. The column
``ts`` decides which tick processes the state. Without a table of states, each instant with new rows is a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.catalog.records import TS, TableRecord
from weft.errors import ExecutionError
from weft.execution.driver_reader import rows_of
from weft.execution.engines.choosing import rows_after
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine
from weft.instants import FIRST_INSTANT
from weft.planning.synopsis_events import EVENT, Events
from weft.planning.synopsis_plan import AT, TP
from weft.sql.rendering.render import quoted, timestamp
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice, may_hold
from weft.storage.table import Table
from weft.store import Store

AT_ONCE: Final = 100_000
"""The maximum number of rows in one batch in this process, over all tables. A state with more rows is one batch."""


@dataclass(frozen=True)
class News:
    """The table rows that arrived in the period [tau, t), in µs UTC. ``log`` is the table of states, or None."""

    data: Store
    tables: Sequence[TableRecord]
    log: TableRecord | None
    tau: int | None
    t: int

    def states(self, last: int | None, at_once: int = AT_ONCE) -> Iterator[pa.Table]:
        """Yield the states after the time point ``last``, in batches of about ``at_once`` rows.

        If ``last`` is None, begin with the first state. Each batch has the columns ``tp BIGINT``, ``at BIGINT`` and
        ``ts TIMESTAMP``.
        """
        with duckdb_engine() as engine:
            log_states = engine.rows(f"{self.points(engine, last)} ORDER BY {TP}")
        if not log_states.num_rows:
            return
        begin, size = 0, 0
        for place, rows in enumerate(log_states.column("arrived").to_pylist()):
            if size and size + rows > at_once:
                yield log_states.slice(begin, place - begin).select([TP, AT, TS])
                begin, size = place, 0
            size += rows
        yield log_states.slice(begin).select([TP, AT, TS])

    def points(self, engine: Engine, last: int | None) -> str:
        """Return a query for the states after the time point ``last``: ``tp``, ``at``, ``ts`` and ``arrived``.

        ``arrived`` is the number of rows that arrived at the instant of the state.
        """
        if self.log is not None:
            name = self._given(engine, self.log, (TP, AT, TS))
            inside = self._inside(TS, self.tau, self.t)
            return f"SELECT {TP}, UNIX_MICROS(`{AT}`) AS `{AT}`, {TS}, 1 AS arrived FROM {name} WHERE {inside}"
        names = [self._given(engine, table, (TS,)) for table in self.tables]
        every = " UNION ALL ".join(
            f"SELECT {TS} FROM {name} WHERE {self._inside(TS, self.tau, self.t)}" for name in names
        )
        instants = f"SELECT {TS}, COUNT(*) AS arrived FROM ({every}) AS every_row GROUP BY {TS}"
        number = f"ROW_NUMBER() OVER (ORDER BY {TS}) + {-1 if last is None else last}"
        return (
            f"SELECT CAST({number} AS BIGINT) AS {TP}, UNIX_MICROS({TS}) AS `{AT}`, {TS}, arrived "
            f"FROM ({instants}) AS instants"
        )

    def bounds(self, engine: Engine, last: int | None) -> tuple[int, int] | None:
        """Return the first and the last state in the table ``points`` of an engine, or None if there are no states.

        The result has the instants of the states (µs UTC), or their numbers if there is a table of states. Raise
        ExecutionError if the number of the first state is not ``last + 1``.
        """
        key = f"UNIX_MICROS({TS})" if self.log is None else TP
        (found,) = engine.rows(f"SELECT MIN({TP}) AS tp, MIN({key}) AS low, MAX({key}) AS high FROM points").to_pylist()
        if found["tp"] is None:
            return None
        if self.log is not None and last is not None and found["tp"] != last + 1:
            raise ExecutionError(
                f"{self.log.name} continues with time point {found['tp']}, but the last time point was {last}",
                hint="Number the states consecutively, and load the log in order.",
            )
        return found["low"], found["high"]

    def parts(self, most: int) -> Iterator[News]:
        """Divide the period into parts with about ``most`` rows each, by the statistics of the files."""
        tables = self.tables if self.log is None else (self.log,)
        inside = Slice(TS, self.tau, self.t)
        files = [file for table in tables for file in self._files(table) if may_hold(file, inside, None)]
        begin, size = self.tau, 0.0
        for file in sorted(files, key=lambda each: each.least.get(TS, FIRST_INSTANT)):
            least = file.least.get(TS, FIRST_INSTANT)
            if size > most and least > (FIRST_INSTANT if begin is None else begin):
                yield replace(self, tau=begin, t=least)
                begin, size = least, 0
            size += rows_of([file])
        yield replace(self, tau=begin)

    def sizes(self, most: float = float("inf")) -> list[tuple[str, float]]:
        """Return the name and the number of new rows of each table. Numbers up to ``most`` are upper limits."""
        after = None if self.tau is None else self.tau - 1
        return [(table.name, rows_after(self._files(table), TS, after, most)) for table in self.tables]

    def events(self, engine: Engine, wanted: Iterable[Events], bounds: tuple[int, int]) -> dict[str, str]:
        """Create a table of an engine for the events of each predicate. Return the names of the tables.

        The engine has the states as the table ``points``. ``bounds`` are the first and the last state: their instants
        (µs UTC), or their numbers if there is a table of states.
        """
        by_id, every, given = {table.table_id: table for table in self.tables}, list(wanted), dict[int, str]()
        names = {}
        for number, each in enumerate(every, 1):
            key = each.table.id
            if key not in given:
                reads = {name for other in every if other.table.id == key for name in other.reads}
                given[key] = self._given(engine, by_id[key], reads, bounds)
            name = f"events_{number}"
            if engine.table(name, self._select(each, given[key], bounds)):
                names[each.predicate] = name
        return names

    def _select(self, events: Events, source: str, bounds: tuple[int, int]) -> str:
        key, (low, high) = TS if self.log is None else TP, bounds
        columns = "".join(f", {text} AS c{number}" for number, text in enumerate(events.columns, 1))
        demanded = "".join(f" AND ({text})" for text in events.conditions)
        inside = self._inside(f"{EVENT}.{key}", low, high + 1)
        return (
            f"SELECT points.{TP}{columns} FROM {source} AS {EVENT} JOIN points ON {EVENT}.{key} = points.{key} "
            f"WHERE {inside}{demanded}"
        )

    def _inside(self, column: str, low: int | None, high: int) -> str:
        """Return the SQL condition that an instant or a number lies in [low, high)."""
        shown = str if column.endswith(f".{TP}") else timestamp
        below = f"{column} < {shown(high)}"
        return below if low is None else f"{column} >= {shown(low)} AND {below}"

    def _given(
        self, engine: Engine, table: TableRecord, names: Iterable[str], bounds: tuple[int, int] | None = None
    ) -> str:
        """Create a view of a table's files that may have rows of the period or of the states. Return its name."""
        low, high = (self.tau, self.t) if bounds is None or self.log is not None else (bounds[0], bounds[1] + 1)
        # A row with a state number belongs to that state, even if the row arrived earlier or later.
        part = None if bounds is not None and self.log is not None else Slice(TS, low, high)
        files = [file for file in self._files(table) if part is None or may_hold(file, part, None)]
        wanted = {name.lower() for name in (*names, TS, *([TP] if part is None else []))}
        columns = tuple(column for column in table.schema.columns if column.name.lower() in wanted)
        name = f"rows_{table.table_id}"
        engine.stored(name, files, TableSchema(table.table_id, table.name, columns, table.schema.start), part)
        return quoted(name)

    def _files(self, table: TableRecord) -> Sequence[DataFile]:
        place = self.data / table.path
        return Table(place).files()
