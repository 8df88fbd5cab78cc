"""Fence off a dead writer, without Spark: find out whether its commit succeeded, and make a late commit fail.

A writer's commit carries a ``txnAppId`` and an ascending ``txnVersion``; ``storage/commit.py`` refuses a version that
is not greater than the last one.  A suspended writer may wake up after another writer gave up its reservation.  Before
a writer gives up a reservation, it therefore spends the reservation's version, so that a late commit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import StorageError
from weft.location import Location
from weft.storage.delta_log import (
    RESTORE_HINT,
    added_files,
    commit_actions,
    commit_file,
    delta_errors,
    has_commits,
    latest_version,
    open_table,
    return_table,
)


@dataclass(frozen=True)
class OwnCommit:
    """The commit of a writer: Delta's ``version``, the number of ``rows`` added, and the least and greatest ``ts``.

    The two instants are exact (read from the data files), in microseconds UTC; None if the commit added no rows.
    """

    version: int
    rows: int
    first_ts: int | None
    last_ts: int | None


def find_version(table: Location, app_id: str, txn_version: int) -> int | None:
    """Return the Delta version in which this transaction added files; None if the log has no such commit."""
    latest = latest_version(table)
    if latest is None:
        return None
    for version in range(latest, -1, -1):
        commit = commit_file(table, version)
        if not commit.exists():  # older commits are cleaned up behind a checkpoint
            return None
        actions = commit_actions(commit)
        theirs = [action["txn"]["version"] for action in actions if action.get("txn", {}).get("appId") == app_id]
        if txn_version in theirs:
            return version if any("add" in action for action in actions) else None
        if any(earlier < txn_version for earlier in theirs):  # the numbers ascend, so the commit is not further back
            return None
    return None


def find_commit(table: Location, app_id: str, txn_version: int, ts: str = "ts") -> OwnCommit | None:
    """Return the commit with this transaction; None if the log has no such commit.

    The ``ts`` bounds come from the commit's data files.  Raises StorageError if the log or one of these files is
    damaged.
    """
    version = find_version(table, app_id, txn_version)
    if version is None:
        return None
    rows = 0
    instants: list[int] = []
    for file in added_files(table, version):
        count, least, greatest = _read_instants(file.location, ts)
        rows += count
        instants += [instant for instant in (least, greatest) if instant is not None]
    return OwnCommit(version, rows, min(instants, default=None), max(instants, default=None))


def spend(table: Location, app_id: str, txn_version: int) -> None:
    """Commit only the transaction's number, so that no writer can commit with that number any more.

    Does nothing if the number is already spent or used, or if the table does not exist.  (A load creates its table
    before it reserves a number, so a missing table was lost.)  The original writer may use the number just before it is
    spent, so the caller must then look for that commit.  Raises StorageError if the table cannot be written, for
    example because another writer commits at the same moment.
    """
    if not has_commits(table):
        return
    from deltalake import CommitProperties, Transaction

    try:
        # The commit uses the same handle, so delta-rs refuses a number that its writer has used in the meantime.
        opened = open_table(table)
        used = opened.transaction_version(app_id)
        if used is not None and used >= txn_version:
            return_table(table, opened)
            return
        opened.create_write_transaction(
            actions=[],
            mode="append",
            schema=opened.schema(),
            commit_properties=CommitProperties(app_transactions=[Transaction(app_id, txn_version)]),
        )
        _follow_log(table, latest_version(table) or 0)
    except delta_errors() as error:
        raise StorageError(
            f"the transaction number {txn_version} of a writer that died could not be used up in {table}: {error}",
            hint="run the command again; if it fails again, `weft doctor` reports damage",
        ) from error


def make_durable(table: Location, version: int) -> None:
    """Force one commit to the disk: its data files, its log entry, and the folders that contain them.

    delta-rs does not force files, so a power cut could lose a commit that the catalog has recorded.
    """
    commit = commit_file(table, version)
    files = [file.location for file in added_files(table, version)]
    folders = {table.parent, table, commit.parent, *(file.parent for file in files)}
    if version == 0:
        folders.add(table.parent.parent)
    for file in files:
        file.follow()
    _follow_log(table, version)
    for place in (*files, commit, *sorted(folders)):
        try:
            place.force()
        except OSError as error:
            raise StorageError(f"{place} could not be flushed to the disk: {error.strerror}") from error


def _follow_log(table: Location, version: int) -> None:
    """Give a commit's log files the permissions of their folder; delta-rs uses the umask."""
    for name in (f"{version:020d}.json", f"{version:020d}.checkpoint.parquet", "_last_checkpoint"):
        (table / f"_delta_log/{name}").follow()


def _read_instants(file: Location, ts: str) -> tuple[int, int | None, int | None]:
    """Return (rows, least ts, greatest ts) of a data file."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import ArrowException, int64, timestamp

    try:
        column = pq.read_table(file.uri, columns=[ts]).column(ts).cast(timestamp("us", "UTC")).cast(int64())
    except (ArrowException, OSError, KeyError) as error:
        raise StorageError(f"a data file cannot be read: {error}", where=str(file), hint=RESTORE_HINT) from error
    bounds = pc.min_max(column).as_py()
    return len(column), bounds["min"], bounds["max"]
