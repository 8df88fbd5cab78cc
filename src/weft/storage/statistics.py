"""What Delta's log says of a file's values: which columns, written for a file that Weft makes, read from its log.

Delta cuts instants down to milliseconds, the greatest too, and says nothing of years that its text has no room for.  So
bounds may be wider than the values, and a bound that is not there is none; they are never narrower.
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
"""The property of a Delta table that names the columns with statistics."""

_LOST_MICROSECONDS: Final = 999
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]+?))\s*(?:,|$)")


def named_columns(names: Sequence[str]) -> str:
    """The property's text for these columns.

    >>> named_columns(["ts", "a.b"])
    '`ts`,`a.b`'
    """
    return ",".join("`" + name.replace("`", "``") + "`" for name in names)


def columns_with_statistics(properties: Mapping[str, str], schema: pa.Schema) -> list[str]:
    """The columns of a table that get statistics: those that it names, else all that hold whole numbers or instants.

    >>> columns_with_statistics({COLUMNS_PROPERTY: "`a.b`, ts"}, pa.schema([("a.b", pa.int8()), ("ts", pa.int64())]))
    ['a.b', 'ts']
    """
    told = properties.get(COLUMNS_PROPERTY)
    if told is None:
        wanted = set(schema.names)
    else:
        wanted = {match[1].replace("``", "`") if match[1] else match[2] for match in _NAME.finditer(told)}
    kinds = (pa.types.is_integer, pa.types.is_timestamp)
    return [field.name for field in schema if field.name in wanted and any(kind(field.type) for kind in kinds)]


def statistics(rows: pa.Table, columns: Sequence[str]) -> str:
    """Delta's JSON about a file with these rows: their number, and the bounds and the NULLs of the columns."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in columns:
        column = rows.column(name)
        nulls[name] = column.null_count
        is_instant = pa.types.is_timestamp(column.type)
        bounds = pc.min_max(column.cast(pa.int64()) if is_instant else column).as_py()
        for into, bound in ((least, bounds["min"]), (greatest, bounds["max"])):
            said = _milliseconds(bound) if is_instant and bound is not None else bound
            if said is not None:
                into[name] = said
    return json.dumps({"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _milliseconds(instant: int) -> str | None:
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        return None
    return to_datetime(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bounds_read(actions: pa.Table) -> pa.Table:
    """The log's adds with instants as microseconds (Python has no years beyond 1 to 9999), the greatest rounded up."""
    for number, field in enumerate(actions.schema):
        if pa.types.is_timestamp(field.type):
            instants = actions.column(number).cast(INSTANT).cast(pa.int64())
            if field.name.startswith("max."):
                instants = pc.add(instants, _LOST_MICROSECONDS)
            actions = actions.set_column(number, field.name, instants)
    return actions


def bounds_told(told: str | None, instants: Collection[str]) -> tuple[int | None, dict[str, Any], dict[str, Any]]:
    """What one commit's JSON tells of a file: its rows (None: it does not), the least and greatest by column.

    ``instants`` are the columns that hold them; theirs are microseconds, as ``bounds_read`` gives them.  Of other
    columns only whole numbers are taken.

    >>> bounds_told('{"numRecords": 2, "minValues": {"a": 1}, "maxValues": {"a": 7, "b": "x"}}', ())
    (2, {'a': 1}, {'a': 7})
    """
    found = json.loads(told or "{}")
    bounds: list[dict[str, Any]] = []
    for part, lost in (("minValues", 0), ("maxValues", _LOST_MICROSECONDS)):
        values: dict[str, Any] = {}
        for name, value in (found.get(part) or {}).items():
            if name in instants:
                instant = read_instant(value) if isinstance(value, str) else None
                if instant is not None:
                    values[name] = instant + lost
            elif isinstance(value, int):
                values[name] = value
        bounds.append(values)
    return found.get("numRecords"), bounds[0], bounds[1]
