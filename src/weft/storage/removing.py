"""Fence two operations: commits that remove files from a table's log, and the deletion of those files.

delta-rs allows two commits to remove the same file. A commit that removes files therefore has a transaction number for
``REMOVING``: the token of the writer's lease. The writer compares the token with the number in the log, and commits
through the same handle. If another writer removes files in the meantime, delta-rs refuses the commit. A writer that has
lost its lease therefore cannot remove files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import LeaseLost, StorageError
from weft.location import Location
from weft.storage.delta_log import delta_errors, latest_version, open_table, return_table, transaction_version
from weft.storage.fence import make_durable

REMOVING: Final = "weft-compaction"
"""The ``txnAppId`` of commits that remove files from a table's log. The transaction numbers are lease tokens."""


@dataclass(frozen=True)
class Remover:
    """A writer that removes files. ``token`` is the token of the writer's lease. ``check`` raises LeaseLost if the
    lease is lost.

    ``check`` reads the catalog, because the log shows a later writer only after that writer's first commit.
    """

    token: int
    check: Callable[[], None]


@contextmanager
def removing(table: Location, token: int, doing: str) -> Iterator[Any]:
    """Open a delta-rs handle for commits that remove files. Pass ``removal_properties(token)`` to each commit.

    ``doing`` completes the message "another writer took this home over while …". At the end of the block, the commits
    are on disk. Raise LeaseLost if a later lease holder has removed files. Raise StorageError if the block raises one
    of ``delta_errors``.
    """
    opened = open_table(table)
    before, since = opened.transaction_version(REMOVING), opened.version()
    if before is not None and before > token:
        raise taken_over(table, doing)
    try:
        yield opened
    except delta_errors() as error:
        if transaction_version(table, REMOVING) not in (before, token):
            raise taken_over(table, doing) from error
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(
            f"{table} could not be changed while {doing}: {message}",
            hint="Run the command again: it completes the change.",
        ) from error
    return_table(table, opened)
    # The version of the handle does not count all commits, so read the log.
    for version in range(since + 1, (latest_version(table) or since) + 1):
        make_durable(table, version)


def removal_properties(token: int) -> Any:
    """Return the delta-rs properties of a commit that removes files."""
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(REMOVING, token)])


def require_latest(table: Location, token: int, doing: str) -> None:
    """Raise LeaseLost if a later lease holder has removed files of the table."""
    if (transaction_version(table, REMOVING) or 0) > token:
        raise taken_over(table, doing)


def taken_over(table: Location, doing: str) -> LeaseLost:
    """Return the error for a writer that lost its lease to another writer."""
    return LeaseLost(
        f"another writer took this home over while {doing}",
        where=str(table),
        hint="Nothing more was changed; run the command again.",
    )
