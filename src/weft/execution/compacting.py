"""Compact the small files of a home, and delete files that are no longer needed.

Compaction writes each new file without the lease, and holds the lease only for the commit. Loads and ticks therefore
wait only briefly. Compaction changes no row, and a process may stop at any point. The next run continues with the
remaining files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.catalog import CatalogParts, layout
from weft.errors import FilesRemoved
from weft.execution.home import OpenHome
from weft.failpoint import failpoint
from weft.interruption import stop_here
from weft.storage import compaction
from weft.storage.cleaning import UNCOMMITTED_US, deletable_files, delete
from weft.storage.compaction import Rewritten, Sorting, commit_rewritten, compactable, rewrite
from weft.storage.delta_log import DataFile
from weft.storage.stored_relations import SINCE
from weft.storage.table import Table
from weft.storage.verify import require_undamaged


@dataclass(frozen=True)
class Compacted:
    """One new file that replaces ``files`` small files. ``name`` is the name of the table, or ``ledger``.

    ``size`` is the total size of the old files in bytes. ``new_size`` is the size of the new file, or None in a dry
    run. ``before`` and ``after`` are the table's file counts before and after the compaction.
    """

    name: str
    files: int
    before: int
    after: int
    size: int
    new_size: int | None
    action: Literal["compact"] = "compact"


@dataclass(frozen=True)
class Cleaned:
    """The deletion of unneeded data files and log files of a table or the ledger.

    ``size`` is the total size of these files in bytes.
    """

    name: str
    files: int
    log: int
    size: int
    action: Literal["clean"] = "clean"


@dataclass(frozen=True)
class StoredTable:
    """A Delta table of a home with a display name, a path, and the order of rows and files."""

    name: str
    path: str
    sorting: Sorting


def synopsis_tables(catalog: CatalogParts) -> list[StoredTable]:
    """Return the tables of synopses. A tick compacts these tables without deleting the old files."""
    paths = (each.path for each in catalog.tables.versions() if each.path.startswith(f"{layout.SYNOPSES}/"))
    return [StoredTable(path, path, Sorting(SINCE, (SINCE,))) for path in paths]


def stored_tables(catalog: CatalogParts) -> list[StoredTable]:
    """Return the ledger and the home's tables. Tables without a commit are left out."""
    tables = [
        StoredTable(table.name, table.path, Sorting(table.stored.start, (table.stored.start,)))
        for table in catalog.tables.all()
    ]
    tables.append(StoredTable("ledger", layout.LEDGER, compaction.LEDGER))
    return [each for each in tables if Table(catalog.data / each.path).exists()]


def groups_to_compact(home: OpenHome, table: StoredTable) -> list[tuple[DataFile, ...]]:
    """Return the groups of files to compact. Each group becomes one file."""
    files = Table(home.catalog.data / table.path).files()
    if any(file.attached is not None for file in files):  # other programs own these files
        return []
    return compactable(files, table.sorting.neighbours, compaction.BOUNDS)


def compact(home: OpenHome, table: StoredTable, group: Sequence[DataFile]) -> Iterator[Compacted]:
    """Replace the files of the group by one file. If one file would need too much memory, write several files.

    Yield the result for each new file. Stop early if another process has removed a file of the group. Raise LeaseBusy,
    LeaseLost or StorageError.
    """
    place, remaining = Table(home.catalog.data / table.path), tuple(group)
    while len(remaining) > 1:
        stop_here()
        if not _are_there(place, remaining):
            return
        try:
            rewritten = rewrite(place, remaining, table.sorting.within, compaction.BOUNDS)
        except FilesRemoved:
            return
        if rewritten is None:  # the first file alone exceeds the bound
            remaining = remaining[1:]
            continue
        failpoint("compaction.written")
        counted = _committed(home, table, place, rewritten)
        if counted is None:
            return
        count, size = len(rewritten.removed), sum(file.size for file in rewritten.removed)
        yield Compacted(table.name, count, *counted, size, rewritten.added.size)
        remaining = remaining[count:]


def _committed(home: OpenHome, table: StoredTable, place: Table, rewritten: Rewritten) -> tuple[int, int] | None:
    """Return the table's file counts before and after the commit, or None if an old file is missing."""
    with home.writing("maintain") as writer:
        require_undamaged(writer)
        if commit_rewritten(place, rewritten, writer.lease.token, home.clock()) is None:
            return None
        failpoint("compaction.committed")
        now = place.snapshot()
        writer.tables.record_versions([(table.path, now.version, now.rows or 0)])
        failpoint("compaction.recorded")
    return len(now.files) - 1 + len(rewritten.removed), len(now.files)


def _are_there(place: Table, group: Sequence[DataFile]) -> bool:
    there = {file.location for file in place.files()}
    return all(file.location in there for file in group)


def to_compact(home: OpenHome, table: StoredTable) -> Iterator[Compacted]:
    """Yield the results that ``compact`` would yield for the table's groups, without changing any file."""
    after = len(Table(home.catalog.data / table.path).files())
    for group in groups_to_compact(home, table):
        before, after = after, after - len(group) + 1
        yield Compacted(table.name, len(group), before, after, sum(file.size for file in group), None)


def clean(home: OpenHome, table: StoredTable, keep_us: int, *, dry_run: bool) -> Iterator[Cleaned]:
    """Delete the files that the table has not needed for ``keep_us`` microseconds. Yield the result.

    With ``dry_run``, delete nothing. Raise LeaseBusy or StorageError.
    """
    place = Table(home.catalog.data / table.path)
    unneeded = deletable_files(place, keep_us, home.clock())
    if not dry_run and (unneeded.data or unneeded.log):
        with home.writing("maintain") as writer:
            require_undamaged(writer)
            unneeded = deletable_files(place, keep_us, home.clock())
            delete(place, unneeded, writer.lease.token, writer.check)
            now = place.snapshot()
            writer.tables.record_versions([(table.path, now.version, now.rows or 0)])
    if not dry_run and table.path == layout.LEDGER:
        _note_purges(home, keep_us)
    if unneeded.data or unneeded.log:
        yield Cleaned(table.name, len(unneeded.data), len(unneeded.log), unneeded.size)


def _note_purges(home: OpenHome, keep_us: int) -> None:
    """Record the purges whose files are deleted. A file that no commit has named may contain purged answers, too."""
    last, before = home.catalog.queries.last_purge(), home.clock() - max(keep_us, UNCOMMITTED_US)
    if last is not None and last <= before:
        with home.writing("maintain") as writer:
            writer.queries.purged_files_deleted(before)
