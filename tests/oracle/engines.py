"""The two engines on which both sides of a law run: DuckDB, and SQLite as the arbiter where DuckDB is wrong itself.

SQL text comes in the dialect that Weft renders and users write (Spark's).  Only the few spellings that occur in the
grammar's class are turned, by replacement: that keeps the reference free of any parser that Weft itself uses.  Rows
come back with instants as microseconds on the grid.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
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

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        """Replaces the tables: columns k, n, x, d, f, ts, te."""

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        """Replaces a table of parameters; intervals and instants are integers."""

    def run(self, text: str, **instants: int) -> list[Row]:
        """The rows of a query; ``instants`` are what :names mean."""

    def alive(self, tables: Sequence[str], instant: int) -> None:
        """Makes the views <table>_at show what is alive at an instant, and NOW_AT mean that instant."""


class DuckDb:
    """DuckDB, with timestamps without a zone (all are UTC), one thread."""

    name = "duckdb"

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("PRAGMA disable_optimizer")
        for name, operator in TRIED.items():
            self.connection.execute(f"CREATE MACRO {name}(a, b) AS a {operator} b")

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
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
        return f"'{value}'" if isinstance(value, str) else str(value)

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        types = {"STRING": "VARCHAR"}
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

    def run(self, text: str, **instants: int) -> list[Row]:
        for name, value in instants.items():
            text = re.sub(rf":{name}\b", f"TIMESTAMP '{EPOCH + timedelta(microseconds=value)}'", text)
        text = (
            text.replace("<=>", "IS NOT DISTINCT FROM")
            .replace("`", '"')
            .replace("STARTSWITH(", "STARTS_WITH(")
            .replace("ENDSWITH(", "ENDS_WITH(")
        )
        rows = self.connection.execute(text).fetchall()
        return [tuple(_grid(value) for value in row) for row in rows]

    def alive(self, tables: Sequence[str], instant: int) -> None:
        now = f"TIMESTAMP '{EPOCH + timedelta(microseconds=instant)}'"
        views = [
            f"CREATE OR REPLACE VIEW {name}_at AS SELECT * FROM {name} "
            "WHERE ts <= getvariable('now_at') AND (te IS NULL OR getvariable('now_at') < te)"
            for name in tables
        ]
        script = [] if getattr(self, "_viewed", False) else views
        self._viewed = True
        self.connection.execute("; ".join([f"SET VARIABLE now_at = {now}", *script]))

    now = "getvariable('now_at')"


class Sqlite:
    """SQLite: every subquery is run as it stands, row by row; instants are plain integers."""

    name = "sqlite"
    now = "(SELECT s FROM clock)"

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("PRAGMA case_sensitive_like = 1")
        self.connection.execute("CREATE TABLE clock (s INT)")
        names = {"STARTSWITH": str.startswith, "ENDSWITH": str.endswith, "CONTAINS": str.__contains__}
        names |= {"TRY_ADD": int.__add__, "TRY_SUBTRACT": int.__sub__, "TRY_MULTIPLY": int.__mul__}
        for name, function in names.items():
            strict = lambda a, b, call=function: None if a is None or b is None else call(a, b)  # noqa: E731
            self.connection.create_function(name, 2, strict, deterministic=True)
        self.connection.create_function("GREATEST", -1, _greatest, deterministic=True)

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        for name, rows in tables.items():
            self.connection.execute(
                f"CREATE TABLE IF NOT EXISTS {name} (k INT, n INT, x TEXT, d INT, f INT, ts INT, te INT)"
            )
            self.connection.execute(f"DELETE FROM {name}")
            self.connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def parameters(self, name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
        types = {"STRING": "TEXT"}
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        shown = ", ".join(f"{column} {types.get(type, 'INT')}" for column, type in columns.items())
        self.connection.execute(f"CREATE TABLE {name} ({shown})")
        self.connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)

    def run(self, text: str, **instants: int) -> list[Row]:
        for name, value in instants.items():
            text = re.sub(rf":{name}\b", f"({value})", text)
        text = re.sub(r"INTERVAL '?(-?\d+)'? (?:MICROSECONDS?|DAY)", r"(\1)", text)  # DAY: only of 0
        text = re.sub(r"TIMESTAMP '([^']*)'", lambda found: f"({_micros(found[1])})", text)
        return [tuple(row) for row in self.connection.execute(text.replace("<=>", "IS")).fetchall()]

    def alive(self, tables: Sequence[str], instant: int) -> None:
        for name in tables:
            self.connection.execute(
                f"CREATE VIEW IF NOT EXISTS {name}_at AS SELECT t.* FROM {name} AS t, clock "
                "WHERE ts <= s AND (te IS NULL OR s < te)"
            )
        self.connection.execute("DELETE FROM clock")
        self.connection.execute("INSERT INTO clock VALUES (?)", (instant,))


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("+00:00", ""))
    return (moment - EPOCH) // timedelta(microseconds=1)


def _greatest(*values: Any) -> Any:
    """As Spark and DuckDB have it: NULLs are passed over."""
    return max((value for value in values if value is not None), default=None)


def _grid(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return value
