"""Read the states that a tick processes, and the events of these states, from data files.

A table of states has one row for each state: ``tp`` is the number and ``at`` is the time of the state. The column
``ts`` decides which tick processes the state. Without a table of states, each instant with new rows is a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog.records import TS, TableRecord
from weft.errors import ExecutionError
from weft.execution.synopsis.batch import StateBatch
from weft.execution.windows import Slice, may_hold
from weft.planning.synopsis_events import EVENT, Events
from weft.planning.synopsis_plan import AT, TP
from weft.sql.render import quoted
from weft.storage.columns import INSTANT, stored_schema
from weft.storage.data_files import file_batches, read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.table import Table
from weft.storage.temporal_sql import temporal_sql
from weft.store import Store

AT_ONCE: Final = 100_000
"""The maximum number of rows in one batch, over all tables. A state with more rows forms a separate batch."""


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
        ``ts TIMESTAMP``. Raise ExecutionError if the number of the first state is not ``last + 1``.
        """
        log_states = self._instants() if self.log is None else self._points(self.log)
        if not log_states.num_rows:
            return
        if self.log is None:
            first = 0 if last is None else last + 1
            log_states = log_states.append_column(TP, pa.array(range(first, first + log_states.num_rows), pa.int64()))
        elif last is not None and log_states.column(TP)[0].as_py() != last + 1:
            raise ExecutionError(
                f"{self.log.name} continues with time point {log_states.column(TP)[0]}, but the last time "
                f"point was {last}",
                hint="Number the states consecutively, and load the log in order.",
            )
        begin, size = 0, 0
        for place, rows in enumerate(log_states.column("rows").to_pylist()):
            if size and size + rows > at_once:
                yield log_states.slice(begin, place - begin).select([TP, AT, TS])
                begin, size = place, 0
            size += rows
        yield log_states.slice(begin).select([TP, AT, TS])

    def batch(self, points: pa.Table, wanted: Iterable[Events]) -> StateBatch:
        """Return the states in ``points`` as a batch. The batch contains the events in ``wanted``."""
        by_id = {table.table_id: table for table in self.tables}
        numbered = points.select([TP, AT])
        events: dict[str, pa.Table] = {}
        with temporal_sql() as sql:
            sql.given("points", points)
            read: dict[int, str] = {}
            every = list(wanted)
            for each in every:
                table = by_id[each.table.id]
                if table.table_id not in read:
                    names = {name for other in every if other.table.id == table.table_id for name in other.reads}
                    read[table.table_id] = f"news_{table.table_id}"
                    sql.given(read[table.table_id], self._rows(table, names, points))
                events[each.predicate] = sql.rows(self._select(each, read[table.table_id]))
        return StateBatch(numbered, events)

    def _select(self, events: Events, source: str) -> str:
        key = TS if self.log is None else TP
        columns = "".join(f", {text} AS c{number}" for number, text in enumerate(events.columns, 1))
        demanded = "".join(f" AND ({text})" for text in events.conditions)
        joined = f"{EVENT}.{key} = points.{key}"
        return (
            f"SELECT points.{TP}{columns} FROM {quoted(source)} AS {EVENT} JOIN points ON {joined} WHERE TRUE{demanded}"
        )

    def _rows(self, table: TableRecord, names: Iterable[str], points: pa.Table) -> pa.Table:
        """Return all rows that belong to the states in ``points``, and possibly further rows."""
        column = table.schema.start if self.log is None else TP
        bounds = pc.min_max(points.column(TS if self.log is None else TP))
        schema = stored_schema(table.schema, {*names, column})
        field = pc.field(column)
        files = self._files(table)
        if self.log is None:
            low, high = (bounds[end].cast(pa.int64()).as_py() for end in ("min", "max"))
            files = [file for file in files if may_hold(file, Slice(column, low, high + 1), None)]
        return read_data_files(files, schema, (field >= bounds["min"]) & (field <= bounds["max"]))

    def _instants(self) -> pa.Table:
        """The column ``rows`` counts the rows that arrived at an instant."""
        part = Slice(TS, self.tau, self.t)
        counted: list[pa.Table] = []
        for table in self.tables:
            schema = stored_schema(table.schema, (TS,))
            for file in (file for file in self._files(table) if may_hold(file, part, None)):
                for batch in file_batches(file, schema, self._inside()):
                    counted.append(_counted(pa.Table.from_batches([batch])))
        every = pa.concat_tables(counted) if counted else _counted(pa.table({TS: pa.array([], INSTANT)}))
        instants = every.group_by(TS).aggregate([("rows", "sum")]).rename_columns([TS, "rows"]).sort_by(TS)
        return instants.append_column(AT, instants.column(TS).cast(pa.int64()))

    def _points(self, log: TableRecord) -> pa.Table:
        schema = stored_schema(log.schema, (TP, AT, TS))
        files = [file for file in self._files(log) if may_hold(file, Slice(TS, self.tau, self.t), None)]
        states = read_data_files(files, schema, self._inside()).sort_by(TP)
        at = states.column(AT).cast(pa.int64())
        rows = pa.repeat(pa.scalar(1, pa.int64()), states.num_rows)
        return pa.table({TP: states.column(TP), AT: at, TS: states.column(TS), "rows": rows})

    def _inside(self) -> pc.Expression:
        below = pc.field(TS) < pa.scalar(self.t, INSTANT)
        return below if self.tau is None else (pc.field(TS) >= pa.scalar(self.tau, INSTANT)) & below

    def _files(self, table: TableRecord) -> Sequence[DataFile]:
        place = self.data / table.path
        return Table(place).files()


def _counted(instants: pa.Table) -> pa.Table:
    return instants.group_by(TS).aggregate([([], "count_all")]).rename_columns([TS, "rows"])
