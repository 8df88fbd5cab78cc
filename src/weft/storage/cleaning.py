"""Delete unneeded files of a Delta table after a retention.

The unneeded files are log files before a checkpoint, and data files that the log does not name. A data file is unneeded
after a compaction, an undo, a discard or a purge, or if its writer died before the commit. The retention starts when
the file is removed from the log, or when the file was last written. The retention protects readers. A reader whose file
is deleted anyway must read again (``FilesRemoved``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from weft.errors import StorageError
from weft.failpoint import failpoint
from weft.storage.attached import INSTANTS
from weft.storage.table import REMOVING, Table, removal
from weft.store import Store

HOUR_US: Final = 60 * 60 * 1_000_000
LONGEST_RETENTION_US: Final = 7 * 24 * HOUR_US
"""The time for which Delta's log records removed files (``delta.deletedFileRetentionDuration``)."""

UNCOMMITTED_US: Final = 24 * HOUR_US
"""The least retention of a data file that no commit has named. The file may belong to a writer that is still running,
such as a compaction. The retention is much longer than a lease.
"""

_LISTED_US: Final = 10 * 60 * 1_000_000
"""The maximum time that a reader without a lock needs between listing and reading a log."""

_DATA: Final = re.compile(r"part-[^/]*\.parquet")
_OF_THE_LOG: Final = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint\.\S*)(\.crc)?")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True)
class DeletableFiles:
    """Data files and log files that may be deleted, and their total size in bytes."""

    data: tuple[Store, ...]
    log: tuple[Store, ...]
    size: int


def deletable_files(table: Table, keep_us: int, at: int) -> DeletableFiles:
    """Return the files that may be deleted at the wall-clock time ``at`` (µs).

    A file must have been removed from the log at least ``keep_us`` before ``at``. A file that no commit has named must
    also have been written at least ``UNCOMMITTED_US`` before. The function rounds times up to whole hours. Raise
    StorageError if the log is damaged.
    """
    if not table.exists():
        return DeletableFiles((), (), 0)
    named = {file.location for file in table.files()}
    names = [*table.unneeded(keep_us), *table.unneeded(max(keep_us, UNCOMMITTED_US), uncommitted=True)]
    # Files with other names stay, because Weft did not write them.
    places = dict.fromkeys(table.place / name for name in names if _DATA.fullmatch(name))
    data = tuple(place for place in places if place not in named and place.exists())
    data += _unneeded_instants(table, keep_us, at)
    log = _behind_a_checkpoint(table.place, at - max(keep_us, _LISTED_US))
    return DeletableFiles(data, log, sum(map(_size, (*data, *log))))


def _unneeded_instants(table: Table, keep_us: int, at: int) -> tuple[Store, ...]:
    """Return the files with the instants of single rows that no file of an attached table needs."""
    folder = table.place / INSTANTS
    there = folder.names()
    if not there:
        return ()
    needed = {file.name for file in table.files()} | (set(table.unneeded(0)) - set(table.unneeded(keep_us)))
    places = (folder / name for name in there if name.removesuffix(".parquet") not in needed)
    return tuple(place for place in places if _modified(place) <= at - max(keep_us, UNCOMMITTED_US))


def delete(table: Table, files: DeletableFiles, token: int, check: Callable[[], None]) -> None:
    """Delete the files. The caller must hold the lease and must have checked the table for damage.

    ``token`` is the token of the lease, and ``check`` raises LeaseLost if the lease is lost. The lease is checked after
    the files were listed, so the files of a later writer are not among them. An earlier writer cannot commit a deleted
    file, because its number can no longer be used. For compactions, this function commits the token first. Raise
    LeaseLost or StorageError.
    """
    if not files.data and not files.log:
        return
    check()
    if table.number(REMOVING) != token:
        table.commit(removal(token), doing="unneeded files were being deleted")
    try:
        _force_log(table.place)
        for file in (*files.data, *files.log):
            _remove(file)
            failpoint("cleaning.deleted")
        table.place.force()
    except OSError as error:
        raise StorageError(
            f"a file could not be deleted: {error.strerror}",
            where=str(table),
            hint="Run the maintenance again: it deletes the remaining files.",
        ) from error


def clear(table: Table) -> None:
    """Delete a dropped table. Its commits are deleted first, the latest before the earlier ones.

    A reader therefore finds no table, or an earlier state whose files exist.
    """
    log = table.place / "_delta_log"
    for name in sorted(log.names(), reverse=True):
        with suppress(FileNotFoundError):
            (log / name).remove()
    table.place.clear()
    table.forget()


def _behind_a_checkpoint(table: Store, before: int) -> tuple[Store, ...]:
    """Return the log files before the newest checkpoint that existed at ``before``, oldest first."""
    log = table / "_delta_log"
    names = log.names()
    old = [
        int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name)) and _modified(log / name) <= before
    ]
    last = max(old, default=0)
    numbered = ((int(match[1]), name) for name in names if (match := _OF_THE_LOG.fullmatch(name)))
    return tuple(log / name for number, name in sorted(numbered) if number < last)


def _force_log(table: Store) -> None:
    """Force the log since the last checkpoint to disk, because this part of the log names the files that stay."""
    log = table / "_delta_log"
    names = log.names()
    since = max((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), default=0)
    for name in names:
        match = _OF_THE_LOG.fullmatch(name)
        if match and int(match[1]) >= since:
            (log / name).force()
    log.force()


def _remove(file: Store) -> None:
    """Delete the file and its checksum file. Spark may have written the checksum file."""
    for place in (file.parent / f".{file.name}.crc", file):
        with suppress(FileNotFoundError):
            place.remove()


def _modified(file: Store) -> int:
    with suppress(FileNotFoundError):
        return file.modified_ms() * 1_000
    return 2**63


def _size(file: Store) -> int:
    with suppress(FileNotFoundError):
        return file.size()
    return 0
