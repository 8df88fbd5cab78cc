"""Write Delta tables from this process without Spark: create tables, add columns, and append rows.

The rows of a commit are one Parquet file that this module writes, or several files that Spark wrote. delta-rs commits
the files. Weft does not use the writer of delta-rs, because that writer may reorder rows. The search by ``ts`` relies
on the order of rows.

delta-rs accepts a stale or repeated transaction silently. delta-rs refuses a transaction only if the same application
has committed since the handle was opened. This module therefore opens one handle, compares the application's last
version, and commits through that handle. If the application commits anything else in the meantime, the commit fails.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import LeaseLost, StorageError
from weft.failpoint import failpoint
from weft.location import Location, free_bytes
from weft.storage.columns import conformed
from weft.storage.delta_log import (
    DataFile,
    added_files,
    delta_errors,
    delta_snapshot,
    has_commits,
    open_table,
    return_table,
    transaction_version,
)
from weft.storage.fence import find_version, make_durable
from weft.storage.statistics import columns_with_statistics, statistics

PROPERTIES: Final = {
    # Every 50th commit writes a checkpoint.
    "delta.checkpointInterval": "50",
    # Deletion vectors are off, because Spark and Arrow read the data files directly.
    "delta.enableDeletionVectors": "false",
}
"""The properties of every Delta table of a home. Some tables have more properties."""

# zstd produces half as many bytes as snappy in about the same time.
_COMPRESSION: Final = "zstd"
_LEVEL: Final = 1

_ROW_GROUP: Final = 32_768
"""The number of rows in a row group. A reader can skip a row group by its statistics."""
_SAMPLE: Final = 10_000
_FULL: Final = ("No space left on device", "[Errno 28]", "os error 28")
"""The texts by which Arrow and delta-rs report a full disk."""


def require_table(table: Location, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Create an empty Delta table, or add missing columns and properties to an existing table.

    The change is on disk when the function returns. The caller must hold the lease. Raise StorageError if the table
    cannot be created or changed, for example because another writer commits at the same time.
    """
    wanted = {**PROPERTIES, **properties}
    try:
        if not has_commits(table):
            from deltalake import DeltaTable

            (table / "_delta_log").make()
            DeltaTable.create(table.uri, schema, configuration=wanted)
            make_durable(table, 0)
            return
        opened = open_table(table)
        before = opened.version()
        there = schema_of(opened).names
        new = [field for field in schema if field.name not in there]
        if new:
            from deltalake import Schema

            opened.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
        has = opened.metadata().configuration
        other = {name: value for name, value in wanted.items() if has.get(name) != value}
        if other:  # after the columns: Spark refuses statistics of a missing column
            opened.alter.set_table_properties(other)
        for version in range(before + 1, opened.version() + 1):
            make_durable(table, version)
        return_table(table, opened)
    except delta_errors() as error:
        hint = "Nothing was stored; run the command again. `weft doctor` reports damage."
        raise _unwritten("the table could not be created or changed", table, error, hint) from error


def append_rows(table: Location, rows: pa.Table, app_id: str, txn_version: int) -> int:
    """Append the rows as one file in one commit, and return the commit's version.

    The rows keep their order. A missing column is NULL. Call ``make_durable`` to force the commit to disk. Raise
    LeaseLost if the application has already committed ``txn_version`` or commits anything at the same time. After
    LeaseLost, the table contains none of the rows. Raise StorageError if the rows cannot be written.
    """
    return _append(table, _written(table, rows), app_id, txn_version)


def append_files(
    table: Location, folder: Location, app_id: str, txn_version: int, *, replaced_at: int | None = None
) -> int:
    """Move the Parquet files in ``folder`` into the table, and commit the files. The errors are those of
    ``append_rows``.

    The files must have the columns of the table. If ``replaced_at`` (the wall clock time, µs UTC) is given, the files
    replace all rows of the table.
    """

    def moved(opened: Any) -> dict[Location, str]:
        names = columns_with_statistics(opened.metadata().configuration, schema_of(opened))
        files = {}
        for name in sorted(each for each in folder.names() if each.endswith(".parquet")):
            file = new_data_file(table)
            file_stats = statistics(pq.read_table((folder / name).uri, columns=names), names)
            (folder / name).move(file)
            files[file] = file_stats
        return files

    return _append(table, moved, app_id, txn_version, replaced_at=replaced_at)


def replace_rows(table: Location, rows: pa.Table, app_id: str, txn_version: int, at: int) -> int:
    """Replace all rows of the table in one commit at the wall-clock time ``at`` (µs UTC).

    The other parameters, the result and the errors are those of ``append_rows``. The old files stay on disk until
    cleaning deletes them.
    """
    return _append(table, _written(table, rows), app_id, txn_version, replaced_at=at)


def _written(table: Location, rows: pa.Table) -> Callable[[Any], dict[Location, str]]:
    def written(opened: Any) -> dict[Location, str]:
        file = new_data_file(table)
        plain = conformed(rows, schema_of(opened))
        write_data_file(plain, file)
        return {file: file_statistics(plain, opened)}

    return written


def _append(
    table: Location,
    write: Callable[[Any], dict[Location, str]],
    app_id: str,
    txn_version: int,
    *,
    replaced_at: int | None = None,
) -> int:
    """Commit the files that ``write`` returns with their statistics. Return the version of the commit.

    If ``replaced_at`` (µs UTC) is set, the commit also removes all earlier files of the table.
    """
    with table.shared():  # nobody deletes the files before the commit names them
        return _append_once(table, write, app_id, txn_version, replaced_at)


def _append_once(
    table: Location,
    write: Callable[[Any], dict[Location, str]],
    app_id: str,
    txn_version: int,
    replaced_at: int | None,
) -> int:
    opened = open_table(table)
    before = opened.transaction_version(app_id)
    if before is not None and before >= txn_version:
        raise _lost(table)
    files: dict[Location, str] = {}
    problem: Exception | None = None
    try:
        files = write(opened)
        failpoint("commit.written")
        gone = () if replaced_at is None else delta_snapshot(table, check_files=False).files
        commit_files(opened, files, gone, {app_id: txn_version}, replaced_at or 0, news=True)
    except delta_errors() as error:
        problem = error
    # A commit may succeed and still report an error, such as a failed checkpoint. The log shows whether the commit
    # succeeded.
    version = find_version(table, app_id, txn_version)
    if version is not None and files.keys() <= {added.location for added in added_files(table, version)}:
        return_table(table, opened)
        return version
    # The commit may still have succeeded, so do not delete the files.
    if problem is None or transaction_version(table, app_id) != before:
        raise _lost(table) from problem
    raise _unwritten(
        "rows could not be stored", table, problem, "No rows were stored; run the command again."
    ) from problem


def _unwritten(message: str, table: Location, problem: Exception, hint: str) -> StorageError:
    """Return the error for a failed write. A full disk has its own message."""
    if any(each in str(problem) for each in _FULL):
        free = free_bytes(str(table))[0]
        return StorageError(
            f"{message}: the disk is full, with {free:,} bytes free",
            where=str(table),
            hint="Free some space and run the command again; it continues after the last commit.",
        )
    return StorageError(f"{message}: {first_line(problem)}", where=str(table), hint=hint)


def commit_files(
    opened: Any,
    new: Mapping[Location, str],
    gone: Sequence[DataFile],
    transactions: Mapping[str, int],
    at: int,
    *,
    news: bool,
) -> None:
    """Commit the files in ``new`` with their statistics, and remove the files in ``gone`` from the log.

    ``opened`` is a delta-rs handle. ``at`` is the removal time (µs UTC). ``transactions`` contains the transaction
    version of each application ID. ``news`` is True if followers of the table see the rows as changes. Exceptions of
    delta-rs pass through.
    """
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    opened.create_write_transaction(
        [
            *(RemoveAction(each.location.name, news, at // 1_000, each.size, {}) for each in gone),
            *(AddAction(file.name, file.size(), {}, file.modified_ms(), news, stats) for file, stats in new.items()),
        ],
        mode="append",
        schema=opened.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction(*each) for each in transactions.items()]),
    )


def new_data_file(table: Location) -> Location:
    """Return a new, unique path for a data file of the table."""
    return table / f"part-00000-{uuid.uuid4()}-c000.{_COMPRESSION}.parquet"


def file_statistics(rows: pa.Table, opened: Any) -> str:
    """Return the statistics (JSON) that the log records for a file with these rows."""
    return statistics(rows, columns_with_statistics(opened.metadata().configuration, schema_of(opened)))


def write_data_file(rows: pa.Table, file: Location) -> None:
    """Write the rows as one Parquet file, without changing their order. If the write fails, remove the file."""
    try:
        pq.write_table(
            rows,
            file.uri,
            compression=_COMPRESSION,
            compression_level=_LEVEL,
            store_schema=False,
            row_group_size=_ROW_GROUP,
            use_dictionary=_repeating(rows),
            write_page_index=True,
        )
        file.follow()
    except delta_errors():
        with suppress(OSError):  # leave no more on a full disk than necessary
            file.remove()
        raise


def _repeating(rows: pa.Table) -> list[str]:
    """Return the Parquet names of columns with many repeated values, for which a dictionary saves space."""
    names = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        sample = column.slice(0, _SAMPLE)
        if pa.types.is_list(column.type):
            names.append(f"{name}.list.element")
        elif not pa.types.is_nested(column.type) and 2 * len(sample.unique()) <= len(sample):
            names.append(name)
    return names


def schema_of(opened: Any) -> pa.Schema:
    """Return the Arrow schema of the opened table."""
    return pa.schema(opened.schema().to_arrow())


def _lost(table: Location) -> LeaseLost:
    return LeaseLost(
        f"another writer took this home over and committed first while rows were being stored in {table}",
        hint="Run the command again; it continues after the last commit. None of these rows was stored.",
    )


def first_line(error: Exception) -> str:
    """Return the first line of a delta-rs error message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
