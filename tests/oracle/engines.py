"""The two engines that run both sides of a law: DuckDB, and SQLite to decide where DuckDB itself is wrong.

SQL text is in the dialect that Weft renders and users write (Spark's). Only the few spellings that the grammar uses are
translated, by text replacement, so the reference needs no parser that Weft uses. Instants in rows are microseconds on
the grid.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

import duckdb

EPOCH = datetime(2000, 1, 1)
GRID = 946_684_800_000_000
"""Microseconds from 1970 to the grid's 0."""
TRIED = {"TRY_ADD": "+", "TRY_SUBTRACT": "-", "TRY_MULTIPLY": "*"}
"""Spark's arithmetic that is NULL where there is no result; the grid's numbers are small."""
Row = tuple[Any, ...]


class Engine(Protocol):
    """Runs SQL over tables whose instants are on the grid."""

    name: str
    loaded: Mapping[str, Sequence[Row]]
    """The rows of the tables."""

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        """Replaces the tables: columns k, n, x, d, f, ts, te."""

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        """Replaces a table of parameters; intervals and instants are integers."""

    def run(self, text: str, **instants: int) -> list[Row]:
        """The rows of a query; ``instants`` are what :names mean."""

    now: str
    """How the instant of ``at`` is written."""

    def alive(self, table: str) -> str:
        """How a table's rows at the instant of ``at`` are written."""

    def at(self, text: str, instant: int) -> list[Row]:
        """The rows of a query at an instant."""


class DuckDb:
    """DuckDB, with timestamps without a zone (all are UTC), one thread."""

    name = "duckdb"

    def __init__(self) -> None:
        self.loaded: Mapping[str, Sequence[Row]] = {}
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("PRAGMA disable_optimizer")
        for name, operator in TRIED.items():
            self.connection.execute(f"CREATE MACRO {name}(a, b) AS a {operator} b")

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        self.loaded = tables
        script = []
        for name, rows in tables.items():
            script.append(
                f"CREATE OR REPLACE TABLE {name} "
                "(k INT, n INT, x VARCHAR, d TIMESTAMP, f BOOLEAN, ts TIMESTAMP, te TIMESTAMP)"
            )
            if rows:
                shown = ", ".join(
                    f"({', '.join(self._constant(v, i in (3, 5, 6)) for i, v in enumerate(r))})" for r in rows
                )
                script.append(f"INSERT INTO {name} VALUES {shown}")
        self.connection.execute("; ".join(script))

    @staticmethod
    def _constant(value: Any, instant: bool) -> str:
        if value is None:
            return "NULL"
        if instant:
            return f"TIMESTAMP '{EPOCH + timedelta(microseconds=value)}'"
        return repr(list(value)) if isinstance(value, tuple) else f"'{value}'" if isinstance(value, str) else str(value)

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        types = {"STRING": "VARCHAR", "ARRAY<STRING>": "VARCHAR[]", "ARRAY<INT>": "INT[]"}
        shown = ", ".join(f"{column} {types.get(type, type)}" for column, type in columns.items())
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({shown})")
        for row in rows:
            values = []
            for value, type in zip(row, columns.values(), strict=True):
                values.append(
                    f"INTERVAL '{value}' MICROSECOND"
                    if type == "INTERVAL"
                    else self._constant(value, type == "TIMESTAMP")
                )
            self.connection.execute(f"INSERT INTO {name} VALUES ({', '.join(values)})")

    def table(self, name: str, text: str) -> int:
        """Replaces a table by the rows of a query; how many they are."""
        made = self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {self.translated(text)}").fetchall()
        return int(made[0][0])

    def run(self, text: str, **instants: int) -> list[Row]:
        for name, value in instants.items():
            text = re.sub(rf":{name}\b", f"TIMESTAMP '{EPOCH + timedelta(microseconds=value)}'", text)
        rows = self.connection.execute(self.translated(text)).fetchall()
        return [tuple(grid(value) for value in row) for row in rows]

    @staticmethod
    def translated(text: str) -> str:
        """The text with the few spellings that DuckDB does not have replaced."""
        return (
            text.replace("<=>", "IS NOT DISTINCT FROM")
            .replace("`", '"')
            .replace("STARTSWITH(", "STARTS_WITH(")
            .replace("ENDSWITH(", "ENDS_WITH(")
            .replace("MIN_BY(", "ARG_MIN_NULL(")  # a row whose value is NULL counts in Spark
            .replace("MAX_BY(", "ARG_MAX_NULL(")
        )

    def alive(self, table: str) -> str:
        return f"(SELECT * FROM {table} WHERE ts <= {self.now} AND (te IS NULL OR {self.now} < te))"

    def at(self, text: str, instant: int) -> list[Row]:
        self.connection.execute(f"SET VARIABLE now_at = TIMESTAMP '{EPOCH + timedelta(microseconds=instant)}'")
        return self.run(text)

    now = "getvariable('now_at')"


class Sqlite:
    """SQLite: it runs every subquery as written, for each row. Instants are integers."""

    name = "sqlite"
    now = ":s"

    def __init__(self) -> None:
        self.loaded: Mapping[str, Sequence[Row]] = {}
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("PRAGMA case_sensitive_like = 1")
        self.read: dict[str, str] = {}
        names = {"STARTSWITH": str.startswith, "ENDSWITH": str.endswith, "CONTAINS": str.__contains__}
        names |= {"TRY_ADD": int.__add__, "TRY_SUBTRACT": int.__sub__, "TRY_MULTIPLY": int.__mul__}
        names |= {"ARRAY_CONTAINS": lambda items, value: value in json.loads(items)}
        for name, function in names.items():
            strict = lambda a, b, call=function: None if a is None or b is None else call(a, b)  # noqa: E731
            self.connection.create_function(name, 2, strict, deterministic=True)
        self.connection.create_function("GREATEST", -1, _greatest, deterministic=True)

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        self.loaded = tables
        for name, rows in tables.items():
            self.connection.execute(
                f"CREATE TABLE IF NOT EXISTS {name} (k INT, n INT, x TEXT, d INT, f INT, ts INT, te INT)"
            )
            self.connection.execute(f"DELETE FROM {name}")
            self.connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        types = {"STRING": "TEXT", "ARRAY<STRING>": "TEXT", "ARRAY<INT>": "TEXT"}
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        shown = ", ".join(f"{column} {types.get(type, 'INT')}" for column, type in columns.items())
        self.connection.execute(f"CREATE TABLE {name} ({shown})")
        self.connection.executemany(
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", map(_bindable, rows)
        )

    def run(self, text: str, **instants: int) -> list[Row]:
        for name, value in instants.items():
            text = re.sub(rf":{name}\b", f"({value})", text)
        return self.connection.execute(_plain(text)).fetchall()

    def alive(self, table: str) -> str:
        return f"(SELECT * FROM {table} WHERE ts <= {self.now} AND (te IS NULL OR {self.now} < te))"

    def at(self, text: str, instant: int) -> list[Row]:
        if text not in self.read:
            self.read = {text: _plain(text)}
        return self.connection.execute(self.read[text], {"s": instant}).fetchall()


def _plain(text: str) -> str:
    """Intervals and instants as numbers."""
    text = re.sub(r"INTERVAL '?(-?\d+)'? (?:MICROSECONDS?|DAY)", r"(\1)", text)  # DAY: only of 0
    text = re.sub(r"TIMESTAMP '([^']*)'", lambda found: f"({_micros(found[1])})", text)
    return text.replace("<=>", "IS")


def _bindable(row: Row) -> Row:
    def one(value: Any) -> Any:
        return json.dumps(value) if isinstance(value, tuple) else float(value) if isinstance(value, Decimal) else value

    return tuple(map(one, row))


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("+00:00", ""))
    return (moment - EPOCH) // timedelta(microseconds=1)


def _greatest(*values: Any) -> Any:
    """As Spark and DuckDB have it: NULLs are passed over."""
    return max((value for value in values if value is not None), default=None)


def grid(value: Any) -> Any:
    """An instant in microseconds from the grid's 0; any other value as it is."""
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return value
