"""Whether what is stored is what the catalog recorded (design section 7): metadata and file sizes, no content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.catalog import CatalogParts, layout
from weft.catalog.records import StoredVersion
from weft.errors import StorageError
from weft.location import Location
from weft.printable import counted
from weft.storage.delta_log import (
    RESTORE_HINT,
    DeltaSnapshot,
    check_data_file,
    commit_file,
    delta_snapshot,
    forget_log,
    has_commits,
    last_commit,
)
from weft.storage.discarding import has_discarded


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where, what, and what to do."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}\n  {self.remedy}"


_whole: dict[str, tuple[Location, tuple[int, ...] | None, set[str]]] = {}
"""By table, the data files that this process has found whole, and the commit as of which, with its mark."""


_LOOKS: Final = 20
"""How often ``verify`` looks where something seems wrong and others are writing."""


def verify(catalog: CatalogParts) -> list[Finding]:
    """What is wrong with the Delta tables of a home; empty where all is well.  Everything is looked at.

    A commit that the catalog does not know is no finding while its writer's reservation or tick is still open: it is
    settled by the next writer.  Needs no lease: while others write it looks again.
    """
    others = (stored.path for stored in catalog.tables.versions())
    for path in {*(table.path for table in catalog.tables.all()), layout.LEDGER, *others}:
        forget_log(catalog.data / path)
        _whole.pop(str(catalog.data / path), None)
    findings: list[Finding] = []
    for _ in range(_LOOKS):
        before = _written(catalog)
        findings = _what_is_new(catalog)
        if not findings or _written(catalog) == before:
            break
    return findings


def _written(catalog: CatalogParts) -> tuple[object, ...]:
    """What of the catalog changes with whatever is written to a table."""
    undoing = catalog.load_history.half_undone()
    parts = (catalog.tables.versions(), catalog.reservations.still_open(), catalog.queries.purging(), undoing)
    return (*map(tuple, parts), catalog.ticks.planned())


def _what_is_new(catalog: CatalogParts) -> list[Finding]:
    """``verify`` of what this process has not looked at yet."""
    recorded = {stored.path: stored for stored in catalog.tables.versions()}
    tables = {table.table_id: table.path for table in catalog.tables.all()}
    unsettled = {tables[reservation.table_id] for reservation in catalog.reservations.still_open()}
    unsettled.update(marked.path for marked in catalog.load_history.half_undone())
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
    """Raises StorageError with what is wrong; what a writer calls before it begins.

    A process looks at everything once, then at what is new.  A file that is damaged after that is noticed when it is
    read, or by ``verify``.
    """
    findings = _what_is_new(catalog)
    if findings:
        raise StorageError(
            "the store is damaged:\n" + "\n".join(str(each) for each in findings), where=str(catalog.data)
        )


def _verify_one(data: Location, path: str, stored: StoredVersion, unsettled: bool) -> list[Finding]:
    table = data / path
    if not has_commits(table):
        if stored.version < 0:
            return []
        return [
            Finding(
                path,
                f"the table is gone: {counted(stored.rows, 'row')} {'was' if stored.rows == 1 else 'were'} recorded",
                RESTORE_HINT,
            )
        ]
    try:
        with table.shared():  # nobody deletes them meanwhile
            found = delta_snapshot(table, check_files=False)
            findings = _of_files(path, found)
    except StorageError as error:
        return [_of_log(path, error, table, stored)]
    if found.version < stored.version:
        problem = f"the table ends at version {found.version}, version {stored.version} was recorded"
        return [Finding(path, problem, RESTORE_HINT)]
    expected_here = found.version == stored.version or not unsettled
    if expected_here and found.rows is not None and found.rows != stored.rows:
        if found.rows < stored.rows and has_discarded(table):
            return findings
        problem = f"the table has {counted(found.rows, 'row')} at version {found.version}, {stored.rows} were recorded"
        remedy = "Something other than Weft wrote to it, or a copy was put back in part. " + RESTORE_HINT
        findings.append(Finding(path, problem, remedy))
    return findings


def _of_files(path: str, found: DeltaSnapshot) -> list[Finding]:
    findings = []
    commit, mark, whole = _whole.get(str(found.location), (found.location, None, set()))
    if mark is None or commit.mark() != mark:  # a copy was put back: another log by now
        whole = set()
    here = {file.location.path for file in found.files}
    for file in found.files:
        if file.location.path in whole:
            continue
        try:
            check_data_file(file)
        except StorageError as error:
            findings.append(_finding(path, error))
            here.discard(file.location.path)
    latest = commit_file(found.location, found.version)
    _whole[str(found.location)] = (latest, latest.mark(), here)
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
