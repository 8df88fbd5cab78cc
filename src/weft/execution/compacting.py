"""The files of a home's tables and ledger: small ones are made one, and what nobody needs any more is deleted.

A new file is written without the lease, which is then held for the one commit, so that loads and ticks wait for no more
than that.  Nothing of it changes a row, so it may stop or die anywhere: what it left undone is found by the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weft.catalog import CatalogParts, layout
from weft.execution.home import Home
from weft.failpoint import failpoint
from weft.interruption import stop_here
from weft.location import Location
from weft.storage import compaction
from weft.storage.cleaning import LONGEST_RETENTION_US, deletable_files, delete
from weft.storage.compaction import Rewritten, Sorting, commit_rewritten, compactable, rewrite
from weft.storage.delta_log import DataFile, delta_snapshot, has_commits
from weft.storage.fence import make_durable
from weft.storage.removing import Remover
from weft.storage.stored_relations import SINCE
from weft.storage.verify import require_undamaged

KEPT_US: Final = LONGEST_RETENTION_US
"""How long files that nobody needs any more are kept where nothing else is said, in microseconds."""
_PATIENCE_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Compacted:
    """``files`` small files of the table ``name`` (or the ledger) became one: of ``size`` bytes, ``new_size`` bytes.

    The table had ``before`` files and has ``after``.  Where it is only told what would be done, ``new_size`` is None.
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
    """Data files of a table (or the ledger) and files of its log that were deleted, and their bytes together.

    ``problem`` says why they were not.
    """

    name: str
    files: int
    log: int
    size: int
    problem: str | None = None
    action: Literal["clean"] = "clean"


@dataclass(frozen=True)
class Stored:
    """A Delta table of a home: its name for people, its path, and how its rows and files are sorted."""

    name: str
    path: str
    sorting: Sorting


def of_synopses(catalog: CatalogParts) -> list[Stored]:
    """What synopses store: ticks make one file of many themselves, and leave the old ones."""
    paths = (each.path for each in catalog.tables.versions() if each.path.startswith(f"{layout.SYNOPSES}/"))
    return [Stored(path, path, Sorting(SINCE, (SINCE,))) for path in paths]


def stored(catalog: CatalogParts) -> list[Stored]:
    """The home's tables and the ledger, as far as anything was ever written to them."""
    found = [
        Stored(table.name, table.path, Sorting(table.stored.start, (table.stored.start,)))
        for table in catalog.tables.all()
    ]
    found.append(Stored("ledger", layout.LEDGER, compaction.LEDGER))
    return [each for each in found if has_commits(catalog.data / each.path)]


def groups(home: Home, table: Stored) -> list[tuple[DataFile, ...]]:
    """The files of the table that are to become one each."""
    files = delta_snapshot(home.catalog.data / table.path, check_files=False).files
    return compactable(files, table.sorting.neighbours, compaction.BOUNDS)


def compact(home: Home, table: Stored, group: Sequence[DataFile]) -> Iterator[Compacted]:
    """Makes the files of the group one, or few where one would not fit into memory.

    Stops early where another process has changed one of them.  Raises LeaseBusy, LeaseLost, StorageError.
    """
    place, left = home.catalog.data / table.path, tuple(group)
    while len(left) > 1:
        stop_here()
        with place.shared():  # nobody deletes them meanwhile
            if not _are_there(place, left):
                return
            rewritten = rewrite(place, left, table.sorting.within, compaction.BOUNDS)
        if rewritten is None:  # the first one alone is too large for it
            left = left[1:]
            continue
        failpoint("compaction.written")
        counted = _committed(home, table, place, rewritten)
        if counted is None:
            return
        count, size = len(rewritten.removed), sum(file.size for file in rewritten.removed)
        yield Compacted(table.name, count, *counted, size, rewritten.added.size)
        left = left[count:]


def _committed(home: Home, table: Stored, place: Location, rewritten: Rewritten) -> tuple[int, int] | None:
    """How many files the table had and has; None where the old ones are not there any more."""
    with home.writing("maintain") as writer:
        require_undamaged(writer)
        version = commit_rewritten(place, rewritten, writer.lease.token, home.clock())
        if version is None:
            return None
        failpoint("compaction.committed")
        make_durable(place, version)
        now = delta_snapshot(place, check_files=False)
        writer.tables.record_versions([(table.path, now.version, now.rows or 0)])
        failpoint("compaction.recorded")
    return len(now.files) - 1 + len(rewritten.removed), len(now.files)


def _are_there(place: Location, group: Sequence[DataFile]) -> bool:
    there = {file.location for file in delta_snapshot(place, check_files=False).files}
    return all(file.location in there for file in group)


def to_compact(home: Home, table: Stored) -> Iterator[Compacted]:
    """What ``compact`` would do with each group, as far as the log tells."""
    after = len(delta_snapshot(home.catalog.data / table.path, check_files=False).files)
    for group in groups(home, table):
        before, after = after, after - len(group) + 1
        yield Compacted(table.name, len(group), before, after, sum(file.size for file in group), None)


def clean(home: Home, table: Stored, keep_us: int, *, dry_run: bool) -> Iterator[Cleaned]:
    """Deletes the files of the table that nobody has needed for ``keep_us``; raises LeaseBusy, StorageError."""
    place = home.catalog.data / table.path
    found, problem = deletable_files(place, keep_us, home.clock()), None
    if not found.data and not found.log:
        return
    if not dry_run:
        with home.writing("maintain") as writer:
            require_undamaged(writer)
            found = deletable_files(place, keep_us, home.clock())
            if not delete(place, found, Remover(writer.lease.token, writer.check), _PATIENCE_SECONDS):
                problem = "somebody is reading it"
    yield Cleaned(table.name, len(found.data), len(found.log), found.size, problem)
