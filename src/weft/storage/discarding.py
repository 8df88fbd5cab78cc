"""Discard rows that no query needs any more, without Spark.

A file without needed rows is removed. Needed rows move to a new file if another row of their file is removed. One
commit with the removal fence (``storage.removing``) removes the old files and adds the new file. The commit records the
tick's number as the transaction number of the application ID ``DISCARDING``. If a table has a transaction number for
``DISCARDING``, ``verify`` accepts fewer rows than the catalog records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.cleaning import deletable_files, delete
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile, delta_snapshot, has_commits, transaction_version
from weft.storage.removing import REMOVING, Remover, removing

DISCARDING: Final = "weft-discard"


def discard(
    table: Location, gone: pc.Expression, tick_id: int, remover: Remover, at: int, keep_us: int
) -> tuple[int, int] | None:
    """Remove the rows that satisfy ``gone``. Return the new version and row count, or None if there is no table.

    ``tick_id`` is the tick that made the rows unnecessary. ``remover`` holds the lease. ``at`` is the wall-clock time
    (µs UTC). The removed files stay on disk for ``keep_us``; the next discard then deletes them. Raise StorageError or
    LeaseLost.
    """
    if not has_commits(table):
        return None
    from weft.storage.commit import schema_of

    with removing(table, remover.token, "rows that no query needs were being discarded") as opened:
        schema = schema_of(opened)
        touched: list[DataFile] = []
        stays: list[pa.Table] = []
        for file in delta_snapshot(table, check_files=False).files:
            remaining = read_data_files([file], schema, ~gone)
            if file.rows is None or remaining.num_rows < file.rows:
                touched.append(file)
                stays.append(remaining)
        if touched:
            _commit(table, opened, touched, pa.concat_tables(stays), {DISCARDING: tick_id, REMOVING: remover.token}, at)
    if touched:
        failpoint("discard.committed")
        delete(table, replace(deletable_files(table, keep_us, at), log=()), remover)
    now = delta_snapshot(table, check_files=False)
    return now.version, now.rows or 0


def _commit(
    table: Location, opened: Any, touched: list[DataFile], stays: pa.Table, numbers: Mapping[str, int], at: int
) -> None:
    from weft.storage.commit import commit_files, file_statistics, new_data_file, write_data_file

    new: dict[Location, str] = {}
    if stays.num_rows:
        file = new_data_file(table)
        write_data_file(stays, file)
        new[file] = file_statistics(stays, opened)
    # Mark the commit as no data change. Followers of an append-only table must not see a deletion.
    commit_files(opened, new, touched, numbers, at, news=False)


def has_discarded(table: Location) -> bool:
    """Return whether rows of the table were ever discarded. A table with discarded rows may have fewer rows than the
    catalog records.

    If a tick crashes after discarding rows, the catalog keeps the old row count until a later tick discards rows.
    """
    return transaction_version(table, DISCARDING) is not None
