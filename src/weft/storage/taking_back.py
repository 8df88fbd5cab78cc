"""What some commits added to a table is taken out again, without Spark, in a commit that says so.

The table is one that rows are only added to, and its log says that too (``delta.appendOnly``); so that the log tells
the truth, that is lifted for the one commit.  The files stay on the disk until they are cleaned up, as after any commit
that takes files out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from weft.errors import Conflict, LeaseLost, StorageError
from weft.location import Location
from weft.storage.compaction import REMOVING
from weft.storage.delta_log import (
    DataFile,
    added_files,
    commit_file,
    delta_errors,
    delta_snapshot,
    has_commits,
    keep_open,
    open_table,
)
from weft.storage.fence import make_durable

_APPEND_ONLY: Final = "delta.appendOnly"


def require_apart(table: Location, versions: Sequence[int]) -> None:
    """Raises Conflict where what the commits added cannot be told from other rows any more."""
    there = {file.location for file in delta_snapshot(table, check_files=False).files} if versions else set()
    for version in versions:
        gone = not commit_file(table, version).exists()
        if gone or not {file.location for file in added_files(table, version)} <= there:
            raise Conflict(
                "its rows are in one file with others since the home was maintained, and cannot be told from them",
                hint="Nothing was changed. A table that nothing stands on can be dropped and loaded again.",
            )


def take_back(table: Location, versions: Sequence[int], token: int, at: int) -> tuple[int, int] | None:
    """Takes out what the commits added, as far as it is there; (version, rows) of the table afterwards, None: there is
    no table.

    Run again after a crash it does what is left.  ``token`` is that of the caller's lease, ``at`` the wall's instant
    (µs UTC).  Raises LeaseLost, and StorageError where the table cannot be read or changed.
    """
    if not has_commits(table):
        return None
    opened = open_table(table)
    if (opened.transaction_version(REMOVING) or 0) > token:
        raise LeaseLost("another writer took this home over while a load was undone", hint="Run the command again.")
    added = {file.location for version in versions for file in added_files(table, version)}
    going = [file for file in delta_snapshot(table, check_files=False).files if file.location in added]
    keep_open(table, opened)
    if going:
        _commit(table, going, token, at)
    now = delta_snapshot(table, check_files=False)
    return now.version, now.rows or 0


def _commit(table: Location, going: Sequence[DataFile], token: int, at: int) -> None:
    from weft.storage.commit import first_line, name_files

    def changed(change: Callable[[Any], object]) -> None:
        opened = open_table(table)  # one that knows every commit so far
        before = opened.version()
        change(opened)
        for version in range(before + 1, opened.version() + 1):
            make_durable(table, version)
        keep_open(table, opened)

    try:
        changed(lambda opened: opened.alter.set_table_properties({_APPEND_ONLY: "false"}))
        changed(lambda opened: name_files(opened, {}, going, {REMOVING: token}, at, news=True))
        changed(lambda opened: opened.alter.set_table_properties({_APPEND_ONLY: "true"}))
    except delta_errors() as error:
        raise StorageError(
            f"the rows could not be taken out: {first_line(error)}", where=str(table), hint="Run the command again."
        ) from error
