"""Text and foreign types to Weft's, by DuckDB, exactly: what would have to be rounded or cut is no value of the type.

An expression here gives NULL where the value is not of the type; the caller tells that from a NULL in the file.
TIMESTAMP text without an offset is UTC, as the connection's zone is (design section 1).
"""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import DataType
from weft.instants import FIRST_INSTANT, LAST_INSTANT, format_full

_FIRST: Final = f"TIMESTAMPTZ '{format_full(FIRST_INSTANT)}+00'"
_LAST: Final = f"TIMESTAMPTZ '{format_full(LAST_INSTANT)}+00'"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SIZES: Final = {"TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT"}

_FROM_DUCKDB: Final = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "BLOB": "BINARY",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}


def from_text(cell: str, kind: DataType) -> str:
    """An expression of the type (BINARY from base64) from one of VARCHAR; NULL where the text is not of the type.

    It begins, where there is one, with a way that is several times as quick, for text as it is mostly written.
    """
    slow, name = exactly_from_text(cell, kind), kind.name
    if name in _SIZES:
        quick = f"TRY_CAST({cell} AS {_SIZES[name]})"
        return f"CASE WHEN CAST({quick} AS VARCHAR) = {cell} THEN {quick} ELSE {slow} END"
    if name == "TIMESTAMP":
        # It knows neither offsets nor zones, so what it gives has to be the text; that of TIMESTAMPTZ asks ICU.
        quick = f"TRY_CAST({cell} AS TIMESTAMP)"
        instant = f"make_timestamptz(epoch_us({quick}))"
        return f"CASE WHEN CAST({quick} AS VARCHAR) = {cell} THEN {_in_range(instant)} ELSE {slow} END"
    if name in ("FLOAT", "DOUBLE"):
        return f"COALESCE(TRY_CAST({cell} AS {duckdb_type(kind)}), {slow})"
    return slow


def exactly_from_text(cell: str, kind: DataType) -> str:
    """What ``from_text`` gives, as it is defined."""
    bare = f"trim({cell})"
    name = kind.name
    if name in _SIZES:
        return f"CASE WHEN regexp_full_match({bare}, '[+-]?[0-9]+') THEN TRY_CAST({bare} AS {_SIZES[name]}) END"
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


def from_typed(column: str, found: str, kind: DataType) -> str:
    """An expression of the type from a column of DuckDB's type ``found``; NULL where the value is not of it."""
    if weft_type(found) == kind:
        if kind.name == "TIMESTAMP":
            return _in_range(f"TRY_CAST({column} AS TIMESTAMPTZ)")
        if kind.name != "STRING":
            return f"TRY_CAST({column} AS {duckdb_type(kind)})"
    return from_text(as_text(column, found), kind)


def as_text(column: str, found: str) -> str:
    """An expression of a column of DuckDB's type ``found`` as text, as ``from_text`` reads it."""
    if found == "VARCHAR":
        return column
    if found == "BLOB":
        return f"to_base64({column})"
    if is_nested(found):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def is_nested(found: str) -> bool:
    """Whether values of DuckDB's type ``found`` are made of others, so that they are stored as JSON text."""
    return found.endswith("]") or found.startswith(("STRUCT", "MAP", "UNION"))


def _in_range(instant: str) -> str:
    """Leaves out infinities and years that Spark does not print."""
    return f"CASE WHEN {instant} BETWEEN {_FIRST} AND {_LAST} THEN {instant} END"


def duckdb_type(kind: DataType) -> str:
    """DuckDB's name of a type that Weft stores."""
    names = {"STRING": "VARCHAR", "INT": "INTEGER", "TIMESTAMP": "TIMESTAMPTZ", "BINARY": "BLOB"}
    return names.get(kind.name, str(kind))


def weft_type(found: str) -> DataType:
    """The type in which a Parquet column of DuckDB's type ``found`` is stored; what Weft lacks is STRING (nested:
    JSON).

    Nanoseconds are cut to microseconds.
    """
    if found.startswith("DECIMAL") and not is_nested(found):
        return DataType.parse(found)
    return DataType.parse(_FROM_DUCKDB.get(found, "STRING"))
