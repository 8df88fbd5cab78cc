"""Correct the recorded history of a source for a past period.

Only the source defines the present. A correction must end before the present, because the next poll would otherwise
undo it. The current row keeps its open period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.catalog import Writer
from weft.catalog.naming import folded
from weft.catalog.records import TableRecord
from weft.errors import Refused
from weft.execution.current_rows_cache import current_rows, update_cache
from weft.execution.history_log import log_of, record_one
from weft.execution.home import OpenHome
from weft.extraction.sources.polling import clock_of
from weft.instants import format_instant, parse_instant
from weft.printable import Brief, counted
from weft.storage.columns import arrow_type
from weft.storage.correcting import Held, corrected, first_change, gaps, key_condition, log_rows_of
from weft.storage.periods import periods, values_of
from weft.storage.verify import require_undamaged


@dataclass(frozen=True)
class Correction:
    """A statement about the row of ``key`` in the period [``begin``, ``end``), in microseconds UTC.

    ``values`` are the values that the row had in the period. If ``values`` is None, the row did not exist. The
    comparison of column names ignores case. Texts are parsed as values of their columns.
    """

    key: Mapping[str, Any]
    begin: int
    end: int
    values: Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class Corrected(Brief):
    """The result of correcting the tracked table ``name``.

    ``changed`` is the number of new or changed periods. ``gone`` is the number of removed periods. ``at`` is the time
    of the correction in microseconds UTC, or None if nothing changed.
    """

    name: str
    changed: int
    gone: int
    at: int | None = None

    def _brief(self) -> str:
        return f"{self.name}: {counted(self.changed, 'period')} changed, {self.gone:,} gone"


def correct(home: OpenHome, name: str, correction: Correction, *, now: int | None = None) -> Corrected:
    """Record a correction of a past period. On a replay home, ``now`` (µs UTC) replaces the clock.

    Raises NotFound, ClockError, LeaseBusy or StorageError. Raises Refused for a table without a source, or an unknown
    column. Raises Refused for a period that reaches into the present or starts before the recorded history. Raises
    Refused if the correction omits a column and no row is recorded for a part of the period.
    """
    clock = clock_of(home, now)
    with home.writing(f"correct {name}") as writer:
        require_undamaged(writer)
        table = _table(writer, name)
        _check_period(writer, table, correction, clock)
        names = values_of(table.stored)
        key = {column: _scalar(table, column, value) for column, value in _key(table, correction.key).items()}
        there = Held.of(key_condition(periods(log_of(writer, table)), key), names)
        within = (correction.begin, correction.end)
        after = corrected(there, within, _changed(table, key, there, correction), names)
        begins = first_change(there, after)
        if begins is None:
            return Corrected(table.name, 0, 0)
        return _recorded(home, writer, table, there, after, max(clock, correction.end + 1), begins)


def _recorded(
    home: OpenHome, writer: Writer, table: TableRecord, there: Held, after: Held, at_least: int, begins: int
) -> Corrected:
    wall = home.clock()
    present = current_rows(writer, table)
    load_id = writer.loads.begin(table.table_id, "a correction", "correction", None, wall)
    writer.revisions.intend(table.table_id, load_id, begins)
    done = record_one(
        writer, table, load_id, at_least, lambda floor: log_rows_of(there, after, floor, table.stored), None
    )
    update_cache(writer, table.table_id, present, done.rows)
    assert done.rows is not None and done.last is not None
    bounds = (done.rows.column(name).cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to"))
    gone = sum(begin == end for begin, end in zip(*bounds, strict=True))
    writer.loads.finish(load_id, done.rows.num_rows, 0, 0, 0, wall)
    return Corrected(table.name, done.rows.num_rows - gone, gone, done.last)


def _table(writer: Writer, name: str) -> TableRecord:
    table = writer.tables.named(name)
    view = next((view for view in writer.views.all() if view.table_id == table.table_id), None)
    if view is not None:
        raise Refused(
            f"{table.name} is a view: its rows are derived from other tables",
            hint="Correct the tables from which the view is derived.",
        )
    if table.log is None:
        raise Refused(
            f"the table {table.name!r} is not a tracked table",
            hint="Name a tracked table: only the recorded history of a source can be corrected.",
        )
    return table


def _check_period(writer: Writer, table: TableRecord, correction: Correction, clock: int) -> None:
    begin, end = format_instant(correction.begin), format_instant(correction.end)
    if correction.begin >= correction.end:
        raise Refused(f"the period from {begin} to {end} is empty", hint="--from must be before --to.")
    if correction.end > clock:
        raise Refused(
            f"{end} is not in the past: now is {format_instant(clock)}",
            where=table.name,
            hint="Change current rows in the source itself: the next poll would undo this correction.",
        )
    t0 = writer.home().t0
    if t0 is None or correction.begin < t0:
        since = "nothing is recorded" if t0 is None else f"it begins at {format_instant(t0)}"
        raise Refused(
            f"{begin} is before the recorded history: {since}",
            where=table.name,
            hint="Choose a later instant for --from.",
        )


def _key(table: TableRecord, values: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {_named(table, name): value for name, value in values.items()}
    if set(known) != set(table.keys):
        raise Refused(
            f"the key of {table.name} is {', '.join(table.keys)}, but {', '.join(values) or 'nothing'} is given",
            hint="Give a value for each key column: " + " ".join(f"--key {name}=…" for name in table.keys),
        )
    return known


def _named(table: TableRecord, name: str) -> str:
    names = values_of(table.stored)
    for each in names:
        if folded(each) == folded(name):
            return each
    raise Refused(f"{table.name} has no column {name!r}", hint=f"The columns are: {', '.join(names)}.")


def _changed(table: TableRecord, key: Mapping[str, pa.Scalar], there: Held, correction: Correction) -> pa.Table | None:
    """Return the corrected version of each recorded row of the key. If the correction deletes the row, return None.

    If a part of the period has no recorded row, a row with the values of the correction is added. Raise Refused if the
    added row would not have all columns.
    """
    if correction.values is None:
        return None
    sets = {_named(table, name): value for name, value in correction.values.items()}
    if wrong := [name for name in sets if name in key]:
        raise Refused(
            f"{', '.join(wrong)} belongs to the key and cannot be changed",
            hint="Delete the row of the old key with --delete, then set all columns of the row of the new key.",
        )
    names = values_of(table.stored)
    if not sets and set(names) - set(key):
        raise Refused(
            "the correction changes nothing",
            hint="Change a value with --set COLUMN=VALUE, or write --delete if the row did not exist.",
        )
    values = {name: _scalar(table, name, value) for name, value in sets.items()}
    missing = [name for name in names if name not in values and name not in key]
    empty = gaps(there, (correction.begin, correction.end))
    if empty and missing:
        first, last = map(format_instant, empty[0])
        raise Refused(
            f"{table.name} has no row with that key from {first} to {last}, so the correction inserts a row, "
            f"but it gives no value for: {', '.join(missing)}",
            hint="Give a value for each column, or correct only the period in which the row existed.",
        )
    rows = [given.slice(place, 1).select(names) for given, place in there.places.values()]
    full = {**key, **values}
    complete = (
        [pa.table({name: pa.array([full[name].as_py()], full[name].type) for name in names})] if not missing else []
    )
    return pa.concat_tables([*(_with(row, values) for row in rows), *complete]) if rows or complete else None


def _with(row: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    for name, value in values.items():
        place = row.column_names.index(name)
        row = row.set_column(place, name, pa.array([value.as_py()], value.type))
    return row


def _scalar(table: TableRecord, name: str, value: Any) -> pa.Scalar:
    column = table.stored.column(name)
    assert column is not None
    kind = arrow_type(column.type)
    try:
        if not isinstance(value, str) or column.type.name in ("STRING", "BINARY"):
            return pa.array([value], kind)[0]
        return _read(value, column.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, Refused) as error:
        raise Refused(
            f"{value!r} is not of type {column.type}, the type of {name} in {table.name}", where=name
        ) from error


def _read(text: str, kind: DataType) -> pa.Scalar:
    if kind.name == "TIMESTAMP":
        return pa.array([parse_instant(text)], pa.int64()).cast(arrow_type(kind))[0]
    return pa.array([text.strip()], pa.string()).cast(arrow_type(kind))[0]
