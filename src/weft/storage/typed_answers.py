"""A query's answers as typed Arrow rows: ``_ordinal BIGINT, _first_at TIMESTAMP, _tick BIGINT``, then its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import pyarrow as pa

from weft.algebra.schema import BIGINT, TIMESTAMP, DataType
from weft.catalog.naming import distinct
from weft.catalog.records import FIRST_AT, ORDINAL
from weft.storage.columns import arrow_type
from weft.storage.ledger import ResultRow
from weft.storage.nested import nested_array
from weft.storage.values import Value

Columns: TypeAlias = Sequence[tuple[str, DataType]]

OWN: Final[Columns] = ((ORDINAL, BIGINT), (FIRST_AT, TIMESTAMP), ("_tick", BIGINT))
"""The columns that answers have before those of their query."""
_PIECE: Final = 10_000
"""Rows that are held as Python's values at once."""


def answers_schema(columns: Columns) -> pa.Schema:
    """The Arrow columns of answers, nested ones too; a name that is there already, in any case, gets a number.

    >>> answers_schema([("a", BIGINT), ("A", TIMESTAMP)]).names
    ['_ordinal', '_first_at', '_tick', 'a', 'A_2']
    """
    return _schema((*OWN, *columns))


def answers_table(columns: Columns, rows: Iterable[ResultRow]) -> pa.Table:
    """The answers, in their order; all of them are held in memory.

    Instants are microseconds UTC, also those beyond the years that Python has.
    """
    return typed_table((*OWN, *columns), ((row.ordinal, row.first_at, row.tick, *row.values) for row in rows))


def typed_table(columns: Columns, rows: Iterable[tuple[Value, ...]]) -> pa.Table:
    """The rows, in their order, under the names of these columns, one that is there already with a number."""
    schema, left, pieces = _schema(columns), iter(rows), []
    while some := list(islice(left, _PIECE)):
        arrays = [_array(values, kind) for values, (_, kind) in zip(zip(*some, strict=True), columns, strict=True)]
        pieces.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(pieces, schema)


def _array(values: Sequence[Any], kind: DataType) -> pa.Array:
    return pa.array(values, arrow_type(kind)) if kind.shape is None else nested_array(values, kind.shape)


def _schema(columns: Columns) -> pa.Schema:
    names = distinct([name for name, _ in columns])
    return pa.schema([(name, arrow_type(kind.shape or kind)) for name, (_, kind) in zip(names, columns, strict=True)])
