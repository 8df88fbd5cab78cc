"""`weft maintain`: what makes reading cheap is kept in order, step by step, the lease being held for one at a time.

Arrangements: what installed plans look up is built where it is missing or far behind, so that no tick has to; runs are
merged, so that look-ups go through fewer; what neither a plan nor a view looks up any more is deleted.  Data files:
small ones are made one, and those that nobody needs any more are deleted (``compacting``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from weft.algebra.access import Lookup
from weft.algebra.schema import TableSchema
from weft.arrangement import Arrangement, ArrangementError, remove
from weft.arrangement.manifest import carried_columns
from weft.catalog import CatalogParts, layout
from weft.errors import QueryFault, Refused
from weft.execution.compacting import (
    KEPT_US,
    Cleaned,
    Compacted,
    Stored,
    clean,
    compact,
    groups,
    of_synopses,
    stored,
    to_compact,
)
from weft.execution.driver_reader import BOUNDS, rows_of
from weft.execution.groups import instant, shape_of
from weft.execution.home import Home
from weft.execution.look_ups import ANSWER, LookUps, moved_since
from weft.execution.relations import relations
from weft.execution.undoing import clear_forgotten, forgotten
from weft.faults import query_faults
from weft.instants import format_interval
from weft.planning.plan import Plan, columns_read, for_many, parameter_table
from weft.storage.cleaning import LONGEST_RETENTION_US
from weft.storage.columns import stored_schema
from weft.storage.delta_log import delta_snapshot, has_commits

_FOLDER: Final = re.compile(r"(\d+)-(key-|row-)?(\d+(?:-\d+)*)")

LookedUp = dict[tuple[str, str], set[str]]
"""By table and column, the columns that plans read of the rows that they look up."""


@dataclass(frozen=True)
class Done:
    """What was done, or would be, with the arrangement in a folder of that name; ``problem``: why it was not."""

    name: str
    action: Literal["build", "merge", "delete"]
    what: str
    problem: str | None = None


Step = Done | Compacted | Cleaned
"""What one step of maintenance did."""


def maintain(home: Home, *, dry_run: bool = False, keep_us: int = KEPT_US) -> Iterator[Step]:
    """Does what is to be done, or only says so, step by step; ``keep_us`` is how long files are kept that nobody needs.

    Between two steps it may be left.  Raises Refused for a ``keep_us`` that cannot be; its steps raise LeaseBusy,
    LeaseLost, StorageError.
    """
    if not 0 <= keep_us <= LONGEST_RETENTION_US:
        raise Refused(
            f"files that nobody needs are kept for at most {format_interval(LONGEST_RETENTION_US)}, "
            f"{format_interval(keep_us)} was asked for",
            hint="The log of a table forgets by then when a file was taken out of it.",
        )
    return _steps(home, dry_run, keep_us)


def _steps(home: Home, dry_run: bool, keep_us: int) -> Iterator[Step]:
    if not dry_run and forgotten(home.catalog):
        with home.writing("maintain") as writer:
            clear_forgotten(writer)
    wanted = looked_up(home.catalog)
    for (table, column), columns in sorted(wanted.items()):
        yield from _built(home, table, column, columns, dry_run=dry_run)
    for each in stored(home.catalog):
        if dry_run:
            yield from to_compact(home, each)
        elif found := groups(home, each):
            _catch_up(home, each, wanted)
            for group in found:
                yield from compact(home, each, group)
    for name in _folders(home):
        yield from _kept(home, name, wanted, dry_run=dry_run)
    for each in (*stored(home.catalog), *of_synopses(home.catalog)):
        yield from clean(home, each, keep_us, dry_run=dry_run)


def _folders(home: Home) -> list[str]:
    """The names of the arrangements that there are."""
    folder = layout.arrangements_folder(home.folder)
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _catch_up(home: Home, stored: Stored, wanted: LookedUp) -> None:
    """Has the arrangements of a table cover all its files: those of which it knows only some cannot be told apart from
    the one that they become, and all would be built again."""
    look_ups = LookUps(layout.arrangements_folder(home.folder))
    for name in _folders(home):
        known = _key(home.catalog, name, wanted)
        if known is None or stored.path != (layout.LEDGER if known[1] is None else _path(home, known[1])):
            continue
        with home.writing("maintain"):
            files = delta_snapshot(home.catalog.data / stored.path, check_files=False).files
            key, table = known
            if table is None:
                look_ups.answers(files, ANSWER.empty_table())
                continue
            keys = stored_schema(table, key).empty_table()
            if "-key-" in name:
                look_ups.known(table, files, key, keys.select(key))
            elif "-row-" in name:
                look_ups.whole_rows(table, files, key, keys.select(key))
            else:
                look_ups.rows(table, files, key[0], key, keys)


def _path(home: Home, table: TableSchema) -> str:
    return home.catalog.tables.by_id(table.id).path


def looked_up(catalog: CatalogParts) -> LookedUp:
    """What the plans of installed queries look up in tables."""
    records = catalog.queries.plans()
    lower = catalog.queries.read_by_plans([record.plan_id for record in records])
    tables = relations(catalog, [query.query_id for query in lower])
    schemas = {name: table.schema for name, table in tables.items()}
    own = {table.name for table in catalog.tables.all()}
    window = {"t": instant(1), "t0": instant(0)}
    found: LookedUp = {}
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
            read = columns_read(branch)
            for path in branch.paths.values():
                while isinstance(path, Lookup):
                    if path.table in own:
                        found.setdefault((path.table, path.column), set()).update(read.get(path.table, set()))
                    path = path.via
    return found


def _built(home: Home, name: str, column: str, columns: set[str], *, dry_run: bool) -> Iterator[Done]:
    """Builds, or catches up, the arrangement of a large table that is far behind."""
    table = home.catalog.tables.named(name)
    place = home.catalog.data / table.path
    found = table.schema.column(column)
    if not has_commits(place) or found is None:
        return
    files = delta_snapshot(place, check_files=False).files
    stored = table.stored
    whole = [column.name for column in stored.columns] if table.tracked else [stored.start]
    schema = stored_schema(stored, {found.name, *columns, *whole})
    folder = f"{table.schema.id}-{found.id}"
    there = layout.arrangements_folder(home.folder) / folder
    carried = stored_schema(stored, {*schema.names, *carried_columns(there)})
    try:
        arrangement = Arrangement.open(there, [found.name], carried)
        behind = arrangement.behind(files, moved_since(arrangement, files))
    except ArrangementError as error:
        yield Done(folder, "build", f"{name} by {column}", error.message)
        return
    if rows_of(files) <= BOUNDS.filtered or behind is None or behind <= BOUNDS.filtered:
        return
    problem = None
    if not dry_run:
        with home.writing("maintain"):
            keys = pa.table({"key": pa.array([], schema.field(found.name).type)})
            answer = LookUps(layout.arrangements_folder(home.folder)).rows(stored, files, column, schema.names, keys)
            problem = answer.how if answer.rows is None else None
    yield Done(folder, "build", f"{name} by {column}, {behind:,} rows", problem)


def _kept(home: Home, name: str, wanted: LookedUp, *, dry_run: bool) -> Iterator[Done]:
    """Merges the runs of an arrangement, or deletes it where nobody needs it."""
    folder = layout.arrangements_folder(home.folder) / name
    known = _key(home.catalog, name, wanted)
    try:
        if known is None:
            if not dry_run:
                with home.writing("maintain"):
                    remove(folder)
            yield Done(name, "delete", "neither a plan nor a view looks anything up in it")
            return
        key, table = known
        schema = ANSWER if table is None else stored_schema(table, {*key, *carried_columns(folder)})
        if table is not None and "-key-" in name:
            schema = pa.schema([schema.field(each) for each in key])
        arrangement = Arrangement.open(folder, key, schema)
        runs = arrangement.runs_to_merge
        if runs:
            if not dry_run:
                with home.writing("maintain"):
                    arrangement.merge()
            yield Done(name, "merge", f"{runs} runs of {arrangement.rows:,} rows")
    except ArrangementError as error:
        yield Done(name, "delete" if known is None else "merge", "not done", error.message)


def _key(catalog: CatalogParts, name: str, wanted: LookedUp) -> tuple[list[str], TableSchema | None] | None:
    """The key of the arrangement in that folder, and its table (None: the ledger); None: nobody needs it."""
    if name == layout.LEDGER:
        return ANSWER.names, None
    match = _FOLDER.fullmatch(name)
    table = next((each for each in catalog.tables.all() if match and each.table_id == int(match[1])), None)
    if match is None or table is None:
        return None
    ids = [int(each) for each in match[3].split("-")]
    columns = [column.name for each in ids for column in table.schema.columns if column.id == each]
    if match[2] == "key-":
        needed = columns == list(table.keys or ())
    else:
        needed = _is_read_by_views(catalog, table.table_id) or _is_looked_up(table.name, columns, wanted)
    return (columns, table.stored) if needed and len(columns) == len(ids) else None


def _is_read_by_views(catalog: CatalogParts, table_id: int) -> bool:
    """Whether the maintenance of some view looks rows of the table up, by whichever columns; its own log it does."""
    return any(table_id == view.table_id or table_id in view.reads for view in catalog.views.all())


def _is_looked_up(table: str, columns: list[str], wanted: LookedUp) -> bool:
    return any((table, each.lower()) == (name, column.lower()) for name, column in wanted for each in columns)
