"""Convert the answers of a query to typed Arrow rows.

The columns are ``_ordinal BIGINT, _first_at TIMESTAMP, _tick BIGINT``, followed by the columns of the query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import pyarrow as pa

from weft.algebra.schema import BIGINT, INTERVAL, TIMESTAMP, DataType
from weft.catalog.naming import distinct
from weft.catalog.records import FIRST_AT, ORDINAL
from weft.storage.columns import arrow_type
from weft.storage.ledger import ResultRow
from weft.storage.nested import nested_array
from weft.storage.values import Value

Columns: TypeAlias = Sequence[tuple[str, DataType]]

OWN: Final[Columns] = ((ORDINAL, BIGINT), (FIRST_AT, TIMESTAMP), ("_tick", BIGINT))
"""The columns that precede the columns of the query."""
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_PIECE: Final = 10_000
"""The number of rows converted at once. The limit bounds the memory use of Python values."""


def answers_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of answers in a Delta table, including nested types. An interval is a BIGINT number of
    microseconds, because Delta has no such type. A number is added to duplicate names. The comparison of names ignores
    case.

    >>> answers_schema([("a", BIGINT), ("A", TIMESTAMP)]).names
    ['_ordinal', '_first_at', '_tick', 'a', 'A_2']
    """
    return typed_schema((*OWN, *((name, BIGINT if kind.shape == INTERVAL else kind) for name, kind in columns)))


def answers_table(columns: Columns, rows: Iterable[ResultRow]) -> pa.Table:
    """Convert answers to an Arrow table. Instants are microseconds UTC, even outside Python's years."""
    values = ((row.ordinal, row.first_at, row.tick, *row.values) for row in rows)
    return typed_table((*OWN, *columns), values).cast(answers_schema(columns))


def typed_table(columns: Columns, rows: Iterable[tuple[Value, ...]]) -> pa.Table:
    """Convert the rows to an Arrow table with the given columns. A number is added to duplicate names."""
    schema, rest, pieces = typed_schema(columns), iter(rows), []
    while batch := list(islice(rest, _PIECE)):
        arrays = [_array(values, kind) for values, (_, kind) in zip(zip(*batch, strict=True), columns, strict=True)]
        pieces.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(pieces, schema)


def _array(values: Sequence[Any], kind: DataType) -> pa.Array:
    if kind.shape == INTERVAL:  # Arrow does not convert the least timedelta that it can hold
        micros = [None if value is None else value // _MICROSECOND for value in values]
        return pa.array(micros, pa.int64()).cast(arrow_type(INTERVAL))
    return pa.array(values, arrow_type(kind.shape or kind)) if kind.json is None else nested_array(values, kind.json)


def typed_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of the columns.  A number is added to duplicate names."""
    names = distinct([name for name, _ in columns])
    return pa.schema([(name, arrow_type(kind.shape or kind)) for name, (_, kind) in zip(names, columns, strict=True)])
