"""Map Weft's types to Arrow's, for rows that Weft sends and for rows that Weft stores without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.storage.type_table import TYPES

INSTANT: Final = TYPES["TIMESTAMP"].arrow


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a Weft type. A nested type becomes the type of its JSON text."""
    match kind:
        case DataType(name="DECIMAL"):
            return pa.decimal128(kind.precision, kind.scale)
        case DataType(name="STRUCT"):
            return pa.struct([(name, arrow_type(each)) for name, each in kind.fields])
        case DataType(name="MAP", key=DataType() as key, element=DataType() as element):
            return pa.map_(arrow_type(key), arrow_type(element))
        case DataType(name="ARRAY", element=DataType() as element):
            return pa.list_(arrow_type(element))
        case DataType(name="INTERVAL"):
            return pa.duration("us")
        case _:
            return TYPES[kind.name].arrow


def stored_schema(table: TableSchema, names: Iterable[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of the table, in the table's order. All columns are nullable.

    ``names`` selects columns. The comparison of names ignores case.
    """
    wanted = None if names is None else {name.lower() for name in names}
    columns = [column for column in table.columns if wanted is None or column.name.lower() in wanted]
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def spelled(schema: pa.Schema, name: str) -> str:
    """Return the name of the column ``name`` as the schema has it. The schema must have it, in any case of letters."""
    folded = name.lower()
    return next(str(each) for each in schema.names if each.lower() == folded)


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert the rows to ``schema``. A missing column becomes NULL.

    Dictionaries, views and large strings become plain types. Raise ValueError (from Arrow) if a value is out of range
    or if ``schema`` lacks a column.
    """
    other = [name for name in rows.column_names if name not in schema.names]
    if other:
        raise ValueError(f"there is no column {', '.join(other)}")
    return pa.table([_column(rows, field) for field in schema], schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> Any:
    if field.name not in rows.column_names:
        return pa.nulls(rows.num_rows, field.type)
    return rows.column(field.name).cast(field.type)


def instants(names: Iterable[str], schema: pa.Schema) -> list[str]:
    """Return ``names`` and the names of the schema's timestamp columns, without duplicates."""
    return list(dict.fromkeys([*names, *(field.name for field in schema if pa.types.is_timestamp(field.type))]))
