"""Look-ups by key on the driver: through arrangements, each of which is caught up with its table as it is asked.

Only the holder of the home's lease looks up so: catching up writes.  Whatever is wrong with an arrangement costs this
look-up its speed: it is told, and the caller reads the table.  Who holds no lease may still ask what would be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TableSchema
from weft.arrangement import Arrangement, ArrangementError
from weft.arrangement.manifest import carried_columns
from weft.catalog import layout
from weft.errors import StorageError
from weft.storage.columns import stored_schema
from weft.storage.compaction import Compaction, compactions
from weft.storage.data_files import file_batches, read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.ledger import ledger_schema

ANSWER: Final = ledger_schema("query_id", "row_hash")
"""By what an answer is known."""


def moved_since(arrangement: Arrangement, files: Sequence[DataFile]) -> list[Compaction]:
    """The compactions that took files out of the table which the arrangement covers.

    Empty where there are none, and where the log does not tell: then it is built again.
    """
    gone = arrangement.gone(files)
    if not gone or not files:
        return []
    try:
        return compactions(files[0].location.parent, gone)
    except StorageError:
        return []


@dataclass(frozen=True)
class Found:
    """What a look-up found, ``by`` what, and ``how`` in words.  Where that is Spark, the caller reads the table.

    ``rows`` None though it is not: an arrangement was not to be caught up, and the table is too large to read instead.
    """

    by: Literal["driver", "arrangement", "Spark"]
    how: str
    rows: pa.Table | None = None


@dataclass(frozen=True)
class LookUps:
    """The arrangements of a home, in ``folder``; one that is more than ``most_behind`` rows behind is not used, nor one
    in which the keys have more than ``most_found`` rows.

    Without ``catching_up`` nothing is written: where an arrangement is behind, a table of at most ``most_read`` rows is
    read instead.
    """

    folder: Path
    most_behind: int = 50_000_000
    catching_up: bool = True
    most_read: int = 2_000_000
    most_found: int = 500_000

    def rows(
        self, table: TableSchema, files: Sequence[DataFile], column: str, columns: Iterable[str], keys: pa.Table
    ) -> Found:
        """The rows of the table, some of its columns, whose ``column`` is one of the keys (a table of one column)."""
        found = table.column(column)
        assert found is not None
        folder = self.folder / f"{table.id}-{found.id}"
        # Plans come and go, and each reads some columns: what was ever asked for stays.
        schema = stored_schema(table, {found.name, *columns, *carried_columns(folder)})
        return self._found(folder, (found.name,), schema, files, keys)

    def answers(self, files: Sequence[DataFile], keys: pa.Table) -> Found:
        """Which of these answers (query id and hash) the ledger has."""
        return self._found(self.folder / layout.LEDGER, ANSWER.names, ANSWER, files, keys)

    def whole_rows(
        self, table: TableSchema, files: Sequence[DataFile], columns: Sequence[str], keys: pa.Table
    ) -> Found:
        """The rows of the table whose ``columns`` are together those of a key; NULL is NULL there."""
        found = [column.id for column in map(table.column, columns) if column is not None]
        folder = self.folder / f"{table.id}-row-{'-'.join(map(str, found))}"
        return self._found(folder, columns, stored_schema(table), files, keys, null_safe=True)

    def known(self, table: TableSchema, files: Sequence[DataFile], columns: Sequence[str], keys: pa.Table) -> Found:
        """The keys, ``columns`` of them, that rows of the table have already; NULL is NULL there."""
        ids = [found.id for found in map(table.column, columns) if found is not None]
        folder = self.folder / f"{table.id}-key-{'-'.join(map(str, ids))}"
        carried = stored_schema(table, columns)
        schema = pa.schema([carried.field(name) for name in columns])
        return self._found(folder, columns, schema, files, keys, null_safe=True)

    def _found(
        self,
        folder: Path,
        key: Sequence[str],
        schema: pa.Schema,
        files: Sequence[DataFile],
        keys: pa.Table,
        *,
        null_safe: bool = False,
    ) -> Found:
        def read(new: Sequence[DataFile]) -> Iterator[pa.Table]:
            return (pa.Table.from_batches([batch]) for file in new for batch in file_batches(file, schema))

        try:
            arrangement = Arrangement.open(folder, key, schema)
            moved = moved_since(arrangement, files)
            behind = arrangement.behind(files, moved)
            if behind is None or behind > self.most_behind:
                missing = "an unknown number of" if behind is None else f"{behind:,}"
                return Found("Spark", f"an arrangement is {missing} rows behind, more than {self.most_behind:,}")
            how = f"an arrangement of {arrangement.rows:,} rows, runs: {arrangement.runs}, {behind:,} rows behind"
            if self.catching_up:
                arrangement.catch_up(files, read, moved)
            elif behind:
                return Found("arrangement", how, self._scanned(files, schema, key, keys))
            return Found("arrangement", how, arrangement.lookup(keys, null_safe=null_safe, most=self.most_found))
        except ArrangementError as error:
            return Found("Spark", f"its arrangement cannot be used: {error.message}")

    def _scanned(
        self, files: Sequence[DataFile], schema: pa.Schema, key: Sequence[str], keys: pa.Table
    ) -> pa.Table | None:
        """The rows with such keys in each column of the key, read from the files."""
        if sum(file.rows or 0 for file in files) > self.most_read:
            return None
        conditions = (
            pc.field(name).isin(column.cast(schema.field(name).type).combine_chunks())
            for name, column in zip(key, keys.columns, strict=True)
        )
        return read_data_files(files, schema, reduce(and_, conditions))
