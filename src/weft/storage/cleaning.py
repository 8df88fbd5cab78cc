"""Files of a Delta table that nobody needs any more are deleted: no sooner than their time, and while nobody reads.

Data files go that the table does not have: compaction or a purge took them out of the log, or a writer died before its
commit.  Of the log itself what lies behind a checkpoint goes.  Each is kept for some time after it was taken out, or
last written, for readers that Weft does not know of; Weft's own hold the table's folder meanwhile
(``Location.shared``).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from weft.errors import StorageError
from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.delta_log import delta_errors, delta_snapshot, has_commits, keep_open, open_table
from weft.storage.fence import spend
from weft.storage.removing import REMOVING, Remover, require_latest

HOUR_US: Final = 60 * 60 * 1_000_000
LONGEST_KEPT_US: Final = 7 * 24 * HOUR_US
"""Delta's log does not know for longer when a file was taken out of it (``delta.deletedFileRetentionDuration``)."""

_LISTED_US: Final = 10 * 60 * 1_000_000
"""How long a reader may take from listing a log to reading it, for which it holds nothing."""

_DATA: Final = re.compile(r"part-[^/]*\.parquet")
_OF_THE_LOG: Final = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint\.\S*)(\.crc)?")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True)
class Litter:
    """What may be deleted: data files, files of the log, and their bytes together."""

    data: tuple[Location, ...]
    log: tuple[Location, ...]
    size: int


def litter(table: Location, keep_us: int, at: int) -> Litter:
    """What was taken out, or last written, ``keep_us`` before ``at`` (microseconds, the wall's) or earlier.

    Whole hours count, begun ones as whole.  Raises StorageError for a log that is damaged.
    """
    if not has_commits(table):
        return Litter((), (), 0)
    named = {file.location for file in delta_snapshot(table, check_files=False).files}
    try:
        opened = open_table(table)
        # It knows from the log when a file was taken out of it.
        found = opened.vacuum(
            retention_hours=-(-keep_us // HOUR_US), dry_run=True, enforce_retention_duration=False, full=True
        )
        keep_open(table, opened)
    except delta_errors() as error:
        raise StorageError(f"the files of a table could not be listed: {error}", where=str(table)) from error
    # Whatever else somebody has put there is not Weft's to delete.
    places = dict.fromkeys(table / name for name in found if _DATA.fullmatch(name))
    data = tuple(place for place in places if place not in named and place.exists())
    log = _behind_a_checkpoint(table, at - max(keep_us, _LISTED_US))
    return Litter(data, log, sum(map(_size, (*data, *log))))


def delete(table: Location, found: Litter, remover: Remover, patience_seconds: float) -> bool:
    """Deletes it, unless somebody uses the table for longer than ``patience_seconds``; whether it did.

    The caller holds the lease, and has found the table whole.  The lease is checked while nobody else uses the table:
    a later writer's file that no commit names yet is not deleted, since that writer uses the table until its commit.
    An earlier writer can no longer commit what is deleted here: the numbers of loads and ticks are spent by whoever
    settles them, that of compactions is spent here.  Raises LeaseLost, StorageError.
    """
    if not found.data and not found.log:
        return True
    with table.alone(patience_seconds) as alone:
        if not alone:
            return False
        remover.check()
        require_latest(table, remover.token, "files that nobody needs were being deleted")
        spend(table, REMOVING, remover.token)
        try:
            _force_log(table)
            for file in (*found.data, *found.log):
                _remove(file)
                failpoint("cleaning.deleted")
            table.force()
        except OSError as error:
            raise StorageError(
                f"a file could not be deleted: {error.strerror}",
                where=str(table),
                hint="What is left is deleted the next time.",
            ) from error
    return True


def _behind_a_checkpoint(table: Location, before: int) -> tuple[Location, ...]:
    """The log's files that no reader needs who began after the instant ``before``, the oldest first."""
    log = table / "_delta_log"
    names = log.names()
    old = [
        int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name)) and _modified(log / name) <= before
    ]
    last = max(old, default=0)
    numbered = ((int(match[1]), name) for name in names if (match := _OF_THE_LOG.fullmatch(name)))
    return tuple(log / name for number, name in sorted(numbered) if number < last)


def _force_log(table: Location) -> None:
    """The log from its last checkpoint on, which names the files that stay, has to survive a power cut first."""
    log = table / "_delta_log"
    names = log.names()
    since = max((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), default=0)
    for name in names:
        match = _OF_THE_LOG.fullmatch(name)
        if match and int(match[1]) >= since:
            (log / name).force()
    log.force()


def _remove(file: Location) -> None:
    """The file, and the checksum that Spark keeps beside it."""
    for place in (file.parent / f".{file.name}.crc", file):
        with suppress(FileNotFoundError):
            place.remove()


def _modified(file: Location) -> int:
    with suppress(FileNotFoundError):
        return file.modified_ms() * 1_000
    return 2**63


def _size(file: Location) -> int:
    with suppress(FileNotFoundError):
        return file.size()
    return 0
