"""Compact a Delta table: replace groups of small data files by one file each, with the same rows.

Each load and each tick adds a file, and every file makes reads slower. A compaction writes the new file without a
lease, because no commit names the file yet. One fenced commit (``storage/table.py``) then replaces the old files by
the new one. In the commit, ``dataChange`` is false, so followers of the table see no change. The old files stay on disk
for readers until ``storage/cleaning.py`` deletes the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.errors import StorageError
from weft.printable import counted
from weft.storage.cleaning import HOUR_US, UNCOMMITTED_US
from weft.storage.data_files import NewFile, check_data_file, file_batches
from weft.storage.delta_log import RESTORE_HINT, DataFile
from weft.storage.table import Commit, Table, removal

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class CompactionBounds:
    """The limits of a compacted file: rows, bytes in Parquet (total of the input files), and bytes in memory.

    A compaction needs at least ``fewest`` files. An input file has at most half of the maximum number of rows and
    bytes.
    """

    rows: int = 1_000_000
    size: int = 32 << 20
    held: int = 128 << 20
    fewest: int = 16


BOUNDS: Final = CompactionBounds()
_DOING: Final = "small files were being compacted"


@dataclass(frozen=True)
class Sorting:
    """The order of a compacted table. The files are sorted by ``neighbours``, and the rows of a file by ``within``."""

    neighbours: str
    within: tuple[str, ...]


LEDGER: Final = Sorting("tick", ("query_id", "ordinal"))
"""The files of the ledger are sorted by tick, and the rows of a file by query and ordinal."""


@dataclass(frozen=True)
class Compaction:
    """A commit that moved the rows of the files in ``removed`` to the files in ``added``."""

    removed: Sequence[DataFile]
    added: Sequence[DataFile]


@dataclass(frozen=True)
class Rewritten:
    """An uncommitted new file (``added``), and the old files with the same rows (``removed``)."""

    removed: tuple[DataFile, ...]
    added: NewFile


def compactable(
    files: Sequence[DataFile], neighbours: str, bounds: CompactionBounds = BOUNDS
) -> list[tuple[DataFile, ...]]:
    """Return groups of small files to compact. The files of a group are adjacent in the order of ``neighbours``.

    The largest file of a group is at most as large as the other files together. Frequent calls therefore do not rewrite
    a large file for a few new rows.
    """
    groups: list[tuple[DataFile, ...]] = []
    group: list[DataFile] = []
    lowest = -(2**63)
    for file in sorted(files, key=lambda each: (each.least.get(neighbours, lowest), each.location)):
        small = file.rows is not None and 2 * file.rows <= bounds.rows and 2 * file.size <= bounds.size
        full = sum(each.rows or 0 for each in group) + (file.rows or 0) > bounds.rows
        if group and (not small or full or sum(each.size for each in group) + file.size > bounds.size):
            groups += _of_about_one_size(group, bounds.fewest)
            group = []
        if small:
            group.append(file)
    return groups + _of_about_one_size(group, bounds.fewest)


def _of_about_one_size(group: Sequence[DataFile], fewest: int) -> list[tuple[DataFile, ...]]:
    if len(group) < fewest:
        return []
    place, largest = max(enumerate(group), key=lambda each: each[1].size)
    if 2 * largest.size <= sum(each.size for each in group):
        return [tuple(group)]
    return _of_about_one_size(group[:place], fewest) + _of_about_one_size(group[place + 1 :], fewest)


def rewrite(
    table: Table, group: Sequence[DataFile], within: Sequence[str], bounds: CompactionBounds = BOUNDS
) -> Rewritten | None:
    """Write the rows of the first files of the group as one file.

    The function takes as many files as fit into memory. If fewer than two files fit, return None. The function needs no
    lease. Raise StorageError if a file is damaged, if its row count differs from the log, or if the new file cannot be
    written.
    """
    import pyarrow as pa

    schema = table.schema()
    inputs, batches = _read(group, schema, bounds.held)
    if len(inputs) < 2:
        return None
    rows = pa.Table.from_batches(batches, schema)
    # The sort is stable: rows with equal values keep their order.
    new = table.write(rows.sort_by([(name, "ascending") for name in within]))
    return Rewritten(tuple(inputs), new)


def _read(group: Sequence[DataFile], schema: pa.Schema, held: int) -> tuple[list[DataFile], list[pa.RecordBatch]]:
    """Return as many files of the group as fit into ``held`` bytes of memory, and their rows."""
    taken: list[DataFile] = []
    batches: list[pa.RecordBatch] = []
    size = 0
    for file in group:
        own = []
        for batch in file_batches(file, schema):
            own.append(batch)
            size += batch.nbytes
            if size > held:
                return taken, batches
        count = sum(batch.num_rows for batch in own)
        if count != file.rows:
            problem = f"a data file has {counted(count, 'row')}, but the table's log says {file.rows}"
            raise StorageError(problem, where=str(file.location), hint=RESTORE_HINT)
        taken.append(file)
        batches += own
    return taken, batches


def commit_rewritten(table: Table, rewritten: Rewritten, token: int, at: int) -> Commit | None:
    """Replace the old files by the new file in one commit. Return None if one of the files is gone.

    Return None also for a new file that is nearly as old as a file must be to be deleted, because it has no commit. A
    cleaner that was suspended may be about to delete it.
    ``token`` is the token of the caller's lease, and ``at`` is the wall-clock time (µs). Raise LeaseLost if a later
    lease holder has removed files from the log. Raise StorageError if the commit cannot be written. After an error or
    None, the table is unchanged.
    """
    # Whoever deletes files first commits the token of a later lease. If that happens after these checks, the commit
    # fails.
    there = {file.location: file.size for file in table.files()}
    old = at - rewritten.added.modified_ms * 1_000 > UNCOMMITTED_US - HOUR_US
    missing = any(there.get(file.location) != file.size for file in rewritten.removed)
    if old or missing or not _is_whole(rewritten):
        with suppress(OSError):
            rewritten.added.location.remove()
        return None
    return table.commit(removal(token), [rewritten.added], rewritten.removed, at=at, news=False, doing=_DOING)


def _is_whole(rewritten: Rewritten) -> bool:
    """Another process may have deleted the file before the commit."""
    new = rewritten.added
    try:
        check_data_file(DataFile(new.location, new.size, new.rows, {}, {}))
    except StorageError:
        return False
    return True


def compactions(table: Table, gone: Sequence[str]) -> list[Compaction]:
    """Return the compactions in log order, starting with the first that removed a file in ``gone`` (paths).

    Return [] if the log no longer contains the removal of a file in ``gone``, or if the commit that removed a file also
    changed rows.
    """
    wanted, rewrites = set(gone), []
    for entry in table.entries():
        if not wanted:
            break
        places = {str(file.location) for file in entry.removed}
        if entry.removes_rows:
            if wanted & places:
                return []
        elif entry.removed:
            rewrites.append(Compaction(entry.removed, entry.added))
        wanted -= places
    return [] if wanted else rewrites[::-1]
