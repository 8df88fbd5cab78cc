"""Write Delta tables from this process, without Spark: create tables, add columns, append rows behind the fence.

The rows of a commit are one Parquet file that this module writes in the order of the rows, or files that Spark wrote.
delta-rs commits the files.  Weft does not use the writer of delta-rs, because it may reorder blocks of rows, and the
search by ``ts`` relies on their order.

delta-rs accepts a stale or repeated transaction silently.  It refuses a transaction only if the transaction's
application has committed since the handle was opened.  So this module opens one handle, compares the application's last
version, and commits through the same handle.  Any commit of the application in between makes the commit fail, even one
that only spends the number.
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
    # Each 50th commit writes a checkpoint.
    "delta.checkpointInterval": "50",
    # Deletion vectors are off, because Weft lets Spark and Arrow read the data files directly.
    "delta.enableDeletionVectors": "false",
}
"""The properties of every Delta table of a home; some tables have more."""

# zstd produces half as many bytes as snappy and takes about the same time to write and to force to the disk.
_COMPRESSION: Final = "zstd"
_LEVEL: Final = 1

_ROW_GROUP: Final = 32_768
"""The number of rows in a row group, which a reader can skip by the statistics within the file."""
_SAMPLE: Final = 10_000
_FULL: Final = ("No space left on device", "[Errno 28]", "os error 28")
"""The texts by which Arrow and delta-rs report a full disk."""


def require_table(table: Location, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Create an empty Delta table, or add the columns and properties that an existing table lacks.

    The change is on the disk when the function returns.  The caller must hold the lease.  Raises StorageError if the
    table cannot be created or changed, for example because another writer commits at the same moment.
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
    """Append the rows, in the given order, as one file in one commit with this transaction; return the commit's
    version.

    Columns are matched by name; a missing column is NULL.  The commit is not on the disk until ``make_durable`` is
    called. Raises LeaseLost if the application has already committed ``txn_version``, or commits anything at the same
    time; the table then contains none of the rows.  Raises StorageError if the rows cannot be written.
    """
    return _append(table, _written(table, rows), app_id, txn_version)


def append_files(table: Location, folder: Location, app_id: str, txn_version: int) -> int:
    """Move the Parquet files in ``folder`` into the table and append their rows in one commit, as ``append_rows`` does.

    The files must have the columns of the table.
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

    return _append(table, moved, app_id, txn_version)


def replace_rows(table: Location, rows: pa.Table, app_id: str, txn_version: int, at: int) -> int:
    """Replace all rows of the table in one commit at the wall-clock instant ``at`` (µs UTC).

    The parameters, the result and the errors are those of ``append_rows``.  The old files stay on the disk until
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
    """Commit the files that ``write`` returns with their statistics, and return the version of the commit.

    If ``replaced_at`` is set, the commit removes all earlier files of the table at this wall-clock instant.
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
    # A commit may succeed and still report an error (a failed checkpoint after it), so look in the log.
    version = find_version(table, app_id, txn_version)
    if version is not None and files.keys() <= {added.location for added in added_files(table, version)}:
        return_table(table, opened)
        return version
    # The commit may still have succeeded; then it names the files, so do not delete them.
    if problem is None or transaction_version(table, app_id) != before:
        raise _lost(table) from problem
    raise _unwritten(
        "rows could not be stored", table, problem, "No rows were stored; run the command again."
    ) from problem


def _unwritten(message: str, table: Location, problem: Exception, hint: str) -> StorageError:
    """Return the error for a table that could not be written; a full disk has a separate message."""
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
    """Commit the files ``new`` (with their statistics) through the handle ``opened``, and remove ``gone`` from the log.

    ``at`` is the time of the removal (µs UTC).  ``transactions`` are the transaction versions of the commit, by
    application id.  ``news`` says whether followers of the table receive the rows as changes.  Raises the exceptions of
    delta-rs.
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
    """Return the statistics (JSON) that the log of the opened table records for a file with these rows."""
    return statistics(rows, columns_with_statistics(opened.metadata().configuration, schema_of(opened)))


def write_data_file(rows: pa.Table, file: Location) -> None:
    """Write the rows, in the given order, as one Parquet file; after an error of ``delta_errors``, remove the file."""
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
    """Return the Parquet names of the columns with many repeated values, for which a dictionary saves time and space.

    Of the nested columns only lists are considered, because the rows of the ledger are lists.
    """
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
    """Return the first line of a delta-rs error's text."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
