"""Retroactive corrections: what a source is said to have had in a past period, against what was recorded then.

The present is the source's own: a correction ends before it, since the next poll would find another row there and undo
it.  What holds then goes on as the row that holds now.
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
from weft.execution.current_rows_cache import keep, open_now
from weft.execution.history_log import log_of, record
from weft.execution.home import Home
from weft.extraction.sources.polling import clock_of
from weft.instants import format_instant, parse_instant
from weft.printable import Brief, counted
from weft.storage.columns import arrow_type
from weft.storage.correcting import Held, corrected, first_change, gaps, key_condition, log_rows_of
from weft.storage.periods import periods, values_of
from weft.storage.verify import require_undamaged


@dataclass(frozen=True)
class Correction:
    """That in [``begin``, ``end``) (µs UTC) the row of ``key`` had other ``values``; None: that there was none.

    Columns by name, in any case; a text is read as a value of its column.
    """

    key: Mapping[str, Any]
    begin: int
    end: int
    values: Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class Corrected(Brief):
    """What a correction of the tracked table ``name`` recorded, at ``at`` (µs UTC; None: all was so already).

    ``changed`` counts periods that are new or have another end, ``gone`` those of which nothing is left.
    """

    name: str
    changed: int
    gone: int
    at: int | None = None

    def _brief(self) -> str:
        return f"{self.name}: {counted(self.changed, 'period')} changed, {self.gone:,} gone"


def correct(home: Home, name: str, correction: Correction, *, now: int | None = None) -> Corrected:
    """Records a correction of a past period at the home's clock, or at ``now`` (µs UTC; replay homes only).

    Raises NotFound; Refused for a table that is no source's, for columns that it has not, for a period that reaches
    into the present or before all that is recorded, and where no row held and not all columns are given; ClockError,
    LeaseBusy, StorageError.
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
    home: Home, writer: Writer, table: TableRecord, there: Held, after: Held, at_least: int, begins: int
) -> Corrected:
    wall = home.clock()
    present = open_now(writer, table)
    load_id = writer.loads.begin(table.table_id, "a correction", "correction", None, wall)
    writer.revisions.intend(table.table_id, load_id, begins)
    done = record(writer, table, load_id, at_least, lambda floor: log_rows_of(there, after, floor, table.stored), None)
    keep(writer, table.table_id, present, done.rows)
    assert done.rows is not None and done.last is not None
    bounds = (done.rows.column(name).cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to"))
    gone = sum(begin == end for begin, end in zip(*bounds, strict=True))
    writer.loads.finish(load_id, done.rows.num_rows, 0, 0, 0, wall)
    return Corrected(table.name, done.rows.num_rows - gone, gone, done.last)


def _table(writer: Writer, name: str) -> TableRecord:
    table = writer.tables.named(name)
    view = next((view for view in writer.views.all() if view.table_id == table.table_id), None)
    if view is not None:
        raise Refused(f"{table.name} is a view: its rows follow from what it reads", hint="Correct that.")
    if table.log is None:
        raise Refused(f"{table.name} is not a tracked table", hint="Only what is recorded of a source is corrected.")
    return table


def _check_period(writer: Writer, table: TableRecord, correction: Correction, clock: int) -> None:
    begin, end = format_instant(correction.begin), format_instant(correction.end)
    if correction.begin >= correction.end:
        raise Refused(f"no instant is from {begin} on and before {end}", hint="--from is before --to.")
    if correction.end > clock:
        raise Refused(
            f"{end} is not past: now is {format_instant(clock)}",
            where=table.name,
            hint="What holds now is the source's to say: change it there, and poll it. A poll would undo it here.",
        )
    t0 = writer.home().t0
    if t0 is None or correction.begin < t0:
        since = "nothing is recorded" if t0 is None else f"what is recorded begins at {format_instant(t0)}"
        raise Refused(f"{begin} is before all that is known: {since}", where=table.name, hint="Give a later --from.")


def _key(table: TableRecord, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of the key's columns, of which each must be given; raises Refused for others."""
    known = {_named(table, name): value for name, value in given.items()}
    if set(known) != set(table.keys):
        raise Refused(
            f"the key of {table.name} is {', '.join(table.keys)}, and {', '.join(given) or 'nothing'} is given",
            hint="Give each column of it: " + " ".join(f"--key {name}=…" for name in table.keys),
        )
    return known


def _named(table: TableRecord, name: str) -> str:
    """The column as the table spells it; raises Refused for one that it has not."""
    names = values_of(table.stored)
    for each in names:
        if folded(each) == folded(name):
            return each
    raise Refused(f"{table.name} has no column {name!r}", hint=f"It has {', '.join(names)}.")


def _changed(table: TableRecord, key: Mapping[str, pa.Scalar], there: Held, correction: Correction) -> pa.Table | None:
    """The values of every row of the key as the correction has them, one after another; None: there was no row.

    One more is for where no row held; raises Refused where there is such a part and columns are missing.
    """
    if correction.values is None:
        return None
    sets = {_named(table, name): value for name, value in correction.values.items()}
    if wrong := [name for name in sets if name in key]:
        raise Refused(
            f"{', '.join(wrong)} is of the key, which tells rows apart",
            hint="Say with --delete that the one was not there, and with all its columns that the other was.",
        )
    names = values_of(table.stored)
    if not sets and set(names) - set(key):
        raise Refused(
            "the correction says nothing", hint="Write --set COLUMN=VALUE, or --delete: there was no such row."
        )
    values = {name: _scalar(table, name, value) for name, value in sets.items()}
    missing = [name for name in names if name not in values and name not in key]
    empty = gaps(there, (correction.begin, correction.end))
    if empty and missing:
        first, last = map(format_instant, empty[0])
        raise Refused(
            f"{table.name} has no row of that key from {first} to {last}; not given: {', '.join(missing)}",
            hint="Give all its columns to say that one held, or correct the period in which one did.",
        )
    rows = [given.slice(place, 1).select(names) for given, place in there.places.values()]
    full = {**key, **values}
    whole = [pa.table({name: pa.array([full[name].as_py()], full[name].type) for name in names})] if not missing else []
    return pa.concat_tables([*(_with(row, values) for row in rows), *whole]) if rows or whole else None


def _with(row: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    for name, value in values.items():
        place = row.column_names.index(name)
        row = row.set_column(place, name, pa.array([value.as_py()], value.type))
    return row


def _scalar(table: TableRecord, name: str, value: Any) -> pa.Scalar:
    """A value of a column; raises Refused for what is none."""
    column = table.stored.column(name)
    assert column is not None
    kind = arrow_type(column.type)
    try:
        if not isinstance(value, str) or column.type.name in ("STRING", "BINARY"):
            return pa.array([value], kind)[0]
        return _read(value, column.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, Refused) as error:
        raise Refused(f"{value!r} is no {column.type}, which {name} of {table.name} is", where=name) from error


def _read(text: str, kind: DataType) -> pa.Scalar:
    if kind.name == "TIMESTAMP":
        return pa.array([parse_instant(text)], pa.int64()).cast(arrow_type(kind))[0]
    return pa.array([text.strip()], pa.string()).cast(arrow_type(kind))[0]
