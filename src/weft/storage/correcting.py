"""Compute a retroactive correction of a tracked table: the new periods of a key, and the log rows to append.

The history log is append-only. The ``ts`` of the new log rows is the instant of the correction. The knowledge before
the correction therefore stays readable (``storage.periods``). At any time, a key has at most one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.storage.columns import conformed, stored_schema
from weft.storage.periods import TS

Row: TypeAlias = tuple[Any, ...]
"""The values of a row in a form for comparisons: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0."""
Period: TypeAlias = tuple[int, int]
OPEN: Final = 2**63 - 1
"""The number that represents the end of an open period (µs)."""


@dataclass
class Held:
    """The periods of each row of one key. ``places`` locates the values of a row as (table, row index)."""

    periods: dict[Row, list[Period]] = field(default_factory=dict)
    places: dict[Row, tuple[pa.Table, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, periods: pa.Table, names: Sequence[str]) -> Held:
        """Read the periods from a table with the columns of a history log except ``ts``."""
        held = cls()
        bounds = [periods.column(name).cast(pa.int64()).to_pylist() for name in (VALID_FROM, VALID_TO)]
        for place, (row, begin, end) in enumerate(zip(_rows(periods, names), *bounds, strict=True)):
            held.add(row, (begin, OPEN if end is None else end), (periods, place))
        return held

    def add(self, row: Row, period: Period, place: tuple[pa.Table, int]) -> None:
        """Add a period for a row whose values are at ``place``."""
        self.periods.setdefault(row, []).append(period)
        self.places.setdefault(row, place)


def corrected(there: Held, within: Period, changed: pa.Table | None, names: Sequence[str]) -> Held:
    """Return the history with new values in the period ``within``. If ``changed`` is None, no row is valid in the
    period.

    ``changed`` contains the new values for each row of ``there``, in the order of ``there.periods``. An additional row
    of ``changed`` becomes valid in all gaps of the period.
    """
    begin, end = within
    result = Held()
    rows = [] if changed is None else list(_rows(changed, names))
    for number, (row, periods) in enumerate(there.periods.items()):
        for first, last in periods:
            for part in ((first, min(last, begin)), (max(first, end), last)):
                if part[0] < part[1]:
                    result.add(row, part, there.places[row])
            inside = max(first, begin), min(last, end)
            if changed is not None and inside[0] < inside[1]:
                result.add(rows[number], inside, (changed, number))
    if changed is not None and len(rows) > len(there.periods):
        for gap in gaps(there, within):
            result.add(rows[-1], gap, (changed, len(rows) - 1))
    result.periods = {row: _coalesced(periods) for row, periods in result.periods.items()}
    return result


def gaps(there: Held, within: Period) -> list[Period]:
    """Return the parts of the period ``within`` in which no row is valid."""
    reached, free = within[0], []
    for first, last in sorted(period for periods in there.periods.values() for period in periods):
        if last <= reached or first >= within[1]:
            continue
        if first > reached:
            free.append((reached, first))
        reached = max(reached, last)
    if reached < within[1]:
        free.append((reached, within[1]))
    return free


def first_change(before: Held, after: Held) -> int | None:
    """Return the first instant at which the two histories differ (µs UTC). Return None if the histories are equal."""
    starts = [
        one
        for row in before.periods.keys() | after.periods.keys()
        for one in _differing(before.periods.get(row, []), after.periods.get(row, []))
    ]
    return min(starts, default=None)


def _differing(left: Sequence[Period], right: Sequence[Period]) -> Iterable[int]:
    for first, _ in {*left} ^ {*right}:
        # Two periods with the same start differ after the earlier end.
        ends = [end for begin, end in (*left, *right) if begin == first]
        yield first if len(ends) == 1 else min(ends)


def log_rows_of(before: Held, after: Held, instant: int, log: TableSchema) -> pa.Table:
    """Return the log rows (with ``ts`` = ``instant``) that change the history from ``before`` to ``after``."""
    schema = stored_schema(log)
    pieces = []
    for held, row, begin, end in _gained(before, after):
        source, place = held.places[row]
        bounds = {VALID_FROM: begin, VALID_TO: None if end == OPEN else end, TS: instant}
        values = source.slice(place, 1).select([name for name in source.column_names if name not in bounds])
        for name, at in bounds.items():
            values = values.append_column(name, pa.array([at], schema.field(name).type))
        pieces.append(conformed(values, schema))
    return pa.concat_tables(pieces) if pieces else schema.empty_table()


def _gained(before: Held, after: Held) -> Iterable[tuple[Held, Row, int, int]]:
    for row, periods in after.periods.items():
        known = before.periods.get(row, [])
        yield from ((after, row, *period) for period in periods if period not in known)
    for row, periods in before.periods.items():
        begins = {begin for begin, _ in after.periods.get(row, [])}
        yield from ((before, row, begin, begin) for begin, _ in periods if begin not in begins)


def _coalesced(periods: Iterable[Period]) -> list[Period]:
    merged: list[Period] = []
    for first, last in sorted(periods):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _rows(table: pa.Table, names: Sequence[str]) -> Iterable[Row]:
    columns = [_comparable(table.column(name)) for name in names]
    return zip(*columns, strict=True) if columns else iter(())


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return ["NaN" if each is not None and each != each else each for each in column.to_pylist()]
    return list(column.to_pylist())


def correction_instants(log: pa.Table) -> list[int]:
    """Return the instants of corrections in a history log, ascending (µs UTC).

    A log row belongs to a correction if its period neither starts nor ends at ``ts``.
    """
    ordinary = pc.or_kleene(
        pc.equal(log.column(VALID_FROM), log.column(TS)),
        pc.fill_null(pc.equal(log.column(VALID_TO), log.column(TS)), False),
    )
    instants = log.column(TS).filter(pc.invert(ordinary)).cast(pa.int64())
    return sorted(pc.unique(instants).to_pylist())


def key_condition(rows: pa.Table, key: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return the rows with the key ``key``. NULL equals NULL."""
    for name, value in key.items():
        column = rows.column(name)
        same = column.is_null() if not value.is_valid else pc.fill_null(pc.equal(column, value), False)
        if value.is_valid and pa.types.is_floating(value.type) and value.as_py() != value.as_py():
            same = pc.fill_null(pc.is_nan(column), False)
        rows = rows.filter(same)
    return rows
