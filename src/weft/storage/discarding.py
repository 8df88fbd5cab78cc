"""Rows that no query will look at again are taken out of a table, without Spark, and the bytes of their files too.

Of the files that have such rows those without others go; of the rest a new file has what stays.  One commit says so,
behind the fence of those that take files out (``storage.removing``), and carries the number of its tick for
``DISCARDING``: by that ``verify`` knows that fewer rows than were recorded are no damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.cleaning import delete, litter
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile, delta_snapshot, has_commits, transaction_version
from weft.storage.removing import REMOVING, Remover, removing

DISCARDING: Final = "weft-discard"
_PATIENCE_SECONDS: Final = 2.0


def discard(table: Location, gone: pc.Expression, tick_id: int, remover: Remover, at: int) -> tuple[int, int] | None:
    """Takes out the rows for which ``gone`` holds; (version, rows) of the table afterwards, None where there is none.

    ``tick_id`` is the tick after which they go, ``remover`` holds the lease, ``at`` is the wall's instant (µs UTC).
     Files that somebody reads stay until the next tick.  Raises StorageError, LeaseLost.
    """
    if not has_commits(table):
        return None
    from weft.storage.commit import schema_of

    with removing(table, remover.token, "rows that no query needs were being discarded") as opened:
        schema = schema_of(opened)
        touched: list[DataFile] = []
        stays: list[pa.Table] = []
        for file in delta_snapshot(table, check_files=False).files:
            left = read_data_files([file], schema, ~gone)
            if file.rows is None or left.num_rows < file.rows:
                touched.append(file)
                stays.append(left)
        if touched:
            _commit(table, opened, touched, pa.concat_tables(stays), {DISCARDING: tick_id, REMOVING: remover.token}, at)
    if touched:
        failpoint("discard.committed")
    now = delta_snapshot(table, check_files=False)
    named = {file.location.name for file in now.files}
    # Of an earlier tick, too: it may have died before its files went, or somebody was reading them.
    if any(name.endswith(".parquet") and name not in named for name in table.names()):
        delete(table, replace(litter(table, 0, at), log=()), remover, _PATIENCE_SECONDS)
        now = delta_snapshot(table, check_files=False)
    return now.version, now.rows or 0


def _commit(
    table: Location, opened: Any, touched: list[DataFile], stays: pa.Table, numbers: Mapping[str, int], at: int
) -> None:
    from weft.storage.commit import name_files, new_data_file, told_of, write_data_file

    new: dict[Location, str] = {}
    if stays.num_rows:
        file = new_data_file(table)
        write_data_file(stays, file)
        new[file] = told_of(stays, opened)
    # No news: the table is one that rows are only added to, and who follows it is told of nothing.
    name_files(opened, new, touched, numbers, at, news=False)


def has_discarded(table: Location) -> bool:
    """Whether rows of the table were ever taken out so: then fewer than were recorded may be there.

    Who took them out may have died before that was recorded; it is with the next rows that go.
    """
    return transaction_version(table, DISCARDING) is not None
