"""Sort the new answers of a query by first instant, then by the columns of the select list, then by hash.

Columns are compared by value: numbers as numbers, instants and dates by time, texts by code points. Binary values are
compared byte by byte, and false comes before true. NULL comes first. NaN comes after all other numbers. -0.0 equals
0.0. Values of other types are compared as stored text. Arrow sorts answers in the driver's memory, and DuckDB or
Spark sorts the others. All three give the same order.

The keys of ORDER BY (``sort_key``) sort answers for a reader. They compare values in the same way.

Answers have the ledger's general form. In the general form, ``row`` is an array of strings (``storage.values``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.algebra.sort_key import Key

if TYPE_CHECKING:
    from pyspark.sql import Column

Columns: TypeAlias = Mapping[int, Sequence[DataType]]
"""Maps each query ID to the types of the query's columns."""
Kinds: TypeAlias = tuple[str, ...]
"""Spark's names for the types of a query's columns."""

_COMPARED: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "TIMESTAMP", "DATE"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    "BINARY": "BINARY",
}
_HERE: Final = ["query_id", "first_at"]


def kinds_of(columns: Columns) -> dict[Kinds, list[int]]:
    """Map each combination of column types (``Kinds``) to the IDs of the queries with these types."""
    by_kinds: dict[Kinds, list[int]] = {}
    for query_id, types in columns.items():
        by_kinds.setdefault(tuple(map(_kind, types)), []).append(query_id)
    return by_kinds


def _kind(type_: DataType) -> str:
    if type_.name == "DECIMAL":
        return f"DECIMAL(38,{type_.scale})"
    return _COMPARED.get(type_.name, "STRING")


def in_order(rows: pa.Table, columns: Columns) -> pa.Table:
    """Sort the rows by query ID, then in the order that the module docstring describes."""
    by_hash = [(name, "ascending") for name in (*_HERE, "row_hash")]
    ordered = rows.sort_by(by_hash).combine_chunks()
    tied = _tied(ordered)
    places = pc.indices_nonzero(tied).cast(pa.int64())
    if not len(places):
        return ordered
    # Few answers have the same first instant. Compare the values of these answers only.
    among = ordered.take(places)
    staying = pc.indices_nonzero(pc.invert(tied)).cast(pa.int64())
    to, origin = [staying], [staying]
    for kinds, queries in kinds_of(columns).items():
        own = pc.is_in(among.column("query_id"), value_set=pa.array(queries, pa.int64()))
        here = places.filter(own.combine_chunks() if isinstance(own, pa.ChunkedArray) else own)
        to.append(here)
        origin.append(here.take(_sorted_places(among.filter(own).combine_chunks(), kinds)))
    moves = pa.table({"to": pa.concat_arrays(to), "origin": pa.concat_arrays(origin)}).sort_by("to")
    return ordered.take(moves.column("origin")).combine_chunks()


def by_keys(rows: pa.Table, types: Sequence[DataType], keys: Sequence[Key]) -> pa.Table:
    """Sort the rows of query 0 by ``keys``, and rows with equal keys as ``in_order`` does."""
    ordered = in_order(rows, {0: types})
    if not keys or not rows.num_rows:
        return ordered
    texts, compared, order = ordered.column("row").combine_chunks(), dict[str, pa.Array](), list[tuple[str, str]]()
    for number, key in enumerate(keys):
        own = pc.list_element(texts, key.column)
        values = {f"{number}{part}": each for part, each in _keys(own, _kind(types[key.column])).items()}
        compared |= {f"{number} is there": pc.is_valid(own), **values}
        order.append((f"{number} is there", "ascending" if key.nulls_first else "descending"))
        order += [(name, "descending" if key.descending else "ascending") for name in values]
    return ordered.take(pc.sort_indices(pa.table(compared), sort_keys=order))  # a stable sort


def _tied(ordered: pa.Table) -> pa.Array:
    """Return, for each row, whether an adjacent row has the same query and instant."""
    number = ordered.num_rows
    if number < 2:
        return pa.repeat(pa.scalar(False), number)
    same = pa.repeat(pa.scalar(True), number - 1)
    for name in _HERE:
        column = ordered.column(name)
        same = pc.and_(same, pc.equal(column.slice(1), column.slice(0, number - 1)))
    flat = same.combine_chunks() if isinstance(same, pa.ChunkedArray) else same
    edge = pa.array([False])
    return pc.or_(pa.concat_arrays([edge, flat]), pa.concat_arrays([flat, edge]))


def _sorted_places(rows: pa.Table, kinds: Kinds) -> pa.Array:
    keys = {name: rows.column(name) for name in _HERE}
    texts = rows.column("row").combine_chunks()
    for number, kind in enumerate(kinds):
        if rows.num_rows:
            own = pc.list_element(texts, number)
            keys[f"{number} is there"] = pc.is_valid(own)  # NULL first, independent of Arrow's own rule
            keys |= {f"{number}{part}": key for part, key in _keys(own, kind).items()}
    keys["row_hash"] = rows.column("row_hash")
    order = [(name, "ascending") for name in keys]
    return pc.sort_indices(pa.table(keys), sort_keys=order)


def _keys(texts: pa.Array, kind: str) -> dict[str, pa.Array]:
    if kind == "DOUBLE":
        # Arrow sorts NaN next to NULL, and -0.0 before 0.0. Adding 0.0 turns -0.0 into 0.0.
        numbers = pc.add(pc.cast(texts, pa.float64()), 0.0)
        odd = pc.is_nan(numbers)
        return {" is NaN": odd, "": pc.if_else(odd, pa.scalar(0.0), numbers)}
    if kind == "BINARY":
        values = (None if text is None else base64.b64decode(text) for text in texts.to_pylist())
        return {"": pa.array(values, pa.binary())}
    if kind == "STRING":
        return {"": texts}
    if kind == "BIGINT":
        return {"": pc.cast(texts, pa.int64())}
    return {"": pc.cast(texts, pa.decimal128(38, int(kind.removesuffix(")").rpartition(",")[2])))}


def spark_order(kinds: Iterable[Kinds], kind: str | None = None) -> list[str]:
    """Return SQL sort expressions over ``row`` for rows with the same first instant. Spark puts NULL first.

    If there are several ``kinds``, the column ``kind`` of a row is an index into ``kinds``.
    """
    known = list(kinds)
    order = []
    for place in range(max(map(len, known), default=0)):
        compared: dict[str, list[int]] = {}
        for number, each in enumerate(known):
            if place < len(each):
                compared.setdefault(each[place], []).append(number)
        for as_type, numbers in compared.items():
            value = _typed(_SPARK, f"GET(`row`, {place})", as_type)
            if kind is not None and len(numbers) < len(known):
                value = f"CASE WHEN {kind} IN ({', '.join(map(str, numbers))}) THEN {value} END"
            order.append(value)
    return [*order, "row_hash"]


def spark_keys(types: Sequence[DataType], keys: Sequence[Key]) -> list[Column]:
    """Return the sort expressions of ``keys`` over ``row``."""
    from pyspark.sql import functions as F

    columns = []
    for key in keys:
        value = F.expr(_typed(_SPARK, f"GET(`row`, {key.column})", _kind(types[key.column])))
        nulls = "nulls_first" if key.nulls_first else "nulls_last"
        columns.append(getattr(value, f"{'desc' if key.descending else 'asc'}_{nulls}")())
    return columns


def duckdb_keys(types: Sequence[DataType], keys: Sequence[Key]) -> list[str]:
    """Return DuckDB's sort expressions of ``keys`` over ``row``."""
    return [
        f"{_typed(_DUCKDB, f'row[{key.column + 1}]', _kind(types[key.column]))} {'DESC' if key.descending else 'ASC'} "
        f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    ]


def _typed(forms: Mapping[str, str], text: str, as_type: str) -> str:
    """Return SQL for the value of a stored text. ``forms`` has the SQL for the types that a cast does not compare."""
    return forms.get(as_type, "TRY_CAST({} AS {})").format(text, as_type)


_SPARK: Final = {"STRING": "{}", "BINARY": "UNBASE64({})", "DOUBLE": "(TRY_CAST({} AS DOUBLE) + 0.0D)"}
_DUCKDB: Final = {"STRING": "{}", "BINARY": "FROM_BASE64({})", "DOUBLE": "(TRY_CAST({} AS DOUBLE) + 0.0)"}
