"""`weft maintain`: the arrangements of a home are built, merged and deleted, the lease being held for one at a time.

What installed plans look up is built where it is missing or far behind, so that no tick has to; runs are merged, so
that look-ups go through fewer; what no plan looks up any more is deleted.
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
from weft.errors import PlanMismatch
from weft.execution.driver_reader import BOUNDS, rows_of
from weft.execution.groups import compiled, instant
from weft.execution.home import Home
from weft.execution.look_ups import ANSWER, LookUps
from weft.execution.relations import relations
from weft.planning.plan import columns_read, for_many, parameter_table
from weft.storage.columns import stored_schema
from weft.storage.delta_log import delta_snapshot, has_commits

_FOLDER: Final = re.compile(r"(\d+)-(key-)?(\d+(?:-\d+)*)")

LookedUp = dict[tuple[str, str], set[str]]
"""By table and column, the columns that plans read of the rows that they look up."""


@dataclass(frozen=True)
class Done:
    """What was done, or would be, with the arrangement in a folder of that name; ``problem``: why it was not."""

    name: str
    action: Literal["build", "merge", "delete"]
    what: str
    problem: str | None = None


def maintain(home: Home, *, dry_run: bool = False) -> Iterator[Done]:
    """Does what is to be done, or only says so; raises LeaseBusy, StorageError."""
    wanted = looked_up(home.catalog)
    for (table, column), columns in sorted(wanted.items()):
        yield from _built(home, table, column, columns, dry_run=dry_run)
    folder = layout.arrangements_folder(home.folder)
    for name in sorted(each.name for each in folder.iterdir()) if folder.is_dir() else ():
        yield from _kept(home, name, wanted, dry_run=dry_run)


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
            shape = compiled(record, schemas)
        except PlanMismatch:
            continue  # the next tick says so, and sets it aside
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
    schema = stored_schema(table.schema, {found.name, *columns, table.schema.start})
    folder = f"{table.schema.id}-{found.id}"
    there = layout.arrangements_folder(home.folder) / folder
    carried = stored_schema(table.schema, {*schema.names, *carried_columns(there)})
    try:
        behind = Arrangement.open(there, [found.name], carried).behind(files)
    except ArrangementError as error:
        yield Done(folder, "build", f"{name} by {column}", error.message)
        return
    if rows_of(files) <= BOUNDS.filtered or behind is None or behind <= BOUNDS.filtered:
        return
    problem = None
    if not dry_run:
        with home.writing("maintain"):
            keys = pa.table({"key": pa.array([], schema.field(found.name).type)})
            answer = LookUps(layout.arrangements_folder(home.folder)).rows(
                table.schema, files, column, schema.names, keys
            )
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
            yield Done(name, "delete", "no plan looks anything up in it")
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
    needed = columns == list(table.keys or ()) if match[2] else _is_looked_up(table.name, columns, wanted)
    return (columns, table.schema) if needed and len(columns) == len(ids) else None


def _is_looked_up(table: str, columns: list[str], wanted: LookedUp) -> bool:
    return any((table, each.lower()) == (name, column.lower()) for name, column in wanted for each in columns)
