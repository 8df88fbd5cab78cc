"""If files are deleted while a reader without the lease reads them, the error says to read again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from weft.errors import ExecutionError, FilesRemoved
from weft.execution.reader import removals_reported, stored_files
from weft.storage.cleaning import deletable_files, delete
from weft.storage.compaction import commit_rewritten, rewrite
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.table import Fence, Table
from weft.store import store_of

SCHEMA = pa.schema([("a", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(store_of(tmp_path) / "t")
    made.ensure(SCHEMA, {})
    for number in (1, 2):
        made.append(pa.table({"a": [number]}, schema=SCHEMA), Fence("weft-table-1", number))
    return made


def compact(table: Table, *, clean: bool) -> None:
    found = rewrite(table, table.files(), ["a"])
    assert found is not None
    commit_rewritten(table, found, 1, 0)
    if clean:
        delete(table, deletable_files(table, 0, 10**16), 1, lambda: None)


def fails(table: Table, *, clean: bool) -> None:
    snapshots: dict[str, DeltaSnapshot | None] = {}
    with removals_reported(table.place.parent, snapshots):
        assert len(stored_files(table.place.parent, "t", snapshots)) == 2
        assert stored_files(table.place.parent, "none", snapshots) == ()
        compact(table, clean=clean)
        raise ExecutionError("Spark cannot read a file")


def test_the_failure_of_a_reader_whose_files_are_gone_says_so(table: Table) -> None:
    with pytest.raises(FilesRemoved, match="removed from its table") as result:
        fails(table, clean=True)
    assert isinstance(result.value.__cause__, ExecutionError)


def test_another_failure_stays_what_it_is(table: Table) -> None:
    with pytest.raises(ExecutionError, match="Spark cannot read a file"):
        fails(table, clean=False)


def test_a_reader_that_does_not_fail_is_not_asked(table: Table) -> None:
    snapshots = {"t": table.snapshot()}
    with removals_reported(table.place.parent, snapshots):  # type: ignore[arg-type]
        compact(table, clean=True)
