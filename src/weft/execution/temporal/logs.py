"""The logs of what a maintenance reads: as wholes, what came after an instant, or near some keys by a look-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.catalog.records import TableRecord
from weft.execution import driver_reader
from weft.execution.driver_reader import rows_of
from weft.execution.look_ups import LookUps
from weft.execution.temporal.states import Among, LoggedTable, logged
from weft.execution.windows import Slice, may_hold
from weft.instants import LAST_INSTANT
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS
from weft.storage.temporal_sql import TemporalSql


@dataclass
class Logs:
    """Logs in a DuckDB, from their ``files`` by table."""

    sql: TemporalSql
    files: Mapping[int, tuple[DataFile, ...]]
    look_ups: LookUps
    keys: dict[int, tuple[str, ...]] = field(default_factory=dict)
    wholes: dict[int, LoggedTable] = field(default_factory=dict)
    parts: int = 0

    def of(self, table: TableRecord, schema: TableSchema) -> LoggedTable:
        """The log of a table, seen through the columns of ``schema``."""
        found = self.wholes.get(table.table_id)
        if found is None:
            found = logged(self.sql, self.files[table.table_id], table.stored, schema)
            self.wholes[table.table_id] = found
            self.keys[table.table_id] = table.keys
        return replace(found, schema=schema)

    def news(self, log: LoggedTable, after: int) -> LoggedTable:
        """The log without files that have nothing recorded after an instant (µs UTC)."""
        files = self.files[log.stored.id]
        news = [file for file in files if may_hold(file, Slice(TS, after + 1, LAST_INSTANT), None)]
        if len(news) == len(files):
            return log
        name = self._name()
        self.sql.log(name, news, log.stored)
        return replace(log, log=name)

    def near(self, log: LoggedTable, among: Among) -> LoggedTable:
        """The log, or where it is large and few rows are asked for, only what agrees in one of the columns.

        That is looked up in an arrangement; a column of the table's key is preferred.  What finds nothing better reads
        the whole log.
        """
        files, bounds = self.files[log.stored.id], driver_reader.BOUNDS
        if rows_of(files) <= bounds.loaded:
            return log
        keys = {key.lower() for key in self.keys[log.stored.id]}
        own, other = next((pair for pair in among.pairs if pair[0].lower() in keys), among.pairs[0])
        wanted = self.sql.rows(f"SELECT DISTINCT {other} AS k FROM {among.relation} LIMIT {bounds.keys + 1}")
        if wanted.num_rows > bounds.keys or wanted.column("k").null_count:
            return log
        column = log.stored.column(own)
        assert column is not None
        schema = stored_schema(log.stored)
        asked = conformed(wanted.rename_columns([column.name]), pa.schema([schema.field(column.name)]))
        found = self.look_ups.rows(log.stored, files, column.name, schema.names, asked)
        if found.rows is None:
            return log
        name = self._name()
        self.sql.given(name, conformed(found.rows, schema))
        return replace(log, log=name)

    def _name(self) -> str:
        self.parts += 1
        return f"log_part_{self.parts}"
