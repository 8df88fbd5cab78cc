"""A query's answers as typed Arrow rows: ``_ordinal BIGINT, _first_at TIMESTAMP, _tick BIGINT``, then its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from weft.algebra.schema import BIGINT, TIMESTAMP, DataType
from weft.catalog.naming import distinct
from weft.catalog.records import FIRST_AT, ORDINAL
from weft.storage.columns import arrow_type
from weft.storage.ledger import ResultRow

Columns: TypeAlias = Sequence[tuple[str, DataType]]

_OWN: Final[Columns] = ((ORDINAL, BIGINT), (FIRST_AT, TIMESTAMP), ("_tick", BIGINT))


def answers_schema(columns: Columns) -> pa.Schema:
    """The Arrow columns of answers; a name that is there already, in any case, gets a number.

    >>> answers_schema([("a", BIGINT), ("A", TIMESTAMP)]).names
    ['_ordinal', '_first_at', '_tick', 'a', 'A_2']
    """
    names = distinct([name for name, _ in (*_OWN, *columns)])
    kinds = [arrow_type(kind) for _, kind in (*_OWN, *columns)]
    return pa.schema(list(zip(names, kinds, strict=True)))


def answers_table(columns: Columns, rows: Iterable[ResultRow]) -> pa.Table:
    """The answers, in their order; all of them are held in memory.

    Instants are microseconds UTC, also those beyond the years that Python has.
    """
    schema = answers_schema(columns)
    values = [(row.ordinal, row.first_at, row.tick, *row.values) for row in rows]
    by_column = zip(*values, strict=True) if values else ((),) * len(schema)
    arrays = [pa.array(each, field.type) for each, field in zip(by_column, schema, strict=True)]
    return pa.table(arrays, schema=schema)
