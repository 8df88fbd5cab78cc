"""Look-ups by key on the driver: through arrangements, each of which is caught up with its table as it is asked.

Only the holder of the home's lease looks up so: catching up writes.  Whatever is wrong with an arrangement costs this
look-up its speed: None is given, and the caller reads the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.arrangement import Arrangement, ArrangementError
from weft.arrangement.manifest import carried_columns
from weft.catalog import layout
from weft.storage.columns import stored_schema
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DataFile

ANSWER: Final = pa.schema([("query_id", pa.int64()), ("row_hash", pa.binary())])
"""By what an answer is known."""


@dataclass(frozen=True)
class LookUps:
    """The arrangements of a home, in ``folder``; one that is more than ``most_behind`` rows behind is not used."""

    folder: Path
    most_behind: int = 50_000_000

    def rows(
        self, table: TableSchema, files: Sequence[DataFile], column: str, columns: Iterable[str], keys: pa.Table
    ) -> pa.Table | None:
        """The rows of the table, some of its columns, whose ``column`` is one of the keys (a table of one column)."""
        found = table.column(column)
        assert found is not None
        folder = self.folder / f"{table.id}-{found.id}"
        # Plans come and go, and each reads some columns: what was ever asked for stays.
        schema = stored_schema(table, {found.name, *columns, *carried_columns(folder)})
        return self._found(folder, (found.name,), schema, files, keys)

    def answers(self, files: Sequence[DataFile], keys: pa.Table) -> pa.Table | None:
        """Which of these answers (query id and hash) the ledger has."""
        return self._found(self.folder / layout.LEDGER, ANSWER.names, ANSWER, files, keys)

    def _found(
        self, folder: Path, key: Sequence[str], schema: pa.Schema, files: Sequence[DataFile], keys: pa.Table
    ) -> pa.Table | None:
        def read(new: Sequence[DataFile]) -> Iterator[pa.Table]:
            return (pa.Table.from_batches([batch]) for file in new for batch in file_batches(file, schema))

        try:
            arrangement = Arrangement.open(folder, key, schema)
            behind = arrangement.behind(files)
            if behind is None or behind > self.most_behind:
                return None
            arrangement.catch_up(files, read)
            return arrangement.lookup(keys)
        except ArrangementError:
            return None
