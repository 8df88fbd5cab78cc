"""Write Delta tables from this process, without Spark: create them, add columns, append rows behind the fence.

The rows of a commit are one Parquet file, in the order in which they come, written here, or files that Spark wrote;
delta-rs commits them.  Its own writer would put blocks of rows in another order, which the search by ``ts`` relies on.

delta-rs accepts a stale or repeated transaction silently.  It refuses only a transaction whose application has
committed since its handle was opened.  So this module opens one handle, compares the application's last version, and
commits through the same handle: any commit in between, even one that only spends the number, makes it fail.
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
    # The commit that is due for a checkpoint writes it.
    "delta.checkpointInterval": "50",
    # Weft gives Spark and Arrow the data files themselves.
    "delta.enableDeletionVectors": "false",
}
"""The properties of every Delta table of a home; some tables have more."""

# Half the bytes of snappy, and about the same time to write and to force to the disk.
_COMPRESSION: Final = "zstd"
_LEVEL: Final = 1

_ROW_GROUP: Final = 32_768
"""The rows that a reader can skip together by the statistics within the file."""
_SAMPLE: Final = 10_000
_FULL: Final = ("No space left on device", "[Errno 28]", "os error 28")
"""Texts with which Arrow and delta-rs report a full disk."""


def require_table(table: Location, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Create the Delta table, empty, or add the columns and properties that an existing table lacks.

    The change is on the disk when this returns.  The caller holds the lease.  Raises StorageError if the table cannot
    be created or changed, for example because another writer commits in the same moment.
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
    """Append the rows, in their order, as one file in one commit with this transaction; return the commit's version.

    Columns are matched by name; a missing column is NULL.  The commit is not on the disk yet (``make_durable``).
    Raises LeaseLost if the application has committed this version already, or commits anything meanwhile; the table
    then has none of the rows.  Raises StorageError if the rows cannot be written.
    """
    return _append(table, _written(table, rows), app_id, txn_version)


def append_files(table: Location, folder: Location, app_id: str, txn_version: int) -> int:
    """Append the rows of the Parquet files in the folder, and move the files into the table; else as ``append_rows``.

    The files have the table's columns.
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
    """Replace all rows of the table in one commit, at the wall-clock instant ``at`` (µs UTC); else as ``append_rows``.

    The old files stay on the disk until they are cleaned up.
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
    """Commit the files that ``write`` returns, each with its statistics, and return the commit's version.

    ``replaced_at`` is the wall-clock instant at which the table's earlier files are removed; None: they stay.
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
    # The log decides: the commit may have succeeded although the checkpoint after it failed.
    version = find_version(table, app_id, txn_version)
    if version is not None and files.keys() <= {added.location for added in added_files(table, version)}:
        return_table(table, opened)
        return version
    # The files stay although no commit names them: deleting a file that a commit names would be worse.
    if problem is None or transaction_version(table, app_id) != before:
        raise _lost(table) from problem
    raise _unwritten(
        "rows could not be stored", table, problem, "No rows were stored; run the command again."
    ) from problem


def _unwritten(message: str, table: Location, problem: Exception, hint: str) -> StorageError:
    """Return the error for a table that could not be written; a full disk gets a message of its own."""
    if any(each in str(problem) for each in _FULL):
        free = free_bytes(str(table))[0]
        return StorageError(
            f"{message}: the disk is full, with {free:,} bytes free",
            where=str(table),
            hint="Free some space and run the command again: it continues from what was committed.",
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
    """Commit the files ``new`` with their statistics, and remove the files ``gone`` at ``at`` (µs UTC), through
    ``opened``.

    ``transactions`` are the versions that the commit carries, by application.  ``news`` says whether followers of the
    table receive the rows as changes.  Raises what delta-rs raises.
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
    """Return a new, unique name for a data file of the table."""
    return table / f"part-00000-{uuid.uuid4()}-c000.{_COMPRESSION}.parquet"


def file_statistics(rows: pa.Table, opened: Any) -> str:
    """Return the statistics that the log of the opened table records for a file with these rows."""
    return statistics(rows, columns_with_statistics(opened.metadata().configuration, schema_of(opened)))


def write_data_file(rows: pa.Table, file: Location) -> None:
    """Write the rows, in their order, as one Parquet file; on an error of ``delta_errors`` remove the file and raise
    it.
    """
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
    """Return the columns, as Parquet names them, whose values repeat; for others a dictionary costs time and space.

    Of the nested columns only lists are considered: the ledger's rows are lists.
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
        hint="None of these rows was stored; run the command again: it continues from what was committed.",
    )


def first_line(error: Exception) -> str:
    """Return the first line of a delta-rs error's text."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
