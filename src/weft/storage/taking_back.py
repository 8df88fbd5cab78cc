"""Remove the rows that some commits added to a table, without Spark.

The table's property ``delta.appendOnly`` is set to false during the removal, because an append-only table must not lose
rows. The removed files stay on disk until the next cleaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.errors import Conflict
from weft.location import Location
from weft.storage.delta_log import added_files, commit_file, delta_snapshot, has_commits
from weft.storage.removing import REMOVING, removal_properties, removing

_APPEND_ONLY: Final = "delta.appendOnly"


def require_own_files(table: Location, versions: Sequence[int]) -> None:
    """Raise Conflict if rows of the commits now share a file with other rows."""
    there = {file.location for file in delta_snapshot(table, check_files=False).files} if versions else set()
    for version in versions:
        gone = not commit_file(table, version).exists()
        if gone or not {file.location for file in added_files(table, version)} <= there:
            raise Conflict(
                "since the last maintenance, the rows of the load share files with rows of other loads and "
                "cannot be separated from them",
                hint="Nothing was changed. If nothing uses the table, drop the table and load it again.",
            )


def roll_back(table: Location, versions: Sequence[int], token: int, at: int) -> tuple[int, int] | None:
    """Remove the remaining files of the commits. Return the new version and row count, or None if there is no table.

    After a crash, another run completes the work. ``token`` is the token of the caller's lease, and ``at`` is the
    wall-clock time (µs UTC). Raise LeaseLost if the lease is lost, and StorageError if the table cannot be read or
    changed.
    """
    if not has_commits(table):
        return None
    from weft.storage.commit import commit_files

    added = {file.location for version in versions for file in added_files(table, version)}
    doing = "a load was being undone"
    with removing(table, token, doing) as opened:
        going = [file for file in delta_snapshot(table, check_files=False).files if file.location in added]
        if going:
            opened.alter.set_table_properties({_APPEND_ONLY: "false"}, commit_properties=removal_properties(token))
            commit_files(opened, {}, going, {REMOVING: token}, at, news=True)
    with removing(table, token, doing) as opened:  # also restores the property after a writer that died
        if opened.metadata().configuration.get(_APPEND_ONLY) == "false":
            opened.alter.set_table_properties({_APPEND_ONLY: "true"}, commit_properties=removal_properties(token))
    now = delta_snapshot(table, check_files=False)
    return now.version, now.rows or 0
