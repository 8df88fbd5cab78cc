"""Compact a Delta table: replace groups of small data files by one file each, with the same rows.

Each load and each tick adds a file, and every file makes reads slower. A compaction writes the new file without a
lease, because no commit names the file yet. One fenced commit (``storage/removing.py``) then replaces the old files by
the new one. In the commit, ``dataChange`` is false, so followers of the table see no change. The old files stay on disk
for readers until ``storage/cleaning.py`` deletes the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from weft.errors import StorageError
from weft.location import Location
from weft.printable import counted
from weft.storage.data_files import file_batches
from weft.storage.delta_log import (
    RESTORE_HINT,
    DataFile,
    added_files,
    check_data_file,
    commit_actions,
    commit_file,
    delta_errors,
    delta_snapshot,
    latest_version,
    open_table,
    return_table,
    transaction_version,
)
from weft.storage.removing import REMOVING, taken_over

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
    """An uncommitted new file (``added``), its statistics, and the old files with the same rows (``removed``)."""

    removed: tuple[DataFile, ...]
    added: DataFile
    stats: str


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
    table: Location, group: Sequence[DataFile], within: Sequence[str], bounds: CompactionBounds = BOUNDS
) -> Rewritten | None:
    """Write the rows of the first files of the group as one file, and force the file to disk.

    The function takes as many files as fit into memory. If fewer than two files fit, return None. The function needs no
    lease. Raise StorageError if a file is damaged, if its row count differs from the log, or if the new file cannot be
    written.
    """
    from weft.storage.commit import file_statistics, first_line, new_data_file, schema_of, write_data_file

    opened = open_table(table)
    inputs, batches = _read(group, schema_of(opened), bounds.held)
    if len(inputs) < 2:
        return_table(table, opened)
        return None
    import pyarrow as pa

    file = new_data_file(table)
    try:
        rows = pa.Table.from_batches(batches, schema_of(opened))
        rows = rows.sort_by([(name, "ascending") for name in within])  # stable: rows with equal values keep their order
        write_data_file(rows, file)
        file.force()
        stats = file_statistics(rows, opened)
        return_table(table, opened)
        return Rewritten(tuple(inputs), DataFile(file, file.size(), rows.num_rows, {}, {}), stats)
    except delta_errors() as error:
        raise StorageError(
            f"small files could not be compacted: {first_line(error)}",
            where=str(table),
            hint="Nothing was changed; run the command again.",
        ) from error


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


def commit_rewritten(table: Location, rewritten: Rewritten, token: int, at: int) -> int | None:
    """Replace the old files by the new file in one commit and return its version. Return None if an old file is gone.

    ``token`` is the token of the caller's lease, and ``at`` is the wall-clock time (µs). Call ``make_durable`` to force
    the commit to disk. Raise LeaseLost if a later lease holder has removed files from the log. Raise StorageError if
    the commit cannot be written. After an error or None, the table is unchanged.
    """
    from weft.storage.commit import commit_files

    opened = open_table(table)
    before = opened.transaction_version(REMOVING)
    if before is not None and before > token:
        raise taken_over(table, _DOING)
    # The handle was opened before these checks. Cleaning commits a number of this application before it deletes files,
    # so a cleaning or another compaction in between makes this commit fail.
    there = {file.location: file.size for file in delta_snapshot(table, check_files=False).files}
    if any(there.get(file.location) != file.size for file in rewritten.removed) or not _is_whole(rewritten.added):
        with suppress(OSError):
            rewritten.added.location.remove()
        return None
    since = opened.version()
    problem: Exception | None = None
    try:
        new = {rewritten.added.location: rewritten.stats}
        commit_files(opened, new, rewritten.removed, {REMOVING: token}, at, news=False)
    except delta_errors() as error:
        problem = error
    # A commit may succeed and still report an error, such as a failed checkpoint. The log shows whether the commit
    # succeeded.
    version = _find(table, rewritten.added.location, since)
    if version is not None:
        return_table(table, opened)
        return version
    # The commit may still have succeeded, so do not delete the file.
    if problem is None or transaction_version(table, REMOVING) != before:
        raise taken_over(table, _DOING) from problem
    raise StorageError(f"small files could not be compacted: {problem}", where=str(table), hint="Nothing was changed.")


def _is_whole(file: DataFile) -> bool:
    """Another process may have deleted the file before the commit."""
    try:
        check_data_file(file)
    except StorageError:
        return False
    return True


def _find(table: Location, file: Location, since: int) -> int | None:
    """Return the version after ``since`` that added the file, or None."""
    for version in range(latest_version(table) or 0, since, -1):
        if any(added.location == file for added in added_files(table, version)):
            return version
    return None


def compactions(table: Location, gone: Sequence[str]) -> list[Compaction]:
    """Return the compactions in log order, starting with the first that removed a file in ``gone`` (paths).

    Return [] if the log no longer contains the removal of a file in ``gone``, or if the commit that removed a file also
    changed rows.
    """
    wanted, rewrites = set(gone), []
    for version in range(latest_version(table) or 0, -1, -1):
        if not wanted:
            break
        commit = commit_file(table, version)
        if not commit.exists():  # cleaned up behind a checkpoint
            return []
        actions = commit_actions(commit)
        removed = list(_files(table, actions, "remove"))
        places = {str(file.location) for file in removed}
        if any(action["remove"]["dataChange"] for action in actions if "remove" in action):
            if wanted & places:
                return []
        elif removed:
            rewrites.append(Compaction(removed, list(_files(table, actions, "add"))))
        wanted -= places
    return [] if wanted else rewrites[::-1]


def _files(table: Location, actions: Sequence[dict[str, Any]], kind: str) -> Iterator[DataFile]:
    for action in actions:
        if kind in action:
            fields = action[kind]
            yield DataFile(table / unquote(fields["path"]), fields.get("size") or 0, None, {}, {})
