"""Read and change stored relations on an engine that does not hold them in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra.schema import BOOLEAN, TIMESTAMP, Column, TableSchema
from weft.derivation.synopsis.construct import Stored
from weft.execution.driver_reader import rows_of
from weft.execution.engines.engine import Engine, Rows, number_of
from weft.execution.synopsis.batch import stored_schema
from weft.sql.rendering.render import quoted, spelled
from weft.storage.data_files import FileForm
from weft.storage.stored_relations import (
    GONE,
    SINCE,
    as_of,
    entries,
    may_rewrite,
    shortened,
    should_rewrite,
    table_schema,
)
from weft.storage.table import Table


@dataclass(frozen=True)
class EngineRelation:
    """A stored relation on an engine. ``name`` is a prefix of its tables' names, and ``log`` is its Delta table."""

    engine: Engine
    stored: Stored
    log: Table
    name: str

    @property
    def columns(self) -> list[str]:
        """The quoted names of the relation's columns."""
        return [quoted(name) for name, _ in self.stored.columns]

    @property
    def table(self) -> TableSchema:
        """The schema of the table of entries."""
        every = (*self.stored.columns, (SINCE, TIMESTAMP), (GONE, BOOLEAN))
        return TableSchema(0, self.name, tuple(Column(number, *each) for number, each in enumerate(every, 1)), SINCE)

    def read(self, tau: int) -> str | None:
        """Create a table of the relation as of ``tau`` (µs UTC). Return its name, or None if it has no rows."""
        return self.name if self.engine.table(self.name, as_of(self._log(), self.columns, tau)) else None

    def size(self, tau: int) -> int:
        """Return the number of rows of the relation as of ``tau`` (µs UTC)."""
        return int(self.engine.one(f"SELECT COUNT(*) FROM ({as_of(self._log(), self.columns, tau)}) AS there"))

    def _log(self) -> str:
        log = f"{self.name}_log"
        self.engine.stored(log, self.log.files(), self.table)
        return log

    def change_to(self, wanted: str | None, t: int, needed: Sequence[int]) -> tuple[Rows, bool] | None:
        """Return the entries that make the relation equal to the table ``wanted`` from ``t`` on (None: empty).

        Return None if nothing changes. The flag says whether the entries replace all earlier entries. The relation
        stays readable as of each instant in ``needed``.
        """
        log, now, change = self._log(), f"{self.name}_now", f"{self.name}_change"
        columns = ", ".join(self.columns)
        self.engine.table(now, as_of(log, self.columns))
        wanted = wanted or self._nothing()
        come = f"(SELECT {columns} FROM {wanted} EXCEPT SELECT {columns} FROM {now}) AS come"
        gone = f"(SELECT {columns} FROM {now} EXCEPT SELECT {columns} FROM {wanted}) AS gone"
        parts = [entries(rows, self.columns, t, gone=rows is gone) for rows in (come, gone)]
        if not self.engine.table(change, " UNION ALL ".join(parts)):
            return None
        rows = self.engine.result(f"SELECT * FROM {change}", self.table, self._form)
        if not number_of(rows):
            return None
        files = self.log.files()
        total, size = int(rows_of(files)) + number_of(rows), self.engine.one(f"SELECT COUNT(*) FROM {wanted}")
        if may_rewrite(len(files), total, size):
            every = f"{shortened(log, self.columns, min([*needed, t]))} UNION ALL SELECT * FROM {change}"
            compacted = self.engine.result(every, self.table, self._form)
            if should_rewrite(len(files), total, number_of(compacted)):
                return compacted, True
        return rows, False

    def _form(self) -> FileForm:
        self.log.ensure(table_schema(stored_schema(self.stored)), {})
        return self.log.form()

    def _nothing(self) -> str:
        heads = ", ".join(f"CAST(NULL AS {spelled(type)}) AS {quoted(name)}" for name, type in self.stored.columns)
        self.engine.view(f"{self.name}_nothing", f"SELECT {heads} WHERE FALSE")
        return f"{self.name}_nothing"
