"""Compare the metadata and file sizes of the Delta tables with the catalog (design section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import StoredVersion
from weft.errors import FilesRemoved, StorageError, StoreUnreachable
from weft.printable import counted
from weft.storage.data_files import check_data_file
from weft.storage.delta_log import (
    RESTORE_HINT,
    DeltaSnapshot,
    commit_file,
    distrust,
    last_commit,
    trust,
    version_read,
)
from weft.storage.removing import DISCARDING
from weft.storage.table import Table
from weft.store import Store


@dataclass(frozen=True)
class Finding:
    """A problem in a home: its place, a description, and the remedy."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}\n  {self.remedy}"


_checked: dict[str, tuple[Store, tuple[int, ...] | None, set[str]]] = {}
"""For each table: the file of the last commit before the check, the mark of this file, and the checked data files."""


_settled: dict[str, tuple[str, StoredVersion]] = {}
"""For each table on an object store: its home, and the recorded version at the last check without findings."""


_LOOKS: Final = 20
"""The maximum number of repetitions of a check while other processes write."""


def verify(catalog: CatalogParts) -> list[Finding]:
    """Check all Delta tables of a home and return the problems.

    An unrecorded commit is not a problem while its reservation or tick is open, because the next writer settles it. The
    function needs no lease. A check with findings is repeated if another process has written in the meantime.
    """
    others = (stored.path for stored in catalog.tables.versions())
    for path in {*(table.path for table in catalog.tables.all()), layout.LEDGER, *others}:
        Table(catalog.data / path).forget()
        _checked.pop(str(catalog.data / path), None)
        _settled.pop(str(catalog.data / path), None)
    findings: list[Finding] = []
    for _ in range(_LOOKS):
        before = _write_state(catalog)
        findings = _check_new_files(catalog)
        if not findings or _write_state(catalog) == before:
            break
    return findings


def _write_state(catalog: CatalogParts) -> tuple[object, ...]:
    """Return catalog values that change with every write to a table."""
    undoing = catalog.load_history.being_undone()
    parts = (catalog.tables.versions(), catalog.reservations.still_open(), catalog.queries.purging(), undoing)
    return (*map(tuple, parts), catalog.ticks.planned())


def _check_new_files(catalog: CatalogParts, *, trusting: bool = False) -> list[Finding]:
    recorded = {stored.path: stored for stored in catalog.tables.versions()}
    tables = {table.table_id: table.path for table in catalog.tables.all()}
    unsettled = {tables[reservation.table_id] for reservation in catalog.reservations.still_open()}
    unsettled.update(marked.path for marked in catalog.load_history.being_undone())
    planned = catalog.ticks.planned()
    if planned is not None:
        unsettled.update(output.path for output in catalog.ticks.outputs(planned.tick_id))
    if catalog.queries.purging():
        unsettled.add(layout.LEDGER)
    findings = []
    for path in dict.fromkeys([*tables.values(), layout.LEDGER, *recorded]):
        stored, place = recorded.get(path, StoredVersion(path, -1, 0)), catalog.data / path
        known = place.remote and path not in unsettled and _is_known(catalog, str(place), stored)
        found = [] if known else _verify_one(catalog.data, path, stored, path in unsettled)
        if place.remote and path not in unsettled and not found:
            _settled[str(place)] = str(catalog.path), stored
            if trusting and stored.version >= 0:
                trust(place)
        findings += found
    return findings


def _is_known(catalog: CatalogParts, place: str, stored: StoredVersion) -> bool:
    """Return whether this process has checked the table, and has read or written its log up to the recorded version."""
    home, before = _settled.get(place, ("", stored))
    return home == str(catalog.path) and (before == stored or version_read(place) == stored.version)


def require_undamaged(catalog: CatalogParts) -> None:
    """Raise StorageError if the home is damaged. Each writer calls this function first.

    The first call in a process checks all files, and later calls check only new files. Later damage is found by
    ``verify`` or by reading the file. On an object store, a table whose recorded version has not changed is not looked
    at, and its log ends where this process has read it: the caller holds the lease.
    """
    if isinstance(catalog, Writer):
        catalog.at_release(distrust)
    findings = _check_new_files(catalog, trusting=isinstance(catalog, Writer))
    if findings:
        raise StorageError(
            "the store is damaged:\n" + "\n".join(str(each) for each in findings), where=str(catalog.data)
        )


def _verify_one(data: Store, path: str, stored: StoredVersion, unsettled: bool) -> list[Finding]:
    table = Table(data / path)
    if not table.exists():
        if stored.version < 0:
            return []
        return [
            Finding(
                path,
                f"the table is missing, but {counted(stored.rows, 'row')} "
                f"{'was' if stored.rows == 1 else 'were'} recorded",
                RESTORE_HINT,
            )
        ]
    try:
        snapshot = table.snapshot()
        findings = _file_findings(path, snapshot)
    except StoreUnreachable:
        raise
    except StorageError as error:
        return [_log_finding(path, error, table.place, stored)]
    if snapshot.version < stored.version:
        problem = f"the table ends at version {snapshot.version}, but version {stored.version} was recorded"
        return [Finding(path, problem, RESTORE_HINT)]
    expected_here = snapshot.version == stored.version or not unsettled
    if expected_here and snapshot.rows is not None and snapshot.rows != stored.rows:
        if snapshot.rows < stored.rows and table.number(DISCARDING) is not None:
            return findings
        rows = counted(snapshot.rows, "row")
        problem = f"the table has {rows} at version {snapshot.version}, but {stored.rows} were recorded"
        remedy = "Another program wrote to the table, or a backup was restored in part. " + RESTORE_HINT
        findings.append(Finding(path, problem, remedy))
    return findings


def _file_findings(path: str, snapshot: DeltaSnapshot) -> list[Finding]:
    findings = []
    commit, mark, checked = _checked.get(str(snapshot.location), (snapshot.location, None, set()))
    if mark is None or commit.mark() != mark:  # a copy was restored, so this is another log
        checked = set()
    here = {file.location.path for file in snapshot.files}
    for file in snapshot.files:
        if file.location.path in checked or file.attached is not None:  # other programs own attached files
            continue
        try:
            check_data_file(file)
        except FilesRemoved:
            here.discard(file.location.path)
        except StoreUnreachable:
            raise
        except StorageError as error:
            findings.append(_finding(path, error))
            here.discard(file.location.path)
    latest = commit_file(snapshot.location, snapshot.version)
    _checked[str(snapshot.location)] = (latest, latest.mark(), here)
    return findings


def _log_finding(path: str, error: StorageError, table: Store, stored: StoredVersion) -> Finding:
    """If the catalog never recorded the damaged last commit, the remedy is to move its file away."""
    finding = _finding(path, error)
    last = last_commit(table)
    if last > stored.version and error.where == str(commit_file(table, last)):
        remedy = (
            f"The catalog never recorded this commit. Move {error.where} (and the .crc file with the same "
            "number) away: Weft then repeats the load or tick that wrote the commit."
        )
        return Finding(path, finding.problem, remedy)
    return finding


def _finding(path: str, error: StorageError) -> Finding:
    place = f" ({error.where})" if error.where else ""
    return Finding(path, f"{error.message}{place}", error.hint or RESTORE_HINT)
