"""Whether what is stored is what the catalog recorded (design section 7): metadata and file sizes, no content."""

from __future__ import annotations

from dataclasses import dataclass

from weft.catalog import CatalogParts, layout
from weft.catalog.records import StoredVersion
from weft.errors import StorageError
from weft.location import Location
from weft.storage.delta_log import (
    RESTORE_HINT,
    DeltaSnapshot,
    check_data_file,
    commit_file,
    delta_snapshot,
    has_commits,
    last_commit,
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where, what, and what to do."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}\n  {self.remedy}"


def verify(catalog: CatalogParts) -> list[Finding]:
    """What is wrong with the Delta tables of a home; empty where all is well.

    A commit that the catalog does not know is no finding while its writer's reservation or tick is still open: it is
    settled by the next writer.
    """
    recorded = {stored.path: stored for stored in catalog.tables.versions()}
    tables = {table.table_id: table.path for table in catalog.tables.all()}
    unsettled = {tables[reservation.table_id] for reservation in catalog.reservations.still_open()}
    planned = catalog.ticks.planned()
    if planned is not None:
        unsettled.update(output.path for output in catalog.ticks.outputs(planned.tick_id))
    if catalog.queries.purging():
        unsettled.add(layout.LEDGER)
    paths = dict.fromkeys([*tables.values(), layout.LEDGER, *recorded])
    return [
        finding
        for path in paths
        for finding in _verify_one(
            catalog.data, path, recorded.get(path, StoredVersion(path, -1, 0)), path in unsettled
        )
    ]


def require_whole(catalog: CatalogParts) -> None:
    """Raises StorageError with everything that ``verify`` finds; what a writer calls before it begins."""
    findings = verify(catalog)
    if findings:
        raise StorageError(
            "the store is damaged:\n" + "\n".join(str(each) for each in findings), where=str(catalog.data)
        )


def _verify_one(data: Location, path: str, stored: StoredVersion, unsettled: bool) -> list[Finding]:
    table = data / path
    if not has_commits(table):
        if stored.version < 0:
            return []
        return [Finding(path, f"the table is gone: {stored.rows} rows were recorded", RESTORE_HINT)]
    try:
        found = delta_snapshot(table, check_files=False)
    except StorageError as error:
        return [_of_log(path, error, table, stored)]
    if found.version < stored.version:
        problem = f"the table ends at version {found.version}, version {stored.version} was recorded"
        return [Finding(path, problem, RESTORE_HINT)]
    findings = _of_files(path, found)
    expected_here = found.version == stored.version or not unsettled
    if expected_here and found.rows is not None and found.rows != stored.rows:
        problem = f"the table has {found.rows} rows at version {found.version}, {stored.rows} were recorded"
        remedy = "Something other than Weft wrote to it, or a copy was put back in part. " + RESTORE_HINT
        findings.append(Finding(path, problem, remedy))
    return findings


def _of_files(path: str, found: DeltaSnapshot) -> list[Finding]:
    findings = []
    for file in found.files:
        try:
            check_data_file(file)
        except StorageError as error:
            findings.append(_finding(path, error))
    return findings


def _of_log(path: str, error: StorageError, table: Location, stored: StoredVersion) -> Finding:
    """A damaged last commit that the catalog never recorded can simply go: its load or tick is then done again."""
    finding = _finding(path, error)
    last = last_commit(table)
    if last > stored.version and error.where == str(commit_file(table, last)):
        remedy = (
            f"This commit was not recorded as done. Move {error.where} (and a .crc file of the same number) away: "
            "the load or tick that wrote it is done again."
        )
        return Finding(path, finding.problem, remedy)
    return finding


def _finding(path: str, error: StorageError) -> Finding:
    place = f" ({error.where})" if error.where else ""
    return Finding(path, f"{error.message}{place}", error.hint or RESTORE_HINT)
