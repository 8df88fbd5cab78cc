"""Read whole tables in DuckDB: tables that are too large for the driver's memory, and not too large for one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.arrangement.state_store import MOST_BYTES, MOST_GROUPS
from weft.sql.rendering.render import quoted
from weft.storage.columns import conformed
from weft.storage.delta_log import DataFile
from weft.storage.temporal_sql import TemporalSql

_COPY: Final = "copy of"  # names with a space, because no table of a home has one
_GIVEN: Final = "given rows"


@dataclass
class WholeTables:
    """The tables of a tick in one connection of DuckDB.

    The columns that SQL reads are copied into tables of DuckDB. Rows that do not fit into its memory are on disk.
    DuckDB has no statistics of files, and would join their rows by any condition, such as an order of instants.

    If a view needs a further column, the table is copied again. ``ahead`` has the columns, by table, that are
    copied at first.
    """

    sql: TemporalSql
    ahead: Mapping[str, Collection[str]] = field(default_factory=dict)
    copied: dict[str, set[str]] = field(default_factory=dict)

    def view(self, view: str, table: TableSchema, files: Sequence[DataFile], columns: Collection[str]) -> None:
        """Create a view of a table with the columns, its start column, and possibly others. Raise ExecutionError.

        All views of one query must have the same ``columns``.
        """
        name, wanted = table.name, {table.start, *columns}
        if not wanted <= self.copied.get(name, set()):
            wanted |= self.copied.get(name, set()).union(self.ahead.get(name, ()))
            self.sql.stored(f"files of {name}", files, table)
            read = ", ".join(map(quoted, sorted(wanted)))
            self.sql.table(f"{_COPY} {name}", f"SELECT {read} FROM {quoted(f'files of {name}')}")
            self.copied[name] = wanted
        self.sql.view(view, f"SELECT * FROM {quoted(f'{_COPY} {name}')}")

    def given(self, view: str, rows: pa.Table) -> None:
        """Create a view of rows in memory. Raise ExecutionError."""
        self.sql.given(_GIVEN, rows)
        self.sql.table(f"{_COPY} rows of {view}", f"SELECT * FROM {quoted(_GIVEN)}")
        self.sql.forget(_GIVEN)
        self.sql.view(view, f"SELECT * FROM {quoted(f'{_COPY} rows of {view}')}")


def bounded_rows(sql: TemporalSql, text: str, schema: pa.Schema, room: int) -> pa.Table | None:
    """Return the rows of a query, or None if they are too many to be stored or have more than ``room`` bytes.

    Raise ExecutionError if DuckDB fails.
    """
    batches, count, size = list[pa.RecordBatch](), 0, 0
    for batch in sql.batches(f"SELECT * FROM ({text}) AS bounded LIMIT {MOST_GROUPS + 1}"):
        batches.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count > MOST_GROUPS or size > min(room, MOST_BYTES):
            return None
    return conformed(pa.Table.from_batches(batches), schema) if batches else schema.empty_table()
