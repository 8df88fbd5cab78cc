"""A table in files for the tests of arrangements, and the expected result of a look-up, computed row by row in
Python.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.arrangement import Arrangement, ArrangementDamaged
from weft.storage.delta_log import DataFile
from weft.store import store_of

Row = tuple[Any, ...]

KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "BIGINT": (pa.int64(), (0, 1, -1, 2**63 - 1, -(2**63))),
    "INT": (pa.int32(), (0, 1, -1, 2**31 - 1)),
    "SMALLINT": (pa.int16(), (0, 1, -(2**15))),
    "TINYINT": (pa.int8(), (0, 1, -128)),
    "STRING": (pa.string(), ("", "a", "A", "a\0", "exactly12byt", "more than twelve bytes of it", "ümläut", "e\u0301")),
    "BINARY": (pa.binary(), (b"", b"\0", b"\xff\xfe", b"more than twelve bytes of it")),
    "BOOLEAN": (pa.bool_(), (True, False)),
    "DATE": (pa.date32(), (dt.date(1970, 1, 1), dt.date(1600, 2, 29), dt.date(9999, 12, 31))),
    "TIMESTAMP": (
        pa.timestamp("us", "UTC"),
        (dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(1969, 7, 20, 1, 2, 3, 4, dt.timezone.utc)),
    ),
    "FLOAT": (pa.float32(), (0.0, -0.0, 1.5, math.nan, math.inf, -math.inf)),
    "DOUBLE": (pa.float64(), (0.0, -0.0, 0.1, math.nan, math.inf, 5e-324)),
    "DECIMAL(10,2)": (pa.decimal128(10, 2), (Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99"))),
    "DECIMAL(38,5)": (pa.decimal128(38, 5), (Decimal("0.00000"), Decimal("-123456789012345678901234567.12345"))),
    "ARRAY<STRING>": (pa.list_(pa.string()), ((), ("a",), ("a", None), ("more than twelve bytes of it", ""))),
}


@dataclass
class Files:
    """Rows in files, as in a Delta table. The class counts the rows that are read."""

    schema: pa.Schema
    content: dict[str, list[Row]] = field(default_factory=dict)
    read_rows: int = 0

    def add(self, name: str, rows: Iterable[Row]) -> DataFile:
        self.content[name] = list(rows)
        return self.file(name)

    def file(self, name: str) -> DataFile:
        rows = len(self.content[name])
        return DataFile(store_of(f"/table/{name}"), 1000 + rows, rows, {}, {})

    @property
    def files(self) -> list[DataFile]:
        return [self.file(name) for name in self.content]

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.content.values() for row in rows]

    def read(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        for file in files:
            rows = self.content[file.location.name]
            self.read_rows += len(rows)
            yield as_table(rows, self.schema)


def as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], kind.type) for at, kind in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def as_rows(table: pa.Table) -> list[Row]:
    return [tuple(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def identical(rows: Iterable[Row]) -> Counter[str]:
    """Return the rows for comparison: NaN equals NaN, and -0.0 differs from 0.0."""
    return Counter(repr([_plain(value) for value in row]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def matching(
    rows: Iterable[Row], positions: Sequence[int], keys: Sequence[Row], null_safe: bool = False
) -> Counter[str]:
    wanted = {_key(key) for key in keys if null_safe or None not in key}
    return identical(row for row in rows if _key(row[at] for at in positions) in wanted)


def _key(values: Iterable[Any]) -> tuple[Any, ...]:
    """Compare as Spark does: -0.0 equals 0.0, and NaN equals NaN."""
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)


def keys_of(keys: Sequence[Row], arrangement: Arrangement) -> pa.Table:
    return as_table(keys, pa.schema([arrangement.schema.field(name) for name in arrangement.key]))


def looked_up(arrangement: Arrangement, keys: Sequence[Row], null_safe: bool = False) -> Counter[str]:
    found = arrangement.lookup(keys_of(keys, arrangement), null_safe=null_safe)
    assert found.schema.equals(arrangement.schema)
    return identical(as_rows(found))


def by_protocol(folder: Path, key: Sequence[str], table: Files, keys: Sequence[Row]) -> Counter[str]:
    """Look up keys as callers do: if the arrangement is damaged, rebuild it and repeat the look-up."""
    arrangement = Arrangement.open(folder, key, table.schema)
    arrangement.catch_up(table.files, table.read)
    try:
        return looked_up(arrangement, keys, null_safe=True)
    except ArrangementDamaged:
        assert arrangement.why_rebuilt is not None
        arrangement.catch_up(table.files, table.read)
        return looked_up(arrangement, keys, null_safe=True)
