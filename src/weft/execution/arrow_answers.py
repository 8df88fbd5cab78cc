"""Compute new answers in the driver's memory: remove duplicates and known answers, then number the rest.

The module uses Arrow only, without Spark jobs and files. The tables have the ledger's general form:
``query_id BIGINT, first_at TIMESTAMP, row_hash BINARY, row ARRAY<STRING>``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from weft.execution.ordering import Columns, in_order
from weft.storage.ledger import Added, ledger_schema

_KEY = ["query_id", "row_hash"]


def each_once(rows: pa.Table) -> pa.Table:
    """Remove duplicate rows of each query, and give each row its earliest instant."""
    ordered = rows.sort_by([("query_id", "ascending"), ("row_hash", "ascending"), ("first_at", "ascending")])
    return ordered.filter(_begins(ordered, _KEY)).combine_chunks()


def without_known(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Return the rows whose (query_id, row_hash) is not in ``known``."""
    if not rows.num_rows or not known.num_rows:
        return rows
    # Join row positions, because Arrow cannot join tables that have list columns.
    places = rows.select(_KEY).append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    new = places.join(known.select(_KEY), keys=_KEY, join_type="left anti").column("place")
    return rows.take(new)


def added(rows: pa.Table) -> dict[int, Added]:
    """Map each query ID to the number of the query's rows and the last instant of these rows."""
    counted = _by_query(rows, [("first_at", "count"), ("first_at", "max")])
    return {
        key: Added(number, last)
        for key, number, last in zip(
            counted.column("query_id").to_pylist(),
            counted.column("first_at_count").to_pylist(),
            counted.column("first_at_max").to_pylist(),
            strict=True,
        )
    }


def first_instants(rows: pa.Table) -> dict[int, int]:
    """Map each query ID to the first instant of the query's rows in microseconds."""
    least = _by_query(rows, [("first_at", "min")])
    return dict(zip(least.column("query_id").to_pylist(), least.column("first_at_min").to_pylist(), strict=True))


def numbered(rows: pa.Table, before: Mapping[int, int], columns: Columns, tick_id: int) -> pa.Table:
    """Number the rows of each query in the order of ``execution.ordering``, and return the rows in the ledger's form.

    ``before`` is the number of earlier answers of each query. ``columns`` has the column types of each query.
    """
    ordered = in_order(rows, columns)
    places = pa.array(range(ordered.num_rows), pa.int64())
    begins = _begins(ordered, ["query_id"])
    first = pc.cumulative_max(pc.if_else(begins, places, pa.scalar(0, pa.int64())))
    known = pa.array(list(before.values()), pa.int64())
    own = known.take(pc.index_in(ordered.column("query_id"), value_set=pa.array(list(before), pa.int64())))
    ordinal = pc.add(pc.add(pc.subtract(places, first), own), pa.scalar(1, pa.int64()))
    columns_by_name = {name: ordered.column(name) for name in ordered.column_names}
    columns_by_name |= {"ordinal": ordinal, "tick": pa.repeat(pa.scalar(tick_id, pa.int64()), ordered.num_rows)}
    schema = ledger_schema()
    return pa.table({name: columns_by_name[name] for name in schema.names}).cast(schema)


def _begins(ordered: pa.Table, names: list[str]) -> pa.Array:
    """Return, for each row, whether the row is the first or differs from the previous row in one of the columns."""
    if not ordered.num_rows:
        return pa.array([], pa.bool_())
    differs = pa.repeat(pa.scalar(False), ordered.num_rows - 1)
    for name in names:
        column = ordered.column(name)
        differs = pc.or_(differs, pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    rest = differs.combine_chunks() if isinstance(differs, pa.ChunkedArray) else differs
    return pa.concat_arrays([pa.array([True]), rest])


def _by_query(rows: pa.Table, wanted: list[tuple[str, str]]) -> pa.Table:
    micros = rows.select(["query_id"]).append_column("first_at", rows.column("first_at").cast(pa.int64()))
    return micros.group_by("query_id").aggregate(wanted)
