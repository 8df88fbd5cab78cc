"""Write and read the column statistics in Delta's log.

Delta truncates instants to milliseconds, even in maxima. Delta records no bound if its text format cannot represent the
year. Bounds may therefore be missing or wider than the values, but never narrower.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.instants import FIRST_INSTANT, LAST_INSTANT, read_instant, to_datetime
from weft.storage.columns import INSTANT

COLUMNS_PROPERTY: Final = "delta.dataSkippingStatsColumns"
"""The property of a Delta table that lists the columns with statistics."""

LOST_MICROSECONDS: Final = 999
"""The most microseconds by which the log rounds an instant down."""
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]+?))\s*(?:,|$)")


def named_columns(names: Sequence[str]) -> str:
    """Return the text of ``COLUMNS_PROPERTY`` for the columns ``names``.

    >>> named_columns(["ts", "a.b"])
    '`ts`,`a.b`'
    """
    return ",".join("`" + name.replace("`", "``") + "`" for name in names)


def columns_with_statistics(properties: Mapping[str, str], schema: pa.Schema) -> list[str]:
    """Return the integer and timestamp columns with statistics. If the property is not set, all integer and timestamp
    columns have statistics.

    >>> columns_with_statistics({COLUMNS_PROPERTY: "`a.b`, ts"}, pa.schema([("a.b", pa.int8()), ("ts", pa.int64())]))
    ['a.b', 'ts']
    """
    listed = properties.get(COLUMNS_PROPERTY)
    if listed is None:
        wanted = set(schema.names)
    else:
        wanted = {match[1].replace("``", "`") if match[1] else match[2] for match in _NAME.finditer(listed)}
    kinds = (pa.types.is_integer, pa.types.is_timestamp)
    return [field.name for field in schema if field.name in wanted and any(kind(field.type) for kind in kinds)]


class Statistics:
    """The statistics of a data file: the row count, and for some columns the bounds and the NULL count.

    ``rows`` is the number of rows so far.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.rows = 0
        self._columns = columns
        self._bounds: dict[str, tuple[int, int]] = {}
        self._nulls = dict.fromkeys(columns, 0)
        self._instants: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Add rows of the file. Columns with statistics have integers or timestamps."""
        self.rows += rows.num_rows
        for name in self._columns:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if pa.types.is_timestamp(column.type):
                self._instants.add(name)
                column = column.cast(pa.int64())
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None:
                least, greatest = self._bounds.get(name, (bounds["min"], bounds["max"]))
                self._bounds[name] = min(least, bounds["min"]), max(greatest, bounds["max"])

    def text(self) -> str:
        """Return the statistics in Delta's JSON."""
        parts: list[dict[str, Any]] = [{}, {}]
        for name, bounds in self._bounds.items():
            for part, bound in zip(parts, bounds, strict=True):
                stored = _milliseconds(bound) if name in self._instants else bound
                if stored is not None:
                    part[name] = stored
        bounded = {"minValues": parts[0], "maxValues": parts[1]}
        return json.dumps({"numRecords": self.rows, **bounded, "nullCount": self._nulls})


def statistics_of(rows: int, bounds: Mapping[str, tuple[int, int]]) -> str:
    """Return the statistics of ``rows`` rows as ``statistics`` does. ``bounds`` has instants (µs UTC) by column."""
    least = {name: text for name, (low, _) in bounds.items() if (text := _milliseconds(low)) is not None}
    greatest = {name: text for name, (_, high) in bounds.items() if (text := _milliseconds(high)) is not None}
    stored = {"minValues": least, "maxValues": greatest, "nullCount": dict.fromkeys(bounds, 0)}
    return json.dumps({"numRecords": rows, **stored})


def _milliseconds(instant: int) -> str | None:
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return None
    return to_datetime(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def micros_in_bounds(actions: pa.Table) -> pa.Table:
    """Return the add actions with integer bounds for instants (µs, any year). Maxima are rounded up."""
    for number, field in enumerate(actions.schema):
        if pa.types.is_timestamp(field.type):
            instants = actions.column(number).cast(INSTANT).cast(pa.int64())
            if field.name.startswith("max."):
                instants = pc.add(instants, LOST_MICROSECONDS)
            actions = actions.set_column(number, field.name, instants)
    return actions


def parse_statistics(text: str | None, instants: Collection[str]) -> tuple[int | None, dict[str, Any], dict[str, Any]]:
    """Parse the JSON statistics of a file: row count (None: not recorded), least values, greatest values.

    The values are in dicts with column names as keys. ``instants`` are the timestamp columns, and bounds of instants
    are in microseconds. For other columns, only integer bounds are returned.

    >>> parse_statistics('{"numRecords": 2, "minValues": {"a": 1}, "maxValues": {"a": 7, "b": "x"}}', ())
    (2, {'a': 1}, {'a': 7})
    """
    stats = json.loads(text or "{}")
    bounds: list[dict[str, Any]] = []
    for part, lost in (("minValues", 0), ("maxValues", LOST_MICROSECONDS)):
        values: dict[str, Any] = {}
        for name, value in (stats.get(part) or {}).items():
            if name in instants:
                instant = read_instant(value) if isinstance(value, str) else None
                if instant is not None:
                    values[name] = instant + lost
            elif isinstance(value, int):
                values[name] = value
        bounds.append(values)
    return stats.get("numRecords"), bounds[0], bounds[1]
