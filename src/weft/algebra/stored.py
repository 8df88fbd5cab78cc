"""Serialize a query to JSON after name resolution, and read the query back.

The JSON identifies tables and columns by id.  A new column or a new name therefore does not change the meaning of an
installed query.  ``FORMAT`` is the version of this JSON format.

Each node is a JSON list: the name of the class, then the values of the fields in order.  A type is serialized as text,
followed by its declared form if the column stores it in another form: an interval as a number, and JSON as text.

Format 1 has no declared forms.  A query without such columns still has format 1, so that its signature stays the same.
In format 3, ``Copy`` stands for a later ``Materialized`` with the same input, and contains the number of the input
(from 0).  Formats 1 and 2 write each copy in full.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final, cast

from weft.algebra import relation as relations
from weft.algebra import scalar as scalars
from weft.algebra.relation import Materialized, Query, Scan
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import Column, DataType, TableSchema
from weft.algebra.traverse import scans
from weft.errors import DerivationError

FORMAT: Final = 3
"""The newest format: with ``Copy``."""

TableKey = tuple[str, int]
"""The key of a table: its kind (``TableSchema.source``) and its id."""

_RELATIONS: Final = (
    "Values",
    "Join",
    "Select",
    "Output",
    "Project",
    "Union",
    "Distinct",
    "Grouped",
    "Measure",
    "SortKey",
    "Frame",
    "WindowFunction",
    "Windowed",
    "Unnest",
    "Materialized",
    "Recurrence",
    "Recursive",
    "Query",
)
_PREDICATES: Final = ("Plain", "And", "Or", "NowFrom", "NowBefore", "Turns", "Exists", "NotExists")
_SCALARS: Final = ("Literal", "Param", "Now", "PeriodOf", "Element", "Call", "Cast", "Case")
_CLASSES: Final[dict[str, Any]] = {
    **{name: getattr(relations, name) for name in (*_RELATIONS, *_PREDICATES)},
    **{name: getattr(scalars, name) for name in _SCALARS},
    "Column": Column,
}


def stored(query: Query, format: int = FORMAT) -> str:
    """Serialize the query to JSON text of at most the given format.  Equal queries have equal texts.

    Raise DerivationError for a query with FOR SYSTEM_TIME.
    """
    tables = {scan.alias: scan.table for scan in scans(query)}
    listed = {alias: [table.source, table.id] for alias, table in tables.items()}
    encoded = _encoded(query, tables, {} if format == FORMAT else None)
    needed = FORMAT if _has(encoded, _is_copy) else 2 if _has(encoded, _is_declared) else 1
    body = {"format": needed, "tables": listed, "query": encoded}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def restored(text: str, tables: Mapping[TableKey, TableSchema]) -> Query:
    """Read a query from JSON text.  ``tables`` contains the current schemas of the query's tables.

    Raise DerivationError for another format, for a missing table or column, or for a column of another type.
    """
    body = json.loads(text)
    if body.get("format") not in range(1, FORMAT + 1):
        raise DerivationError(
            f"the stored query has format {body.get('format')}, but this version of Weft reads up to {FORMAT}"
        )
    bound: dict[str, TableSchema] = {}
    for alias, (source, table_id) in body["tables"].items():
        table = tables.get((source, table_id))
        if table is None:
            raise DerivationError(f"the stored query reads a {source} with id {table_id}, which does not exist")
        bound[alias] = table
    return cast("Query", _decoded(body["query"], bound, []))


def _encoded(part: Any, tables: Mapping[str, TableSchema], shared: dict[Any, int] | None) -> Any:
    """``shared`` numbers the inputs of ``Materialized``.  It is None if each copy is written in full."""
    match part:
        case Materialized() if shared is not None:
            return _encoded_once(part, tables, shared)
        case Scan(whole=True):
            raise DerivationError("a query over the history of a table (FOR SYSTEM_TIME) cannot be installed")
        case Scan(alias=alias):
            return ["Scan", alias]
        case ColumnRef(scan=scan, column=column) if scan in tables:
            column_schema = tables[scan].column(column)
            assert column_schema is not None
            return ["Stored", scan, column_schema.id, str(part.type)]
        case ColumnRef(scan=scan, column=column):
            return ["Derived", scan, column, *_type_texts(part.type)]
        case DataType():
            return ["Type", *_type_texts(part)]
        case _:
            return encoded_value(part, lambda each: _encoded(each, tables, shared))


def encoded_value(part: Any, encoded: Callable[[Any], Any], left_out: Collection[tuple[str, object]] = ()) -> Any:
    """Return a plain value, a tuple or a node as a JSON value.  ``encoded`` returns the parts as JSON values.

    A field with a value is left out if ``left_out`` contains the pair of its name and the value.
    """
    match part:
        case Decimal():
            return ["Decimal", str(part)]
        case bytes():
            return ["Bytes", part.hex()]
        case float():
            return ["Float", repr(part)]
        case tuple():
            return ["Tuple", *map(encoded, part)]
        case None | bool() | int() | str():
            return part
        case _:
            values = ((field.name, getattr(part, field.name)) for field in fields(part))
            return [type(part).__name__, *(encoded(value) for name, value in values if (name, value) not in left_out)]


def _encoded_once(part: Materialized, tables: Mapping[str, TableSchema], shared: dict[Any, int]) -> list[Any]:
    if part.input in shared:
        return ["Copy", shared[part.input], part.alias]
    form = _encoded(part.input, tables, shared)
    shared[part.input] = len(shared)
    return ["Materialized", form, part.alias]


def _type_texts(kind: DataType) -> list[str]:
    return [str(kind)] if kind.shape is None else [str(kind), kind.declared]


def _type(text: str, declared: str = "") -> DataType:
    return DataType.of_column(declared) if declared else DataType.of_expression(text)


def _has(form: Any, found: Callable[[list[Any]], bool]) -> bool:
    return isinstance(form, list) and (found(form) or any(_has(part, found) for part in form[1:]))


def _is_declared(form: list[Any]) -> bool:
    return len(form) - 1 == {"Type": 2, "Derived": 4}.get(form[0])


def _is_copy(form: list[Any]) -> bool:
    return bool(form[0] == "Copy")


def _decoded(form: Any, tables: Mapping[str, TableSchema], shared: list[Any]) -> Any:
    if not isinstance(form, list):
        return form
    kind, *parts = form
    read: dict[str, Callable[..., Any]] = {
        "Scan": lambda alias: Scan(tables[alias], alias),
        "Stored": lambda scan, column_id, type_: _column(tables[scan], scan, column_id, type_),
        "Derived": lambda scan, column, *texts: ColumnRef(scan, column, _type(*texts)),
        "Type": _type,
        "Copy": lambda number, alias: Materialized(shared[number], alias),
    }
    if kind in read:
        return read[kind](*parts)
    made = decoded_value(form, _CLASSES, lambda part: _decoded(part, tables, shared))
    if kind == "Materialized" and made.input not in shared:
        shared.append(made.input)
    return made


def decoded_value(form: list[Any], classes: Mapping[str, Any], decoded: Callable[[Any], Any]) -> Any:
    """Read what ``encoded_value`` returned as a list.  ``classes`` has the classes of the nodes by name.

    Raise DerivationError for a class that is not in ``classes``.
    """
    kind, *parts = form
    plain: dict[str, Callable[[str], Any]] = {"Decimal": Decimal, "Bytes": bytes.fromhex, "Float": float}
    if kind in plain:
        return plain[kind](*parts)
    values = tuple(map(decoded, parts))
    if kind == "Tuple":
        return values
    if kind not in classes:
        raise DerivationError(f"the stored definition has a part {kind!r} that this version of Weft does not know")
    return classes[kind](*values)


def _column(table: TableSchema, scan: str, column_id: int, type_: str) -> ColumnRef:
    for column in table.columns:
        if column.id == column_id:
            if str(column.type) != type_:
                raise DerivationError(
                    f"{table.name}.{column.name} is {column.type}, but the stored query reads {type_}"
                )
            return ColumnRef(scan, column.name, column.type)
    raise DerivationError(f"{table.name} has no column with id {column_id}, which the stored query reads")
