"""Read the log of a Delta table without Spark: its commits, the files that they name, and damage of the log.

delta-rs treats an empty commit file as a commit without changes. This module therefore checks the log files first and
reports a truncated commit. Each error is a StorageError that names the file and the remedy.

A process reads each log entry once and applies new entries to its cached snapshot (``LogPosition``). After ``forget``
or the restore of a copy, the process reads the whole log again.

On an object store, each look for a later entry is a request. A process that holds the lease is the only writer, so it
does not look: it ``trusts`` its position until it commits, finds an error, or releases the lease.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote

from weft.errors import StorageError
from weft.storage.attached import COLUMN, Attached, restored
from weft.store import Store

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*(?:parquet|json)")
_PARQUET_ENDS: Final = b"PAR1"

MOST_CACHED: Final = 64
"""The maximum number of tables whose log position and handle a process caches."""
_RECENT: Final = 8

RESTORE_HINT: Final = "Restore the entire home from a backup; `weft doctor` lists all damage."


@dataclass(frozen=True)
class DataFile:
    """A data file of a table. ``size`` is the file size in bytes according to the log.

    ``rows`` is None if the log has no row count. ``least`` and ``greatest`` contain bounds for the columns with
    statistics. Instants are in microseconds. The bounds may be wider than the values. ``attached`` describes a file of
    another program's table, or is None.
    """

    location: Store
    size: int
    rows: int | None
    least: Mapping[str, Any]
    greatest: Mapping[str, Any]
    attached: Attached | None = None

    @property
    def name(self) -> str:
        """The name of the file in the log of its table."""
        return self.location.name if self.attached is None else self.attached.entry

    @property
    def table(self) -> Store:
        """The folder of the table whose log names the file."""
        return self.location.parent if self.attached is None else self.attached.own

    def may_hold(self, column: str, low: int, high: int) -> bool:
        """Return whether the file may have a row with a value from ``low`` to ``high`` in the column."""
        return bool(self.greatest.get(column, high) >= low and self.least.get(column, low) <= high)

    def may_hold_any(self, column: str, values: Sequence[int]) -> bool:
        """Return whether the file may have a row with one of the ascending ``values`` in the column."""
        at = bisect_left(values, self.least[column]) if column in self.least else 0
        return at < len(values) and self.may_hold(column, values[at], values[-1])


def bounds_of(files: Sequence[DataFile]) -> tuple[int | None, int | None]:
    """Return the least and the greatest instant of the rows in attached files."""
    attached = [file.attached for file in files if file.attached is not None]
    firsts = [each.first for each in attached if each.first is not None]
    lasts = [each.last for each in attached if each.last is not None]
    return min(firsts, default=None), max(lasts, default=None)


@dataclass(frozen=True)
class DeltaSnapshot:
    """The state of a table at its last commit."""

    location: Store
    version: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int | None:
        """The number of rows according to the log, or None if the log lacks the row count of a file."""
        total = 0
        for file in self.files:
            if file.rows is None:
                return None
            total += file.rows
        return total


@dataclass(frozen=True)
class LogEntry:
    """A commit in the log of the table in the folder ``table``."""

    table: Store
    version: int
    actions: Sequence[Mapping[str, Any]]

    @cached_property
    def added(self) -> tuple[DataFile, ...]:
        """The files that the commit added, without bounds."""
        return tuple(self._files("add"))

    @cached_property
    def removed(self) -> tuple[DataFile, ...]:
        """The files that the commit removed, without bounds."""
        return tuple(self._files("remove"))

    def _files(self, kind: str) -> Sequence[DataFile]:
        found = []
        for fields in (action[kind] for action in self.actions if kind in action):
            rows = json.loads(fields.get("stats") or "{}").get("numRecords")
            described = (fields.get("partitionValues") or {}).get(COLUMN)
            location, attached = located(self.table, unquote(fields["path"]), described)
            found.append(DataFile(location, fields.get("size") or 0, rows, {}, {}, attached))
        return found

    @property
    def numbers(self) -> Mapping[str, int]:
        """The transaction number of each application in the commit."""
        return {action["txn"]["appId"]: action["txn"]["version"] for action in self.actions if "txn" in action}

    @property
    def removes_rows(self) -> bool:
        """Whether the commit removed rows, and not only files whose rows are in other files."""
        return any(action["remove"]["dataChange"] for action in self.actions if "remove" in action)


@dataclass(frozen=True)
class LogPosition:
    """The last log entry that this process has read.

    ``version`` is the version of the commit. ``mark`` identifies the commit file and changes if the file is replaced.
    ``snapshot`` is the table at ``version``, or None before the first request. ``instants`` are the timestamp columns
    of the snapshot. ``recent`` are the last entries that this process has read.
    """

    version: int
    mark: tuple[int, ...]
    snapshot: DeltaSnapshot | None = None
    instants: frozenset[str] = frozenset()
    recent: tuple[LogEntry, ...] = ()


_positions: dict[str, LogPosition] = {}
_trusted: set[str] = set()
"""The tables whose position is at the end of the log, because no other process commits to them."""
_lock: Final = Lock()  # threads write different tables concurrently


def located(table: Store, path: str, described: str | None) -> tuple[Store, Attached | None]:
    """Return the location of a file in a table's log. ``described`` is its value of ``COLUMN``, or None."""
    if described is None:
        return table / path, None
    attached = restored(table, path, described)
    return attached.location, attached


def commit_file(table: Store, version: int) -> Store:
    """Return the path of the log file of a commit."""
    return table / f"_delta_log/{version:020d}.json"


def trust(table: Store) -> None:
    """Do not look for later entries of the table, until ``distrust``. The caller holds the lease."""
    _trusted.add(str(table))


def distrust(table: Store | None = None) -> None:
    """Look for later entries of the table again, or of all tables."""
    if table is None:
        _trusted.clear()
    else:
        _trusted.discard(str(table))


def version_read(table: str) -> int | None:
    """Return the version up to which this process has read or written the log of a table, given as text."""
    known = _positions.get(table)
    return None if known is None else known.version


def log_exists(table: Store) -> bool:
    """Return whether a Delta table exists. A folder without commits is not a table."""
    if _current(table) is not None:
        return True
    return bool(_numbered(table, _COMMIT)) or bool(_numbered(table, _CHECKPOINT))


def last_commit(table: Store) -> int:
    """Return the version of the last commit, even if its file is damaged. Return -1 if the log has no commit."""
    return max(_numbered(table, _COMMIT), default=-1)


def follow(table: Store, *, fresh: bool = False) -> LogPosition:
    """Read the log entries since the last call, and return the position after them.

    With ``fresh``, also look for entries of a trusted table. Raise StorageError if the table does not exist or if the
    log is damaged.
    """
    known = _current(table)
    if known is not None and str(table) in _trusted and not fresh:
        return known
    if known is None:
        forget(table)
        version = check_log(table)
        mark = commit_file(table, version).mark()
        known = LogPosition(version, mark or ())
        if mark is not None:
            note(table, known)
        return known
    before = known
    while (entry_and_mark := _read_next(table, known.version + 1)) is not None:
        entry, mark = entry_and_mark
        snapshot = known.snapshot and _next_snapshot(known.snapshot, entry, known.instants)
        known = LogPosition(entry.version, mark, snapshot, known.instants, (*known.recent, entry)[-_RECENT:])
    if known is not before:
        note(table, known)
    return known


def note(table: Store, position: LogPosition) -> None:
    """Cache the position of a table. A thread that reads does not move back the position that the writer trusts."""
    with _lock:
        known = _positions.get(str(table))
        if known is not None and str(table) in _trusted and known.version > position.version:
            return
        _positions.pop(str(table), None)
        _positions[str(table)] = position
        while len(_positions) > MOST_CACHED:
            _positions.pop(next(iter(_positions)), None)


def forget(table: Store) -> None:
    """Drop the cached position of a table."""
    distrust(table)
    _positions.pop(str(table), None)


def _current(table: Store) -> LogPosition | None:
    known = _positions.get(str(table))
    if known is None or str(table) in _trusted:
        return known
    return known if commit_file(table, known.version).mark() == known.mark else None


def mark_of(table: Store, version: int) -> tuple[int, ...] | None:
    """Return the mark of the log file of a commit, or None if the file does not exist."""
    known = _positions.get(str(table))
    if known is not None and known.version == version and str(table) in _trusted:
        return known.mark
    return commit_file(table, version).mark()


def read_entry(table: Store, version: int) -> LogEntry:
    """Return the log entry of a commit. Raise StorageError if the commit is missing or damaged."""
    known = _current(table)
    entry = next((each for each in known.recent if each.version == version), None) if known else None
    return entry or _read(table, version)


def _read(table: Store, version: int) -> LogEntry:
    found = _read_next(table, version)
    if found is None:
        where = str(commit_file(table, version))
        raise StorageError("a commit is missing from a table's log", where=where, hint=RESTORE_HINT)
    return found[0]


def _read_next(table: Store, version: int) -> tuple[LogEntry, tuple[int, ...]] | None:
    """Return the log entry of a commit with the mark of its file, or None if there is no such commit."""
    commit = commit_file(table, version)
    try:
        found = commit.read_marked()
        if found is None:
            return None
        return _parsed(table, version, found[0].decode("utf-8")), found[1]
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"a commit cannot be read: {error}", where=str(commit), hint=RESTORE_HINT) from error


def _parsed(table: Store, version: int, text: str) -> LogEntry:
    commit = commit_file(table, version)
    actions = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            action = json.loads(line)
        except json.JSONDecodeError as error:
            raise StorageError("a commit is truncated", where=str(commit), hint=RESTORE_HINT) from error
        if not isinstance(action, dict):
            raise StorageError("a commit contains a line that is not an action", where=str(commit), hint=RESTORE_HINT)
        actions.append(action)
    if not actions:
        raise StorageError("a commit is empty", where=str(commit), hint=RESTORE_HINT)
    return LogEntry(table, version, actions)


def check_log(table: Store) -> int:
    """Check the log and return the last version. Raise StorageError if a commit is missing, empty or truncated."""
    commits = _numbered(table, _COMMIT)
    checkpoints = _numbered(table, _CHECKPOINT)
    if not commits and not checkpoints:
        raise StorageError(f"there is no Delta table in {table}: the log is missing", hint=RESTORE_HINT)
    since = max(checkpoints, default=-1)
    for file in checkpoints.get(since, ()):
        if file.name.endswith(".parquet"):
            try:
                check_parquet(file)
            except OSError as error:
                raise StorageError(
                    f"a checkpoint cannot be read: {error}", where=str(file), hint=RESTORE_HINT
                ) from error
    last = max(commits, default=since)
    if since < 0 and 0 not in commits:
        raise StorageError(f"the log of {table} does not begin at its first commit", hint=RESTORE_HINT)
    for version in range(since + 1, last + 1):
        if version not in commits:
            raise StorageError(
                f"the log of {table} lacks the commit {version}, although it ends at {last}", hint=RESTORE_HINT
            )
        _read(table, version)
    if last <= since and last in commits:
        _read(table, last)
    return max(last, since)


def names_file(file: Store) -> bool:
    """Return whether the log of the table in the file's folder names the data file now."""
    table = file.parent
    distrust(table)
    if not log_exists(table):
        return False
    checkpoints = _numbered(table, _CHECKPOINT)
    since = max(checkpoints, default=-1)
    for version in range(follow(table).version, since, -1):
        entry = read_entry(table, version)
        if file in (each.location for each in entry.added):
            return True
        if file in (each.location for each in entry.removed):
            return False
    import pyarrow.parquet as pq

    parts = [part for part in checkpoints.get(since, ()) if part.name.endswith(".parquet")]
    read = (pq.read_table(part.path, filesystem=part.filesystem, columns=["add.path"]) for part in parts)
    return any(file.name in (unquote(path) for path in each.column(0).to_pylist() if path) for each in read)


def check_parquet(file: Store) -> None:
    """Check the magic bytes. After a power cut, a file may have the right size and contain only zeros.

    Raise StorageError if they are wrong, and OSError if the file cannot be read.
    """
    if file.ends(len(_PARQUET_ENDS)) != (_PARQUET_ENDS, _PARQUET_ENDS):
        raise StorageError("a file of a table is truncated or overwritten", where=str(file), hint=RESTORE_HINT)


def _numbered(table: Store, pattern: re.Pattern[str]) -> dict[int, list[Store]]:
    numbered: dict[int, list[Store]] = {}
    log = table / "_delta_log"
    try:
        names = log.names()
    except OSError as error:
        raise StorageError(f"a table's log cannot be read: {error.strerror}", where=str(table)) from error
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            numbered.setdefault(int(match[1]), []).append(log / name)
    return numbered


def _next_snapshot(before: DeltaSnapshot, entry: LogEntry, instants: frozenset[str]) -> DeltaSnapshot | None:
    """Return the snapshot after one more commit. Return None if the commit changes the metadata or the protocol."""
    from weft.storage.statistics import parse_statistics

    if any("metaData" in action or "protocol" in action for action in entry.actions):
        return None
    files, gone = before.files, {file.location for file in entry.removed}
    if gone:
        files = tuple(file for file in files if file.location not in gone)
    added = []
    for file, fields in zip(entry.added, (a["add"] for a in entry.actions if "add" in a), strict=True):
        rows, least, greatest = parse_statistics(fields.get("stats"), instants)
        added.append(replace(file, rows=rows, least=least, greatest=greatest))
    return DeltaSnapshot(before.location, entry.version, (*files, *added))
