"""Text and foreign types to Weft's, by DuckDB, exactly: what would have to be rounded or cut is no value of the type.

An expression here gives NULL where the value is not of the type; the caller tells that from a NULL in the file.
TIMESTAMP text without an offset is UTC, as the connection's zone is (design section 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa

from weft.algebra.schema import BOOLEAN, DOUBLE, STRING, DataType
from weft.instants import FIRST_INSTANT, LAST_INSTANT, format_full
from weft.storage.local_sql import quoted

_FIRST: Final = f"TIMESTAMPTZ '{format_full(FIRST_INSTANT)}+00'"
_LAST: Final = f"TIMESTAMPTZ '{format_full(LAST_INSTANT)}+00'"
_INTEGER: Final = "-?(0|[1-9][0-9]*)"
_NUMBER: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INSTANT: Final = _DAY + r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?))?)?"
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
    return from_text(_as_text(column, found), kind)


def _as_text(column: str, found: str) -> str:
    if found == "VARCHAR":
        return column
    if found == "BLOB":
        return f"to_base64({column})"
    if _is_nested(found):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def _is_nested(found: str) -> bool:
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
    if found.startswith("DECIMAL"):
        return DataType.parse(found)
    return DataType.parse(_FROM_DUCKDB.get(found, "STRING"))


Seen = Mapping[str, tuple[bool, frozenset[str]]]
"""Of each column whether it has a value, and which of the types that were possible still are."""


class Inference:
    """The narrowest type that holds every value of each text column, over any number of batches.

    BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, else STRING; a column without a value is STRING.  Whatever the type does
    not give back as it was written (leading zeros, 16 digits or more beyond BIGINT) is STRING.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._possible = dict.fromkeys(names, _ALL)
        self._filled: set[str] = set()

    def observe(self, connection: duckdb.DuckDBPyConnection, cells: pa.Table) -> None:
        """Takes in a batch: a VARCHAR column for each name (names that are new begin here)."""
        self.take(self.seen(connection, cells))

    def seen(self, connection: duckdb.DuckDBPyConnection, cells: pa.Table) -> Seen:
        """What a batch says of its columns, for ``take``.  It changes nothing here: threads may do so at once."""
        connection.register("cells", cells)
        try:
            return {name: _seen(connection, name, self._possible.get(name, _ALL)) for name in cells.column_names}
        finally:
            connection.unregister("cells")

    def take(self, seen: Seen) -> None:
        """Takes in what ``seen`` gave."""
        for name, (filled, held) in seen.items():
            self._possible[name] = self._possible.get(name, _ALL) & held
            if filled:
                self._filled.add(name)

    def types(self) -> Mapping[str, DataType]:
        """The type of each column seen."""
        return {name: self._type(name) for name in self._possible}

    def _type(self, name: str) -> DataType:
        if name not in self._filled:
            return STRING
        found = next((kind for kind in _TESTS if kind in self._possible[name]), None)
        return STRING if found is None else _INFERRED.get(found, DataType(found))


_INFERRED: Final = {"BOOLEAN": BOOLEAN, "DOUBLE": DOUBLE}
_EXACT_DIGITS: Final = 15
# In the order of preference.  A whole number in a DOUBLE column must be exact there.
_TESTS: Final = {
    "BOOLEAN": "({0} IS NULL OR lower({0}) IN ('true', 'false'))",
    "BIGINT": f"({{0}} IS NULL OR (regexp_full_match({{0}}, '{_INTEGER}') AND TRY_CAST({{0}} AS BIGINT) IS NOT NULL))",
    "DOUBLE": f"({{0}} IS NULL OR (regexp_full_match({{0}}, '{_NUMBER.replace('{', '{{').replace('}', '}}')}')"
    f" AND (length({{0}}) <= {_EXACT_DIGITS} OR regexp_matches({{0}}, '[.eE]'))))",
    "DATE": f"({{0}} IS NULL OR (regexp_full_match({{0}}, '{_DAY.replace('{', '{{').replace('}', '}}')}')"
    " AND TRY_CAST({0} AS DATE) IS NOT NULL))",
    "TIMESTAMP": f"({{0}} IS NULL OR (regexp_full_match({{0}}, '{_INSTANT.replace('{', '{{').replace('}', '}}')}')"
    " AND TRY_CAST({0} AS TIMESTAMPTZ) IS NOT NULL))",
}
_ALL: Final = frozenset(_TESTS)
# Where every value passes one of these, which are quick, it is known how the tests of all types come out: the value is
# written as DuckDB writes it.  A whole number may be a DOUBLE as well, a day a TIMESTAMP.
_QUICK: Final = {
    "BIGINT": "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}",
    "DATE": "CAST(TRY_CAST({0} AS DATE) AS VARCHAR) = {0} AND length({0}) = 10",
    "TIMESTAMP": "CAST(TRY_CAST({0} AS TIMESTAMP) AS VARCHAR) = {0} AND length({0}) BETWEEN 19 AND 26"
    " AND {0} LIKE '____-__-__ __:__:__%' AND {0} NOT LIKE '%)'",
}


def _seen(connection: duckdb.DuckDBPyConnection, name: str, possible: frozenset[str]) -> tuple[bool, frozenset[str]]:
    cell = quoted(name)
    quick = next((kind for kind in _QUICK if kind in possible), None)
    if quick is not None:
        test = f"bool_and(coalesce({_QUICK[quick].format(cell)}, {cell} IS NULL)), max(length({cell}))"
        [(values, held, longest)] = connection.execute(f"SELECT count({cell}), {test} FROM cells").fetchall()
        if values and held:
            also = {"BIGINT": "DOUBLE", "DATE": "TIMESTAMP"}.get(quick)
            fits = also is not None and (quick == "DATE" or longest <= _EXACT_DIGITS)
            return True, possible & ({quick, also} if fits else {quick})
    kinds = sorted(possible)
    tests = "".join(f", coalesce(bool_and({_TESTS[kind].format(cell)}), true)" for kind in kinds)
    [row] = connection.execute(f"SELECT count({cell}){tests} FROM cells").fetchall()
    return bool(row[0]), frozenset(kind for kind, held in zip(kinds, row[1:], strict=True) if held)
