"""Compute two hashes of a row with DuckDB's hash(): the hash of the key columns, and a checksum.

The hash of the key orders the rows of an arrangement. Columns are hashed by their bytes: text as bytes, instants and
dates as integers, decimals as 16 bytes. Hashes and checksums therefore do not depend on DuckDB's types. Key values that
Spark considers equal have equal hashes: -0.0 and 0.0, two NaNs, and two NULLs for `<=>`. Checksums distinguish -0.0
from 0.0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.storage.local_sql import thread_connection

_SAMPLES: Final = (
    "hash(42::TINYINT)",
    "hash(42::SMALLINT)",
    "hash(42::INTEGER)",
    "hash(-42::BIGINT)",
    "hash(true)",
    "hash('short'::BLOB)",
    "hash('longer than what is kept inline'::BLOB)",
    "hash(1.5::FLOAT)",
    "hash('NaN'::FLOAT)",
    "hash(0.0::DOUBLE)",
    "hash('NaN'::DOUBLE)",
    "hash(NULL::BIGINT)",
    "hash(NULL::BLOB, 1::BIGINT)",
    "hash(1::BIGINT, 'a'::BLOB, NULL::DOUBLE)",
    "hash(['a', NULL, 'longer than what is kept inline'])",
)


@functools.cache
def hash_version() -> str:
    """Return the hashes of fixed values as text. The text changes if DuckDB changes its hash function."""
    row = thread_connection().sql(f"SELECT {', '.join(_SAMPLES)}").fetchall()[0]
    return "duckdb:" + ",".join(f"{value:016x}" for value in row)


def is_supported(kind: pa.DataType) -> bool:
    """Return whether an arrangement supports columns of the type. Lists are supported, but not in the key."""
    types = pa.types
    return bool(
        types.is_signed_integer(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_boolean(kind)
        or types.is_date32(kind)
        or (types.is_timestamp(kind) and kind.unit == "us")
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal128(kind)
        or (types.is_list(kind) and types.is_string(kind.value_type))
    )


def key_and_row_hashes(batch: pa.RecordBatch, key: Sequence[int]) -> tuple[pa.Array, pa.Array]:
    """Return each row's key hash and checksum as UINT64 arrays. ``key`` contains the positions of the key columns."""
    columns = [_bytes_of(column) for column in batch.columns]
    carried = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    key_columns = [_key_form(batch.column(position)) for position in key]
    for at, column in enumerate(key_columns):
        carried = carried.append_column(f"k{at}", column)
    hashes = _computed(carried, f"{_key_hash(key_columns)} AS hash, {_row_hash(len(columns))} AS sum")
    return _one(hashes["hash"]), _one(hashes["sum"])


def row_checksums(batch: pa.RecordBatch) -> pa.Array:
    """Return the checksum of each row over all columns (UINT64)."""
    columns = [_bytes_of(column) for column in batch.columns]
    carried = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    return _one(_computed(carried, f"{_row_hash(len(columns))} AS sum")["sum"])


def key_hashes(keys: pa.RecordBatch) -> pa.Array:
    """Return the hash of each key (UINT64). All columns belong to the key."""
    columns = [_key_form(column) for column in keys.columns]
    table = pa.table(columns, names=[f"k{i}" for i in range(len(columns))])
    return _one(_computed(table, f"{_key_hash(columns)} AS hash")["hash"])


def distinct_hashes(keys: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the distinct hashes of the keys in ascending order.

    The second array has the index of one key for each hash. The third array has the number of keys for each hash.
    """
    hashes = key_hashes(keys)
    order = pc.array_sort_indices(hashes)
    hashes = hashes.take(order)
    differs = pc.not_equal(hashes.slice(1), hashes.slice(0, len(hashes) - 1))
    starts = pc.indices_nonzero(pa.concat_arrays([pa.array([True]), differs]))
    ends = pa.concat_arrays([starts.slice(1), pa.array([len(hashes)], starts.type)])
    return hashes.take(starts), order.take(starts), pc.subtract(ends, starts)


def _key_hash(columns: Sequence[pa.Array]) -> str:
    """Adding 0.0 changes -0.0 to 0.0."""
    terms = []
    for at, column in enumerate(columns):
        name = {pa.float32(): "FLOAT", pa.float64(): "DOUBLE"}.get(column.type)
        terms.append(f"CASE WHEN isnan(k{at}) THEN 'NaN'::{name} ELSE k{at} + 0.0::{name} END" if name else f"k{at}")
    return f"hash({', '.join(terms)})"


def _row_hash(columns: int) -> str:
    return f"hash({', '.join(f'c{i}' for i in range(columns))})"


def _key_form(column: pa.Array) -> pa.Array:
    return column if pa.types.is_floating(column.type) else _bytes_of(column)


def _bytes_of(column: pa.Array) -> pa.Array:
    """Reinterpret the column with a type that DuckDB reads as bytes or integers."""
    kind = column.type
    if pa.types.is_string(kind):
        return column.view(pa.binary())
    if pa.types.is_decimal(kind):
        return column.view(pa.binary(16))
    if pa.types.is_timestamp(kind) or pa.types.is_float64(kind):
        return column.view(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_float32(kind):
        return column.view(pa.int32())
    return column


def _computed(table: pa.Table, expressions: str) -> Any:
    """Compute SQL expressions over a table. Registering the table first would take longer."""
    return thread_connection().from_arrow(table).project(expressions).to_arrow_table()


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
