"""Read the log of a Delta table without Spark: its version, files and transactions, with integrity checks.

delta-rs treats an empty commit file as a commit without changes. This module therefore checks the log files first and
reports a truncated commit. Each error is a StorageError that names the file and the remedy.

A process reads each log entry once and applies new entries to its cached snapshot (``_LogPosition``). After
``forget_log`` or the restore of a copy, the process reads the whole log again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from weft.errors import FilesRemoved, StorageError
from weft.location import Location

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*(?:parquet|json)")
_PARQUET_ENDS: Final = b"PAR1"

_MOST_CACHED: Final = 64
_Cached = TypeVar("_Cached")

RESTORE_HINT: Final = "Restore the entire home from a backup; `weft doctor` lists all damage."


@dataclass(frozen=True)
class DataFile:
    """A data file of a table. ``size`` is the file size in bytes according to the log.

    ``rows`` is None if the log has no row count. ``least`` and ``greatest`` contain bounds for the columns with
    statistics. Instants are in microseconds. The bounds may be wider than the values.
    """

    location: Location
    size: int
    rows: int | None
    least: Mapping[str, Any]
    greatest: Mapping[str, Any]


@dataclass(frozen=True)
class DeltaSnapshot:
    """The state of a table at its last commit."""

    location: Location
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
class _LogPosition:
    """The last log entry that this process has read.

    ``version`` is the version of the commit. ``mark`` identifies the commit file and changes if the file is replaced.
    ``snapshot`` is the table at ``version``, or None before the first request. ``instants`` are the timestamp columns
    of the snapshot.
    """

    version: int
    mark: tuple[int, ...]
    snapshot: DeltaSnapshot | None = None
    instants: frozenset[str] = frozenset()


_positions: dict[str, _LogPosition] = {}
_idle_handles: dict[str, tuple[Any, tuple[int, ...]]] = {}
"""An idle delta-rs handle for each table, with the mark of the last commit that the handle has read."""
_cache_lock: Final = Lock()  # threads write different tables concurrently


def has_commits(table: Location) -> bool:
    """Return whether a Delta table exists. A folder without commits is not a table."""
    if _current_position(table) is not None:
        return True
    return bool(_numbered(table, _COMMIT)) or bool(_numbered(table, _CHECKPOINT))


def last_commit(table: Location) -> int:
    """Return the version of the last commit, even if its file is damaged. Return -1 if the log has no commit."""
    return max(_numbered(table, _COMMIT), default=-1)


def delta_snapshot(table: Location, *, check_files: bool = True) -> DeltaSnapshot:
    """Return the state of a table at the last commit. If ``check_files`` is True, check the size and the magic bytes of
    each data file.

    Raise StorageError if the table does not exist, or if one of its files is missing or truncated.
    """
    _apply_new_entries(table)
    followed = _positions.get(table.path)
    snapshot = followed.snapshot if followed else None
    if snapshot is None:
        opened = open_table(table)
        files = tuple(_data_file(table, action) for action in _add_actions(opened, table))
        snapshot = DeltaSnapshot(table, opened.version(), files)
        mark = commit_file(table, snapshot.version).mark()
        if mark is not None:
            _cache(_positions, table, _LogPosition(snapshot.version, mark, snapshot, _instants(opened)))
        return_table(table, opened)
    if check_files:
        for file in snapshot.files:
            check_data_file(file)
    return snapshot


def forget_log(table: Location) -> None:
    """Drop the cached log of the table."""
    _positions.pop(table.path, None)
    _idle_handles.pop(table.path, None)


def transaction_version(table: Location, app_id: str) -> int | None:
    """Return the last ``txnVersion`` of ``app_id``, or None. Raise StorageError if the log is damaged."""
    if not has_commits(table):
        return None
    opened = open_table(table)
    try:
        version: int | None = opened.transaction_version(app_id)
    except delta_errors() as error:
        raise _unreadable(table, error) from error
    return_table(table, opened)
    return version


def latest_version(table: Location) -> int | None:
    """Return the version of the last commit, or None if there is no table. Raise StorageError if the log is damaged."""
    if not has_commits(table):
        return None
    return _apply_new_entries(table)


def added_files(table: Location, version: int) -> tuple[DataFile, ...]:
    """Return the data files that a commit added. Raise StorageError if the commit is missing or damaged."""
    added = []
    for action in commit_actions(commit_file(table, version)):
        if "add" in action:
            add = action["add"]
            rows = json.loads(add.get("stats") or "{}").get("numRecords")
            added.append(DataFile(table / unquote(add["path"]), add["size"], rows, {}, {}))
    return tuple(added)


def check_log(table: Location) -> int:
    """Check the log and return the last version. Raise StorageError if a commit is missing, empty or truncated."""
    commits = _numbered(table, _COMMIT)
    checkpoints = _numbered(table, _CHECKPOINT)
    if not commits and not checkpoints:
        raise StorageError(f"there is no Delta table in {table}: the log is missing", hint=RESTORE_HINT)
    since = max(checkpoints, default=-1)
    for number in sorted(checkpoints):
        for file in checkpoints[number]:
            if number == since and file.name.endswith(".parquet"):
                _check_parquet(file)
    last = max(commits, default=since)
    if since < 0 and 0 not in commits:
        raise StorageError(f"the log of {table} does not begin at its first commit", hint=RESTORE_HINT)
    for version in range(since + 1, last + 1):
        if version not in commits:
            raise StorageError(
                f"the log of {table} lacks the commit {version}, although it ends at {last}", hint=RESTORE_HINT
            )
        commit_actions(commits[version][0])
    if last <= since and last in commits:
        commit_actions(commits[last][0])
    return max(last, since)


def check_data_file(file: DataFile) -> None:
    """Raise StorageError if the file is missing, has the wrong size, or lacks Parquet's magic bytes.

    Raise FilesRemoved, a StorageError, if the file is missing because its table no longer needs it.
    """
    try:
        size = file.location.size()
    except OSError as error:
        raise unreadable_file(file.location, error) from error
    if size != file.size:
        raise StorageError(
            f"a data file has {size} bytes, but the table's log says {file.size}",
            where=str(file.location),
            hint=RESTORE_HINT,
        )
    _check_parquet(file.location)


def unreadable_file(file: Location, error: Exception) -> StorageError:
    """Return the error for a data file that cannot be read.

    If the file is missing, the table is read again. If the table no longer names the file, the result is FilesRemoved:
    the file was removed and deleted after the caller had read the log.
    """
    if file.exists():
        return StorageError(f"a data file cannot be read: {error}", where=str(file), hint=RESTORE_HINT)
    table = file.parent
    if has_commits(table) and any(each.location == file for each in delta_snapshot(table, check_files=False).files):
        return StorageError("a data file is missing", where=str(file), hint=RESTORE_HINT)
    return FilesRemoved(
        "a file was removed from its table while it was being read", where=str(file), hint="Run the command again."
    )


def _check_parquet(file: Location) -> None:
    """Check the magic bytes. After a power cut, a file may have the right size and contain only zeros."""
    try:
        ends = file.ends(len(_PARQUET_ENDS))
    except OSError as error:
        raise unreadable_file(file, error) from error
    if ends != (_PARQUET_ENDS, _PARQUET_ENDS):
        raise StorageError("a file of a table is truncated or overwritten", where=str(file), hint=RESTORE_HINT)


def commit_file(table: Location, version: int) -> Location:
    """Return the path of the log file of a commit."""
    return table / f"_delta_log/{version:020d}.json"


def commit_actions(commit: Location) -> list[dict[str, Any]]:
    """Return the actions of a commit file. Raise StorageError if the file is missing, empty or truncated."""
    try:
        text = commit.read().decode("utf-8")
    except FileNotFoundError:
        raise StorageError("a commit is missing from a table's log", where=str(commit), hint=RESTORE_HINT) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"a commit cannot be read: {error}", where=str(commit), hint=RESTORE_HINT) from error
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
    return actions


def _numbered(table: Location, pattern: re.Pattern[str]) -> dict[int, list[Location]]:
    numbered: dict[int, list[Location]] = {}
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


def delta_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that delta-rs and Arrow raise if they cannot read or write a table."""
    import pyarrow
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError, ValueError, pyarrow.ArrowException)


def open_table(table: Location) -> Any:
    """Return an exclusive ``DeltaTable`` handle at the last commit. Raise StorageError if the log is damaged."""
    expected = _apply_new_entries(table)
    # Import delta-rs late, because the import is slow and most commands do not need delta-rs.
    from deltalake import DeltaTable

    try:
        opened = _updated_handle(table) or DeltaTable(table.uri)
        version = opened.version()
    except delta_errors() as error:
        raise _unreadable(table, error) from error
    if version < expected:
        raise StorageError(f"{table} was read at version {version}, but its log ends at {expected}", hint=RESTORE_HINT)
    return opened


def return_table(table: Location, opened: Any) -> None:
    """Put a handle into the cache for the next ``open_table``. The caller must not use the handle afterwards."""
    mark = commit_file(table, opened.version()).mark()
    if mark is not None:
        _cache(_idle_handles, table, (opened, mark))


def _updated_handle(table: Location) -> Any:
    """Update the cached handle to the last commit. Return None if the log was replaced."""
    opened, mark = _idle_handles.pop(table.path, (None, ()))
    if opened is None or commit_file(table, opened.version()).mark() != mark:
        return None
    try:
        opened.update_incremental()
    except delta_errors():  # commits that it needs are cleaned up: read the checkpoint
        return None
    return opened


def _apply_new_entries(table: Location) -> int:
    known = _current_position(table)
    if known is None:
        forget_log(table)
        version = check_log(table)
        mark = commit_file(table, version).mark()
        if mark is not None:
            _cache(_positions, table, _LogPosition(version, mark))
        return version
    before = known
    while (mark := commit_file(table, known.version + 1).mark()) is not None:
        version = known.version + 1
        actions = commit_actions(commit_file(table, version))
        snapshot = known.snapshot and _next_snapshot(known.snapshot, version, actions, known.instants)
        known = _LogPosition(version, mark, snapshot, known.instants)
    if known is not before:
        _cache(_positions, table, known)
    return known.version


def _current_position(table: Location) -> _LogPosition | None:
    known = _positions.get(table.path)
    return known if known and commit_file(table, known.version).mark() == known.mark else None


def _cache(cache: dict[str, _Cached], table: Location, value: _Cached) -> None:
    with _cache_lock:
        cache.pop(table.path, None)
        cache[table.path] = value
        while len(cache) > _MOST_CACHED:
            cache.pop(next(iter(cache)), None)


def _next_snapshot(
    before: DeltaSnapshot, version: int, actions: Sequence[Mapping[str, Any]], instants: frozenset[str]
) -> DeltaSnapshot | None:
    """Return the snapshot after one more commit. Return None if the commit changes the metadata or the protocol."""
    from weft.storage.statistics import parse_statistics

    files = before.files
    gone = {before.location / unquote(action["remove"]["path"]) for action in actions if "remove" in action}
    if gone:
        files = tuple(file for file in files if file.location not in gone)
    added = []
    for action in actions:
        if "metaData" in action or "protocol" in action:
            return None
        if "add" in action:
            add = action["add"]
            rows, least, greatest = parse_statistics(add.get("stats"), instants)
            added.append(DataFile(before.location / unquote(add["path"]), add["size"], rows, least, greatest))
    return (
        DeltaSnapshot(before.location, version, (*files, *added)) if added or gone else replace(before, version=version)
    )


def _instants(opened: Any) -> frozenset[str]:
    import pyarrow

    return frozenset(f.name for f in pyarrow.schema(opened.schema().to_arrow()) if pyarrow.types.is_timestamp(f.type))


def _add_actions(opened: Any, table: Location) -> Sequence[Mapping[str, Any]]:
    import pyarrow

    from weft.storage.statistics import micros_in_bounds

    try:
        actions = pyarrow.table(opened.get_add_actions(flatten=True))
        rows: Sequence[Mapping[str, Any]] = micros_in_bounds(actions).to_pylist()
    except delta_errors() as error:
        raise _unreadable(table, error) from error
    return rows


def _data_file(table: Location, action: Mapping[str, Any]) -> DataFile:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, value in action.items():
        bound, _, column = name.partition(".")
        if value is None or not column:
            continue
        if bound == "min":
            least[column] = value
        elif bound == "max":
            greatest[column] = value
    return DataFile(table / unquote(action["path"]), action["size_bytes"], action.get("num_records"), least, greatest)


def _unreadable(table: Location, error: Exception) -> StorageError:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return StorageError(f"the table in {table} cannot be read: {first_line}", hint=RESTORE_HINT)
