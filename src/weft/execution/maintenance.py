"""Maintain the arrangements and data files of a home (`weft maintain`).

Maintenance consists of small steps, and the lease is free between two steps.

- Build the arrangements that installed plans need, because a tick should not have to build an arrangement.
- Merge the runs of arrangements, because look-ups are faster with fewer runs.
- Delete arrangements that neither a plan nor a view needs.
- Compact small files, and delete files that are no longer needed (``compacting``).
- Forget old actions in the log of who did what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import pyarrow as pa

from weft.algebra.access import Access, Key, Lookup
from weft.algebra.schema import TableSchema
from weft.arrangement import Arrangement, ArrangementError, remove
from weft.arrangement.manifest import carried_columns
from weft.arrangement.state_store import StateStore
from weft.catalog import CatalogParts, layout
from weft.configuration import configuration
from weft.errors import QueryFault, Refused, WeftError
from weft.execution.compacting import (
    Cleaned,
    Compacted,
    StoredTable,
    clean,
    compact,
    groups_to_compact,
    stored_tables,
    synopsis_tables,
    to_compact,
)
from weft.execution.driver_reader import BOUNDS, rows_of
from weft.execution.groups import instant, shape_of
from weft.execution.home import OpenHome, renewing_lease
from weft.execution.look_ups import ANSWER, LookUps, folder_name, keyed_schema, moved_since, no_values
from weft.execution.relations import relations
from weft.execution.undoing import clear_dropped_folders, dropped_folders
from weft.faults import query_faults
from weft.instants import format_interval, parse_interval
from weft.planning.plan import Plan, columns_read, for_many, parameter_table
from weft.planning.state_causes import all_states
from weft.planning.state_plan import reads_of_keys
from weft.printable import counted
from weft.storage.cleaning import LONGEST_RETENTION_US
from weft.storage.columns import stored_schema
from weft.storage.table import Table

_FOLDER: Final = re.compile(r"(\d+)-(key-|row-)?(\d+(?:-\d+)*)(\.[0-9a-f]{16})?")

LookedUp = dict[tuple[str, Key], set[str]]
"""Maps (table, key) to the columns that plans read through look-ups by this key."""


@dataclass(frozen=True)
class Done:
    """A completed step of the maintenance of an arrangement or of the log of actions. ``name`` is the arrangement's
    folder, or ``audit``. In a dry run, the step is only planned.

    If the step failed, ``problem`` explains the reason.
    """

    name: str
    action: Literal["build", "merge", "delete"]
    what: str
    problem: str | None = None


Step = Done | Compacted | Cleaned


def maintain(home: OpenHome, *, dry_run: bool = False, keep_us: int | None = None) -> Iterator[Step]:
    """Maintain the home and yield the result of each step. The caller may stop after any step.

    With ``dry_run``, only report the steps. ``keep_us`` is the retention of unneeded files in microseconds. If
    ``keep_us`` is None, the retention is that of the settings. Raise Refused for an invalid retention. The steps raise
    LeaseBusy, LeaseLost and StorageError.
    """
    keep_us = configuration(home.folder).retention_us if keep_us is None else keep_us
    if not 0 <= keep_us <= LONGEST_RETENTION_US:
        raise Refused(
            f"unneeded files can be stored for at most {format_interval(LONGEST_RETENTION_US)}, not for "
            f"{format_interval(keep_us)}",
            hint=(
                "Choose a shorter time: after the longest time, a table's log no longer records when a file was "
                "removed."
            ),
        )
    return _steps(home, dry_run, keep_us)


def build_ahead(home: OpenHome, table: str) -> None:
    """Extend the arrangements for the look-ups of installed plans in a table, so that the next tick does not have to.

    Arrangements that lack few rows are left as they are. If an arrangement cannot be built, for example because another
    writer holds the lease, leave it to the next tick. Settle nothing, because that may start Spark.
    """

    @contextmanager
    def held() -> Iterator[object]:
        with home.catalog.writing("maintain", home.clock) as writer, renewing_lease(writer, home.clock):
            yield writer

    with suppress(WeftError):
        wanted = look_ups_of_plans(home.catalog, home.catalog.tables.named(table).table_id)
        for (name, key), columns in sorted(wanted.items()):
            if name == table:
                for _ in _built(home, name, key, columns, held):
                    pass


def _steps(home: OpenHome, dry_run: bool, keep_us: int) -> Iterator[Step]:
    if not dry_run and dropped_folders(home.catalog):
        with home.writing("maintain") as writer:
            clear_dropped_folders(writer)
    if not dry_run:
        StateStore(layout.states_folder(home.folder)).remove_unused()
    wanted = look_ups_of_plans(home.catalog)
    for (table, key), columns in sorted(wanted.items()):
        yield from _built(home, table, key, columns, None if dry_run else partial(home.writing, "maintain"))
    for each in stored_tables(home.catalog):
        if dry_run:
            yield from to_compact(home, each)
        elif file_groups := groups_to_compact(home, each):
            _catch_up(home, each, wanted)
            for group in file_groups:
                yield from compact(home, each, group)
    for name in _folders(home):
        yield from _merged_or_deleted(home, name, wanted, dry_run=dry_run)
    for each in (*stored_tables(home.catalog), *synopsis_tables(home.catalog)):
        yield from clean(home, each, keep_us, dry_run=dry_run)
    yield from _forgotten(home, dry_run=dry_run)


def _forgotten(home: OpenHome, *, dry_run: bool) -> Iterator[Done]:
    """Delete the records of the audit log that are older than its retention."""
    kept = configuration(home.folder).audit_retention
    before = home.clock() - parse_interval(kept)
    count = home.catalog.audit.before(before)
    if count:
        if not dry_run:
            home.catalog.audit.forget(before)
        yield Done("audit", "delete", f"{counted(count, 'action')} more than {kept} ago")


def _folders(home: OpenHome) -> list[str]:
    folder = layout.arrangements_folder(home.folder)
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _catch_up(home: OpenHome, stored: StoredTable, wanted: LookedUp) -> None:
    """An arrangement that covers only some of the compacted files would have to be built again."""
    look_ups = LookUps(layout.arrangements_folder(home.folder))
    for name in _folders(home):
        known = _key(home.catalog, name, wanted)
        if known is None or stored.path != (layout.LEDGER if known[1] is None else _path(home, known[1])):
            continue
        with home.writing("maintain"):
            files = Table(home.catalog.data / stored.path).files()
            key, table = known
            if table is None:
                look_ups.answers(files, ANSWER.empty_table())
                continue
            if isinstance(key, Key):
                look_ups.rows(table, files, key, (), no_values(table, key))
                continue
            keys = stored_schema(table, key).empty_table().select(key)
            (look_ups.known if "-key-" in name else look_ups.whole_rows)(table, files, key, keys)


def _path(home: OpenHome, table: TableSchema) -> str:
    return home.catalog.tables.by_id(table.id).path


def look_ups_of_plans(catalog: CatalogParts, table_id: int | None = None) -> LookedUp:
    """Map each (table, key) of the look-ups of installed plans to the columns that the plans read through them.

    With ``table_id``, consider only the plans that read this table.
    """
    readers = None if table_id is None else {query.plan_id for query, _ in catalog.queries.reading(table_id)}
    records = catalog.queries.plans(readers)
    lower = catalog.queries.read_by_plans([record.plan_id for record in records])
    tables = relations(catalog, [query.query_id for query in lower])
    schemas = {name: table.schema for name, table in tables.items()}
    own = {table.name for table in catalog.tables.all()}
    window = {"t": instant(1), "t0": instant(0)}
    columns: LookedUp = {}
    for record in records:
        try:
            with query_faults():
                shape = shape_of(record, schemas)
        except QueryFault:
            continue  # the next tick sets its queries aside, with the reason
        if not isinstance(shape, Plan):
            continue  # a synopsis looks nothing up
        for event in shape.branches:
            branch = for_many(event, parameter_table(record.plan_id, shape), window, whole=False)
            read = columns_read((branch,))
            for path in branch.paths.values():
                _look_up(path, own, read, columns)
            for state in all_states(event.relation):
                for paths, others in reads_of_keys(state):
                    for path in paths:
                        _look_up(path, own, others, columns)
    return columns


def _look_up(path: Access, own: set[str], read: Mapping[str, set[str]], columns: LookedUp) -> None:
    while isinstance(path, Lookup):
        if path.table in own:
            columns.setdefault((path.table, path.key), set()).update(read.get(path.table, set()))
        path = path.via


def _built(
    home: OpenHome, name: str, key: Key, columns: set[str], held: Callable[[], AbstractContextManager[object]] | None
) -> Iterator[Done]:
    """Build one arrangement under the lease that ``held`` takes. With None, only report the step."""
    table = home.catalog.tables.named(name)
    files = Table(home.catalog.data / table.path).files()
    if not files or table.schema.column(key.column) is None:
        return
    stored = table.stored
    required = [column.name for column in stored.columns] if table.tracked else [stored.start]
    folder = folder_name(stored, key)
    there = layout.arrangements_folder(home.folder) / folder
    own, schema = keyed_schema(stored, key, {*columns, *required}, there)
    try:
        arrangement = Arrangement.open(there, [own], schema)
        behind = arrangement.behind(files, moved_since(arrangement, files))
    except ArrangementError as error:
        yield Done(folder, "build", f"{name} by {key.name}", error.message)
        return
    if rows_of(files) <= BOUNDS.filtered or behind is None or behind <= BOUNDS.filtered:
        return
    problem = None
    if held is not None:
        with held():
            look_ups = LookUps(layout.arrangements_folder(home.folder))
            answer = look_ups.rows(stored, files, key, {*columns, *required}, no_values(stored, key))
            problem = answer.how if answer.rows is None else None
    yield Done(folder, "build", f"{name} by {key.name}, {behind:,} rows", problem)


def _merged_or_deleted(home: OpenHome, name: str, wanted: LookedUp, *, dry_run: bool) -> Iterator[Done]:
    folder = layout.arrangements_folder(home.folder) / name
    known = _key(home.catalog, name, wanted)
    try:
        if known is None:
            if not dry_run:
                with home.writing("maintain"):
                    remove(folder)
            yield Done(name, "delete", "no plan and no view uses it")
            return
        arrangement = _opened(home, name, *known)
        runs = arrangement.runs_to_merge
        if runs:
            if not dry_run:
                with home.writing("maintain"):
                    arrangement.merge()
            yield Done(name, "merge", f"{runs} runs of {arrangement.rows:,} rows")
    except ArrangementError as error:
        yield Done(name, "delete" if known is None else "merge", "not done", error.message)


def _opened(home: OpenHome, name: str, key: Key | list[str], table: TableSchema | None) -> Arrangement:
    """Open the arrangement with the columns that it has."""
    folder = layout.arrangements_folder(home.folder) / name
    if isinstance(key, Key):
        assert table is not None
        own, schema = keyed_schema(table, key, (), folder)
        return Arrangement.open(folder, [own], schema)
    schema = ANSWER if table is None else stored_schema(table, {*key, *carried_columns(folder)})
    if "-key-" in name:
        schema = pa.schema([schema.field(each) for each in key])
    return Arrangement.open(folder, key, schema)


def _key(catalog: CatalogParts, name: str, wanted: LookedUp) -> tuple[Key | list[str], TableSchema | None] | None:
    """Return the key and the table of an arrangement, or None if no plan or view needs the arrangement.

    The key is a list of columns if a load or a refresh uses the arrangement by whole rows. The table is None for the
    ledger's arrangement.
    """
    if name == layout.LEDGER:
        return ANSWER.names, None
    match = _FOLDER.fullmatch(name)
    table = next((each for each in catalog.tables.all() if match and each.table_id == int(match[1])), None)
    if match is None or table is None:
        return None
    of_plans = (key for own, key in wanted if own == table.name and folder_name(table.stored, key) == name)
    if (key := next(of_plans, None)) is not None:
        return key, table.stored
    ids = [int(each) for each in match[3].split("-")]
    columns = [column.name for each in ids for column in table.schema.columns if column.id == each]
    if match[2] == "key-":
        needed = columns == list(table.keys or ())
    else:
        needed = not match[4] and _is_read_by_views(catalog, table.table_id)
    if not needed or len(columns) < len(ids):
        return None
    return (columns if match[2] else Key(columns[0])), table.stored


def _is_read_by_views(catalog: CatalogParts, table_id: int) -> bool:
    """A refresh may look up rows of a view's log and inputs by any column."""
    return any(table_id == view.table_id or table_id in view.reads for view in catalog.views.all())
