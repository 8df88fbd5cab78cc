"""Follow a Delta table by its change data feed. Each table version is a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import TableSchema
from weft.errors import ExtractionError, Refused
from weft.extraction.files.columns import check_names, chosen_of
from weft.extraction.files.probe import typed_columns
from weft.extraction.files.rows import Caster, OwnTimes
from weft.extraction.sources.snapshot import Chosen, Columns, added_columns, refuse_rejected
from weft.extraction.sources.source_lease import Accepting, TableFeed, refuse_emptied
from weft.extraction.sources.subscribing import AGAIN
from weft.storage.change_data import (
    CHANGE,
    VERSION,
    TableState,
    changes_between,
    committed_at,
    rows_at,
    state_of,
)
from weft.storage.changes import DELETE, changes_of, replace_all, without_truncations
from weft.storage.local_sql import connect
from weft.store import Store

_GONE: Final = ("delete", "update_preimage")


def columns_of_delta(path: Store, chosen: Chosen) -> Columns:
    """Return a Delta table's columns.

    Raises NotFound if the table does not exist, ExtractionError if it cannot be read, or Refused if its feed is off.
    """
    return _columns(_state_with_changes(path), chosen, str(path))


def read_delta(
    path: Store,
    schema: TableSchema,
    keys: Sequence[str],
    chosen: Chosen,
    seen: Mapping[str, Any],
    accepting: Accepting,
) -> TableFeed:
    """Return the changes since the position ``seen``, with the types of ``schema``. The first poll returns all rows.

    Raise NotFound, ExtractionError or Refused if the table cannot be read, or if changes would be missed.
    """
    where, name = str(path), schema.name
    state = _state_with_changes(path)
    if seen and (seen["id"] != state.table_id or state.version < seen["version"]):
        raise Refused(
            "the Delta table was replaced, or restored to an older version",
            where=where,
            hint=AGAIN.format(name=name),
        )
    added = added_columns(_columns(state, chosen, where), schema, accepting.evolve, where)
    columns = (*((column.name, column.type) for column in schema.columns), *added)
    if not seen:
        return _begun(path, state, columns, keys, name, accepting)
    changes, own = _changes(path, seen, state.version, columns, name)
    reached = {"id": state.table_id, "version": state.version, "own": own}
    return TableFeed(lambda _: changes, added, reached, once=True)


def _state_with_changes(path: Store) -> TableState:
    state = state_of(path)
    if not state.feeds:
        raise Refused(
            "the Delta table has no change data feed",
            where=str(path),
            hint="Enable the change data feed: ALTER TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true).",
        )
    return state


def _columns(state: TableState, chosen: Chosen, where: str) -> Columns:
    _, columns = typed_columns(state.columns)
    check_names([name for name, _ in columns], where)
    return tuple(columns if chosen is None else chosen_of(columns, chosen, where))


def _begun(
    path: Store, state: TableState, columns: Columns, keys: Sequence[str], name: str, accepting: Accepting
) -> TableFeed:
    rows = _cast(rows_at(path, state.version), columns, str(path))
    own = state.committed_at
    all_rows = replace_all(rows, own, state.version * 2)

    def changes(there: pa.Table) -> pa.Table:
        refuse_emptied(there, rows.num_rows, name, str(path), empty=accepting.empty)
        return without_truncations(all_rows, there, keys)

    return TableFeed(changes, (), {"id": state.table_id, "version": state.version, "own": own}, once=True)


def _changes(path: Store, seen: Mapping[str, Any], version: int, columns: Columns, name: str) -> tuple[pa.Table, int]:
    own = int(seen["own"])
    if version == seen["version"]:
        return changes_of(_cast(None, columns, str(path)), [], [], []), own
    try:
        feed_rows = changes_between(path, seen["version"] + 1, version)
    except ExtractionError as error:
        raise ExtractionError(error.message, where=error.where, hint=AGAIN.format(name=name)) from None
    owns = {}
    for number, at in committed_at(feed_rows).items():
        own = owns[number] = max(at, own + 1)  # commit timestamps have milliseconds, and may come from several clocks
    gone = [kind in _GONE for kind in feed_rows.column(CHANGE).to_pylist()]
    numbers = feed_rows.column(VERSION).to_pylist()
    rows = _cast(feed_rows, columns, str(path))
    ops = [DELETE if each else "U" for each in gone]
    places = [number * 2 + (not each) for number, each in zip(numbers, gone, strict=True)]
    return changes_of(rows, ops, [owns[number] for number in numbers], places), own


def _cast(rows: pa.Table | None, columns: Columns, where: str) -> pa.Table:
    names = [name for name, _ in columns]
    cells = pa.table({name: pa.nulls(0) for name in names}) if rows is None else rows
    missing = [name for name in names if name not in cells.column_names]
    cells = cells.select([name for name in names if name in cells.column_names])
    for name in missing:  # versions before the column was added
        cells = cells.append_column(name, pa.nulls(cells.num_rows, pa.string()))
    layout, _ = typed_columns(cells.slice(0, 0))
    with connect() as connection:
        batch = Caster(layout, OwnTimes(), columns, where).cast(cells, None, connection)
    refuse_rejected(batch, where)
    return batch.rows.select(names)
