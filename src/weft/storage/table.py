"""One Delta table of a home: its snapshot, its rows, and the one way in which Weft commits to it, without Spark.

A commit carries a transaction number of its application, which grows with each writer (``Fence``). delta-rs accepts a
stale or repeated number silently. It refuses a commit only if the same application has committed since the handle was
opened. ``Table.commit`` therefore opens one handle, compares the number in the log, and commits through that handle.
Then it reads the log: what the log lists is stored, and nothing else. Before Weft gives up the number of a dead writer,
Weft commits the number without data (``spend``). A late commit with this number then fails.

Commits that remove files have the token of the writer's lease as their number, because delta-rs allows two commits to
remove the same file. A writer that has lost its lease therefore cannot remove files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from weft.errors import LeaseLost, StorageError
from weft.failpoint import failpoint
from weft.storage import delta_log
from weft.storage.attached import COLUMN
from weft.storage.data_files import ROW_GROUP, ROW_GROUP_PROPERTY, FileForm, NewFile, file_batches
from weft.storage.delta_log import MOST_CACHED, RESTORE_HINT, DataFile, DeltaSnapshot, LogEntry, commit_file, located
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

PROPERTIES: Final = {
    # Every 50th commit writes a checkpoint.
    "delta.checkpointInterval": "50",
    # Deletion vectors are off, because Spark and Arrow read the data files directly.
    "delta.enableDeletionVectors": "false",
}
"""The properties of every Delta table of a home. Some tables have more properties."""

REMOVING: Final = "weft-compaction"
"""The ``txnAppId`` of commits that remove files from a table's log. The transaction numbers are lease tokens."""

_HOUR_US: Final = 60 * 60 * 1_000_000
_FULL: Final = ("No space left on device", "[Errno 28]", "os error 28")
"""The texts by which Arrow and delta-rs report a full disk."""

_idle_handles: dict[str, tuple[Any, tuple[int, ...]]] = {}
"""An idle delta-rs handle for each table, with the mark of the last commit that the handle has read."""


@dataclass(frozen=True)
class Fence:
    """The right to commit: the transaction number ``number`` of the application ``app_id``.

    The number must be greater than the last number of the application. A number that ``repeats`` may be equal to it,
    because the token of a lease serves several commits.
    """

    app_id: str
    number: int
    repeats: bool = False

    def passed_by(self, last: int | None) -> bool:
        """Return whether a writer with the number ``last`` has committed, so that this number is refused."""
        return last is not None and (last > self.number if self.repeats else last >= self.number)


def removal(token: int) -> Fence:
    """Return the fence of commits that remove files. ``token`` is the token of the writer's lease."""
    return Fence(REMOVING, token, repeats=True)


@dataclass(frozen=True)
class Commit:
    """A commit that is on disk: its version, and the files that it added."""

    version: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows that the commit added."""
        return sum(file.rows or 0 for file in self.files)


@dataclass(frozen=True)
class Table:
    """The Delta table in the folder ``place``. The table need not exist.

    Methods raise StorageError if the log is damaged. Methods that commit also raise StorageError if the commit cannot
    be written, and LeaseLost if another writer has passed the fence. After either error, the table has no part of the
    commit.
    """

    place: Store

    def __str__(self) -> str:
        return str(self.place)

    def exists(self) -> bool:
        """Return whether the table exists. A folder without commits is not a table."""
        return delta_log.log_exists(self.place)

    def snapshot(self) -> DeltaSnapshot:
        """Return the state of the table at the last commit. Raise StorageError if the table does not exist."""
        position = delta_log.follow(self.place)
        if position.snapshot is None:
            handle = self._handle()
            snapshot = DeltaSnapshot(self.place, handle.version(), tuple(self._files_of(handle)))
            mark = delta_log.mark_of(self.place, snapshot.version)
            if mark is not None:
                known = replace(position, version=snapshot.version, mark=mark, snapshot=snapshot)
                delta_log.note(self.place, replace(known, instants=_instants(handle)))
            self._put_back(handle)
            return snapshot
        return position.snapshot

    def files(self) -> tuple[DataFile, ...]:
        """Return the data files at the last commit. Return () if the table does not exist."""
        return self.snapshot().files if self.exists() else ()

    def scan(
        self, schema: pa.Schema, condition: pc.Expression | None = None, files: Sequence[DataFile] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy ``condition``, with the columns of ``schema``, file by file.

        ``files`` restricts the scan. A column that is newer than a file is NULL.
        """
        for file in self.files() if files is None else files:
            yield from file_batches(file, schema, condition)

    def entry(self, version: int) -> LogEntry:
        """Return the log entry of a commit. Raise StorageError if the log has no such entry."""
        return delta_log.read_entry(self.place, version)

    def entries(self) -> Iterator[LogEntry]:
        """Yield the log entries, the latest first, up to the entries that were deleted behind a checkpoint."""
        for version in range(delta_log.follow(self.place).version if self.exists() else -1, -1, -1):
            if not commit_file(self.place, version).exists():
                return
            yield self.entry(version)

    def number(self, app_id: str) -> int | None:
        """Return the last transaction number of an application, or None."""
        if not self.exists():
            return None
        last: int | None = self._read(lambda handle: handle.transaction_version(app_id))
        return last

    def find(self, app_id: str, number: int) -> Commit | None:
        """Return the commit in which this transaction added files, or None. The commit is forced to disk."""
        for entry in self.entries():
            theirs = entry.numbers.get(app_id)
            if theirs == number and entry.added:
                return self._durable(entry)
            if theirs is not None and theirs < number:  # the numbers ascend, so the commit is not further back
                return None
        return None

    def unneeded(self, keep_us: int, *, uncommitted: bool = False) -> Sequence[str]:
        """Return the names of files that a commit removed at least ``keep_us`` ago, rounded up to whole hours.

        With ``uncommitted``, also return the files that no commit has named and that are at least as old.
        """
        hours = -(-keep_us // _HOUR_US)  # delta-rs reads the removal times from the log
        names: Sequence[str] = self._read(
            lambda handle: handle.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=uncommitted)
        )
        return names

    def metadata(self) -> Any:
        """Return the metadata of the table (a delta-rs ``Metadata``)."""
        return self._read(lambda handle: handle.metadata())

    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the table."""
        return self._read(_schema)

    def ensure(
        self,
        schema: pa.Schema,
        properties: Mapping[str, str],
        description: str | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        """Create an empty table, or add missing columns and properties to an existing table. The change is durable.

        The caller must hold the lease: this change has no fence.
        """
        for again in (False, True):
            try:
                self._bring_about(schema, {**PROPERTIES, **properties}, description, partition_by)
                return
            except delta_errors() as error:
                if again:
                    raise self._unwritten(error, "a table was being created or changed") from error
                self.forget()  # a change whose reply was lost is found there, and not made again

    def _bring_about(
        self, schema: pa.Schema, wanted: Mapping[str, str], description: str | None, partition_by: Sequence[str]
    ) -> None:
        if not self.exists():
            from deltalake import DeltaTable

            (self.place / "_delta_log").make()
            DeltaTable.create(
                self.place.uri,
                schema,
                storage_options=self.place.options,
                description=description,
                partition_by=list(partition_by),
                configuration=dict(wanted),
                raise_if_key_not_exists=False,  # some properties are Weft's own
            )
            self._force_since(-1)
            return
        handle = self._handle()
        before, there = handle.version(), _schema(handle).names
        if new := [field for field in schema if field.name not in there]:
            import pyarrow
            from deltalake import Schema

            handle.alter.add_columns(Schema.from_arrow(pyarrow.schema(new)).fields)
        has = handle.metadata().configuration
        if other := {name: value for name, value in wanted.items() if has.get(name) != value}:
            # after the columns: Spark refuses statistics of a missing column
            handle.alter.set_table_properties(other, raise_if_not_exists=False)
        self._force_since(before)
        self._put_back(handle)

    def form(self) -> FileForm:
        """Return the form of a new data file of the table."""
        from weft.storage.statistics import columns_with_statistics

        schema, properties = self._read(lambda handle: (_schema(handle), handle.metadata().configuration))
        row_group = int(properties.get(ROW_GROUP_PROPERTY, ROW_GROUP))
        return FileForm(self.place, schema, tuple(columns_with_statistics(properties, schema)), row_group)

    def write(self, rows: pa.Table) -> NewFile:
        """Write a data file that no commit names yet. The rows keep their order, and a missing column is NULL."""
        form = self.form()
        with self._changing("rows were being stored"):
            return form.write([rows])

    def append(self, rows: pa.Table | Sequence[NewFile], fence: Fence, replaced_at: int | None = None) -> Commit:
        """Add rows, or data files that no commit names yet, in one commit.

        If ``replaced_at`` (the wall-clock time, µs UTC) is given, the rows replace all rows of the table.
        """
        import pyarrow

        new = [self.write(rows)] if isinstance(rows, pyarrow.Table) else rows
        failpoint("commit.written")
        gone = () if replaced_at is None else self.snapshot().files
        return self.commit(fence, new, gone, at=replaced_at or 0)

    def commit(
        self,
        fence: Fence,
        add: Sequence[NewFile] = (),
        remove: Collection[DataFile] = (),
        *,
        also: Mapping[str, int] | None = None,
        at: int = 0,
        news: bool = True,
        doing: str = "rows were being stored",
    ) -> Commit:
        """Add and remove data files in one commit.

        ``also`` has further transaction numbers by application, which no fence checks. ``at`` is the wall-clock time
        (µs UTC) of a removal. ``news`` is True if followers of the table see the rows as changes. ``doing`` completes
        the message "another writer took this home over while …".
        """
        from deltalake.transaction import AddAction, RemoveAction

        actions = [
            *(RemoveAction(each.name, news, at // 1_000, each.size, _description(each)) for each in remove),
            *(
                AddAction(each.location.name, each.size, each.description, each.modified_ms, news, each.statistics)
                for each in add
            ),
        ]
        numbers = {fence.app_id: fence.number, **(also or {})}
        return self._commit(
            fence,
            lambda handle: handle.create_write_transaction(
                actions,
                mode="append",
                schema=handle.schema(),
                partition_by=handle.metadata().partition_columns,
                commit_properties=_numbered(numbers),
            ),
            lambda entry: (
                {each.name for each in entry.added} == {each.location.name for each in add}
                and {each.name for each in entry.removed} == {each.name for each in remove}
            ),
            doing,
        )

    def set_properties(self, properties: Mapping[str, str], fence: Fence, doing: str) -> Commit:
        """Set properties of the table in one commit."""
        return self._commit(
            fence,
            lambda handle: handle.alter.set_table_properties(
                dict(properties),
                raise_if_not_exists=False,
                commit_properties=_numbered({fence.app_id: fence.number}),
            ),
            lambda entry: any("metaData" in action for action in entry.actions),
            doing,
        )

    def _commit(
        self, fence: Fence, write: Callable[[Any], None], is_own: Callable[[LogEntry], bool], doing: str
    ) -> Commit:
        """Commit once behind the fence, settle the result by the log, and force the commit to disk."""
        handle = self._handle()
        before, since = handle.transaction_version(fence.app_id), handle.version()
        if fence.passed_by(before):
            raise self.taken_over(doing)
        problem: Exception | None = None
        try:
            write(handle)
        except delta_errors() as error:
            problem = error
        # A commit may succeed and still report an error, such as a lost reply or a failed checkpoint.
        for version in range(since + 1, delta_log.follow(self.place, fresh=True).version + 1):
            entry = self.entry(version)
            if entry.numbers.get(fence.app_id) == fence.number and is_own(entry):
                self._put_back(handle)
                return self._durable(entry)
        # The commit may still succeed later, so the data files stay.
        if problem is None or self.number(fence.app_id) != before:
            raise self.taken_over(doing) from problem
        raise self._unwritten(problem, doing) from problem

    def spend(self, app_id: str, number: int) -> None:
        """Commit a transaction number without data, so that no writer can use the number afterwards.

        Do nothing if the number is already used, or if the table does not exist. The original writer may commit just
        before. Read the log afterwards.
        """
        fence = Fence(app_id, number)
        if not self.exists() or fence.passed_by(self.number(app_id)):
            return
        try:
            self.commit(fence, doing="the number of a writer that died was being used up")
        except LeaseLost:
            if not fence.passed_by(self.number(app_id)):
                raise

    def force(self, entry: LogEntry) -> None:
        """Force a commit to disk: the data files, the log entry, and the folders of both.

        delta-rs does not force files to disk. A power cut could therefore lose a commit that the catalog has recorded.
        """
        commit = commit_file(self.place, entry.version)
        folders = {self.place.parent, self.place, commit.parent}
        if entry.version == 0:
            folders.add(self.place.parent.parent)
        for name in ("json", "checkpoint.parquet"):
            (commit.parent / f"{entry.version:020d}.{name}").follow()
        (commit.parent / "_last_checkpoint").follow()
        files = [file.location for file in entry.added if file.attached is None]
        for file in files:
            file.follow()
        for place in (*files, commit, *sorted(folders)):
            try:
                place.force()
            except OSError as error:
                raise StorageError(f"{place} could not be flushed to the disk: {error.strerror}") from error

    def forget(self) -> None:
        """Drop the process's cache of the table."""
        delta_log.forget(self.place)
        _idle_handles.pop(str(self), None)

    def taken_over(self, doing: str) -> LeaseLost:
        """Return the error for a writer whose number another writer has passed."""
        return LeaseLost(
            f"another writer took this home over while {doing}",
            where=str(self.place),
            hint="Run the command again; it continues after the last commit. Nothing of this commit was stored.",
        )

    def _durable(self, entry: LogEntry) -> Commit:
        self.force(entry)
        return Commit(entry.version, entry.added)

    def _force_since(self, version: int) -> None:
        for later in range(version + 1, delta_log.follow(self.place, fresh=True).version + 1):
            self.force(self.entry(later))

    def _read(self, read: Callable[[Any], Any]) -> Any:
        handle = self._handle()
        try:
            value = read(handle)
        except delta_errors() as error:
            raise self._unreadable(error) from error
        self._put_back(handle)
        return value

    def _handle(self) -> Any:
        """Return an exclusive ``DeltaTable`` at the last commit. Only one caller uses a handle at a time."""
        expected = delta_log.follow(self.place).version
        # Import delta-rs late, because the import is slow and most commands do not need delta-rs.
        from deltalake import DeltaTable

        try:
            handle = self._updated(expected) or DeltaTable(self.place.uri, storage_options=self.place.options)
            version = handle.version()
        except delta_errors() as error:
            raise self._unreadable(error) from error
        if version < expected:
            raise StorageError(
                f"{self} was read at version {version}, but its log ends at {expected}", hint=RESTORE_HINT
            )
        return handle

    def _updated(self, expected: int) -> Any:
        """Update the cached handle to the last commit. Return None if the log was replaced."""
        handle, mark = _idle_handles.pop(str(self), (None, ()))
        if handle is None or delta_log.mark_of(self.place, handle.version()) != mark:
            return None
        try:
            if handle.version() < expected:
                handle.update_incremental()
        except delta_errors():  # commits that it needs are cleaned up: read the checkpoint
            return None
        return handle

    def _put_back(self, handle: Any) -> None:
        """Cache a handle for the next use. The caller must not use the handle afterwards."""
        mark = delta_log.mark_of(self.place, handle.version())
        if mark is not None:
            _idle_handles[str(self)] = (handle, mark)
            for path in list(_idle_handles)[:-MOST_CACHED]:
                _idle_handles.pop(path, None)

    def _files_of(self, handle: Any) -> Iterator[DataFile]:
        import pyarrow

        from weft.storage.statistics import micros_in_bounds

        try:
            actions = micros_in_bounds(pyarrow.table(handle.get_add_actions(flatten=True))).to_pylist()
        except delta_errors() as error:
            raise self._unreadable(error) from error
        return (_data_file(self.place, action) for action in actions)

    def _unreadable(self, error: Exception) -> StorageError:
        damaged = StorageError(f"the table in {self} cannot be read: {first_line(error)}", hint=RESTORE_HINT)
        return self.place.failure(error) or damaged

    @contextmanager
    def _changing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except delta_errors() as error:
            raise self._unwritten(error, doing) from error

    def _unwritten(self, problem: Exception, doing: str) -> StorageError:
        """Return the error for a failed write. A full disk has its own message."""
        if any(each in str(problem) for each in _FULL):
            free = self.place.free_bytes() or 0
            return StorageError(
                f"the disk is full, with {free:,} bytes free, while {doing}",
                where=str(self),
                hint="Free some space and run the command again; it continues after the last commit.",
            )
        return StorageError(
            f"the table could not be changed while {doing}: {first_line(problem)}",
            where=str(self),
            hint="Nothing was changed; run the command again. `weft doctor` reports damage.",
        )


def delta_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that delta-rs and Arrow raise if they cannot read or write a table."""
    import pyarrow
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError, ValueError, pyarrow.ArrowException)


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _numbered(numbers: Mapping[str, int]) -> Any:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(*each) for each in numbers.items()])


def _description(file: DataFile) -> dict[str, str | None]:
    return {} if file.attached is None else {COLUMN: file.attached.described}


def _schema(handle: Any) -> pa.Schema:
    import pyarrow

    return pyarrow.schema(handle.schema().to_arrow())


def _instants(handle: Any) -> frozenset[str]:
    import pyarrow

    return frozenset(field.name for field in _schema(handle) if pyarrow.types.is_timestamp(field.type))


def _data_file(table: Store, action: Mapping[str, Any]) -> DataFile:
    bounds: dict[str, dict[str, Any]] = {"min": {}, "max": {}}
    for name, value in action.items():
        bound, _, column = name.partition(".")
        if value is not None and column and bound in bounds:
            bounds[bound][column] = value
    location, attached = located(table, unquote(action["path"]), action.get(f"partition.{COLUMN}"))
    size, rows = action["size_bytes"], action.get("num_records")
    return DataFile(location, size, rows, bounds["min"], bounds["max"], attached)
