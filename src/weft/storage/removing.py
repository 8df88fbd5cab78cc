"""Remove rows from a Delta table, without Spark: rows that satisfy a condition, or all rows of some commits.

One commit removes the files with such rows. If a file has other rows too, they move to a new file. The removed files
stay on disk until cleaning deletes them. The commits carry the token of the writer's lease (``storage.table``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from weft.errors import Conflict
from weft.storage.data_files import NewFile, read_data_files
from weft.storage.delta_log import DataFile, commit_file
from weft.storage.table import Table, removal

if TYPE_CHECKING:
    import pyarrow.compute as pc

_APPEND_ONLY: Final = "delta.appendOnly"

DISCARDING: Final = "weft-discard"
"""The application whose number is the tick that made the rows unnecessary. If a table has such a number, it may have
fewer rows than the catalog records.
"""


def remove_rows(
    table: Table,
    gone: pc.Expression,
    may_hold: Callable[[DataFile], bool],
    token: int,
    at: int,
    doing: str,
    *,
    also: Mapping[str, int] | None = None,
    news: bool = True,
) -> bool:
    """Remove the rows that satisfy ``gone``. Return whether there were such rows.

    Only files for which ``may_hold`` is True are read. ``at`` is the wall-clock time (µs UTC). ``also``, ``news`` and
    ``doing`` are as in ``Table.commit``.
    """
    schema = table.schema()
    touched: list[DataFile] = []
    new: list[NewFile] = []
    for file in filter(may_hold, table.files()):
        remaining = read_data_files([file], schema, ~gone)
        if file.rows is None or remaining.num_rows < file.rows:
            touched.append(file)
            new += [table.write(remaining)] if remaining.num_rows else []
    if touched:
        table.commit(removal(token), new, touched, also=also, at=at, news=news, doing=doing)
    return bool(touched)


def require_own_files(table: Table, versions: Sequence[int]) -> None:
    """Raise Conflict if rows of the commits now share a file with other rows."""
    there = {file.location for file in table.files()} if versions else set()
    for version in versions:
        gone = not commit_file(table.place, version).exists()
        if gone or not {file.location for file in table.entry(version).added} <= there:
            raise Conflict(
                "since the last maintenance, the rows of the load share files with rows of other loads and "
                "cannot be separated from them",
                hint="Nothing was changed. If nothing uses the table, drop the table and load it again.",
            )


def remove_commits(table: Table, versions: Sequence[int], token: int, at: int) -> None:
    """Remove the remaining files of the commits. After a crash, another call completes the work.

    The table's property ``delta.appendOnly`` is false meanwhile, because an append-only table must not lose rows.
    """
    fence, doing = removal(token), "a load was being undone"
    added = {file.location for version in versions for file in table.entry(version).added}
    going = [file for file in table.files() if file.location in added]
    if going:
        table.set_properties({_APPEND_ONLY: "false"}, fence, doing)
        table.commit(fence, remove=going, at=at, doing=doing)
    if table.metadata().configuration.get(_APPEND_ONLY) == "false":  # also after a writer that died
        table.set_properties({_APPEND_ONLY: "true"}, fence, doing)
