"""What some commits added to a table is taken out again, without Spark, in a commit that says so.

The table is one that rows are only added to, and its log says that too (``delta.appendOnly``); so that the log tells
the truth, that is lifted for the one commit.  The files stay on the disk until they are cleaned up, as after any commit
that takes files out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.errors import Conflict
from weft.location import Location
from weft.storage.delta_log import added_files, commit_file, delta_snapshot, has_commits
from weft.storage.removing import REMOVING, numbered, removing

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
    from weft.storage.commit import name_files

    added = {file.location for version in versions for file in added_files(table, version)}
    doing = "a load was being undone"
    with removing(table, token, doing) as opened:
        going = [file for file in delta_snapshot(table, check_files=False).files if file.location in added]
        if going:
            opened.alter.set_table_properties({_APPEND_ONLY: "false"}, commit_properties=numbered(token))
            name_files(opened, {}, going, {REMOVING: token}, at, news=True)
    with removing(table, token, doing) as opened:  # a writer that died before this left it to the next
        if opened.metadata().configuration.get(_APPEND_ONLY) == "false":
            opened.alter.set_table_properties({_APPEND_ONLY: "true"}, commit_properties=numbered(token))
    now = delta_snapshot(table, check_files=False)
    return now.version, now.rows or 0
