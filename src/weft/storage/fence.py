"""Fence off a dead writer without Spark: look for its commit, and prevent a late commit.

Each commit carries a ``txnAppId`` and an ascending ``txnVersion``. ``storage/commit.py`` refuses a version that is not
greater than the last one. Before Weft gives up the reservation of a dead writer, Weft commits the reserved version
without data. A late commit with the reserved version therefore fails.
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
    """The commit of a writer: Delta's ``version``, the number of added ``rows``, and the least and greatest ``ts``.

    The bounds of ``ts`` (µs UTC) come from the data files. Both bounds are None if the commit added no rows.
    """

    version: int
    rows: int
    first_ts: int | None
    last_ts: int | None


def find_version(table: Location, app_id: str, txn_version: int) -> int | None:
    """Return the Delta version in which this transaction added files, or None if no version matches."""
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
    """Return the commit with this transaction, or None. Raise StorageError if the log or a data file is damaged."""
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
    """Commit a transaction number without data, so that no writer can use the number afterwards.

    Do nothing if the number is already used, or if the table does not exist. The original writer may commit just before
    this call. After the call, the caller must therefore look for a commit of that writer. Raise StorageError if the
    table cannot be written, for example because another writer commits at the same time.
    """
    if not has_commits(table):
        return
    from deltalake import CommitProperties, Transaction

    try:
        # Use one handle, so that delta-rs refuses a number that another writer has just used.
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
            hint="Run the command again. If it fails again, `weft doctor` reports damage.",
        ) from error


def make_durable(table: Location, version: int) -> None:
    """Force one commit to disk: the data files, the log entry, and the folders of both.

    delta-rs does not force files to disk. A power cut could therefore lose a commit that the catalog has recorded.
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
    """Give the log files of a commit the permissions of their folder, because delta-rs applies the umask."""
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
