"""Build SQL expressions of DuckDB that cast text and foreign types to Weft's types without loss.

An expression returns NULL for a value that would be rounded or truncated. The caller distinguishes this NULL from a
NULL in the file. TIMESTAMP text without an offset is UTC, the time zone of the connection (design section 1).
"""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import INTEGRAL, DataType
from weft.instants import FIRST_INSTANT, LAST_INSTANT, format_full
from weft.storage.type_table import TYPES

_FIRST: Final = f"TIMESTAMPTZ '{format_full(FIRST_INSTANT)}+00'"
_LAST: Final = f"TIMESTAMPTZ '{format_full(LAST_INSTANT)}+00'"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FROM_DUCKDB: Final = {name: kind for kind, row in TYPES.items() for name in (row.duckdb, *row.also)}
_TOO_LARGE: Final = {"UBIGINT": "DECIMAL(20,0)", "HUGEINT": "DECIMAL(38,0)"}
"""Integer types of DuckDB that are larger than BIGINT."""


def from_text(cell: str, kind: DataType) -> str:
    """Return an SQL expression that casts text to the type, or is NULL if the text does not fit.

    BINARY is read from base64. For most types, a faster cast that accepts only the usual notation is tried first.
    """
    slow, name = exactly_from_text(cell, kind), kind.name
    if name in INTEGRAL:
        quick = f"TRY_CAST({cell} AS {duckdb_type(kind)})"
        return f"CASE WHEN CAST({quick} AS VARCHAR) = {cell} THEN {quick} ELSE {slow} END"
    if name == "TIMESTAMP":
        # The cast to TIMESTAMP ignores offsets and zones. Use the result of the cast only if its text equals the cell.
        # A cast to TIMESTAMPTZ is slow, because it calls ICU.
        quick = f"TRY_CAST({cell} AS TIMESTAMP)"
        instant = f"make_timestamptz(epoch_us({quick}))"
        return f"CASE WHEN CAST({quick} AS VARCHAR) = {cell} THEN {_in_range(instant)} ELSE {slow} END"
    if name in ("FLOAT", "DOUBLE"):
        return f"COALESCE(TRY_CAST({cell} AS {duckdb_type(kind)}), {slow})"
    return slow


def exactly_from_text(cell: str, kind: DataType) -> str:
    """Return the expression of ``from_text`` without the faster cast."""
    bare = f"trim({cell})"
    name = kind.name
    if name in INTEGRAL:
        return f"CASE WHEN regexp_full_match({bare}, '[+-]?[0-9]+') THEN TRY_CAST({bare} AS {duckdb_type(kind)}) END"
    if name == "DECIMAL":
        exact = rf"[+-]?[0-9]+(\.[0-9]{{0,{kind.scale}}}0*)?"
        return f"CASE WHEN regexp_full_match({bare}, '{exact}') THEN TRY_CAST({bare} AS {duckdb_type(kind)}) END"
    if name == "DATE":
        return f"CASE WHEN regexp_full_match({bare}, '{_DAY}') THEN TRY_CAST({bare} AS DATE) END"
    if name == "TIMESTAMP":
        return _in_range(f"TRY_CAST({bare} AS TIMESTAMPTZ)")
    if name == "BINARY":
        return f"TRY(from_base64({cell}))"
    return cell if name == "STRING" else f"TRY_CAST({bare} AS {duckdb_type(kind)})"


def from_typed(column: str, duckdb_name: str, kind: DataType) -> str:
    """Return an SQL expression that casts a column from the DuckDB type ``duckdb_name`` to ``kind``.

    The value of the expression is NULL if the cast is impossible.
    """
    if weft_type(duckdb_name) == kind:
        if kind.name == "TIMESTAMP":
            return _in_range(f"TRY_CAST({column} AS TIMESTAMPTZ)")
        if kind.name != "STRING":
            return f"TRY_CAST({column} AS {duckdb_type(kind)})"
    return from_text(as_text(column, duckdb_name), kind)


def as_text(column: str, duckdb_name: str) -> str:
    """Return an SQL expression that converts a column of the DuckDB type ``duckdb_name`` to text for ``from_text``."""
    if duckdb_name == "VARCHAR":
        return column
    if duckdb_name == "BLOB":
        return f"to_base64({column})"
    if is_nested(duckdb_name):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def is_nested(duckdb_name: str) -> bool:
    """Return whether the DuckDB type ``duckdb_name`` is nested. Nested values are stored as JSON text."""
    return duckdb_name.endswith("]") or duckdb_name.startswith(("STRUCT", "MAP", "UNION"))


def _in_range(instant: str) -> str:
    """Return an SQL expression that is NULL for infinities and for years that Spark cannot print."""
    return f"CASE WHEN {instant} BETWEEN {_FIRST} AND {_LAST} THEN {instant} END"


def duckdb_type(kind: DataType) -> str:
    """Return DuckDB's name of the Weft type ``kind``."""
    return str(kind) if kind.name == "DECIMAL" else TYPES[kind.name].duckdb


def weft_type(duckdb_name: str) -> DataType:
    """Return the Weft type that stores a Parquet column of the DuckDB type ``duckdb_name``.

    A type without an equivalent becomes STRING. Nested types become JSON text. Nanoseconds are truncated.
    """
    if duckdb_name.startswith("DECIMAL") and not is_nested(duckdb_name):
        return DataType.parse(duckdb_name)
    return DataType.parse(_TOO_LARGE.get(duckdb_name) or _FROM_DUCKDB.get(duckdb_name, "STRING"))
