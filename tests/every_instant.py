"""Evaluate the text of a query in DuckDB at every instant at which its answer can change, to check law 1.

The module shares no code with Weft. To evaluate a query at the instant s, it replaces each table by a view of the rows
with ts <= s, and NOW() by s.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]
_EPOCH = dt.datetime(1970, 1, 1)
_NOW = re.compile(r"\bNOW\(\)", re.IGNORECASE)


class Timeline:
    """Tables with a column ts, evaluated at one instant after the other. Instants are in microseconds UTC."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        """``tables`` are Arrow tables. Instants with a time zone are converted to UTC."""
        self.connection = duckdb.connect(config={"threads": 2})
        self.connection.execute("CREATE SCHEMA stored; SET VARIABLE now_at = TIMESTAMP '1970-01-01'")
        for name, data in tables.items():
            self.connection.register("given", _without_zones(data))
            self.connection.execute(f"CREATE TABLE stored.{name} AS SELECT * FROM given")
            self.connection.unregister("given")
            self.connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM stored.{name} WHERE ts <= getvariable('now_at')"
            )

    def at(self, text: str, instant: int) -> set[Row]:
        """Return the result of the query at ``instant``."""
        moment = _EPOCH + dt.timedelta(microseconds=instant)
        self.connection.execute(f"SET VARIABLE now_at = TIMESTAMP '{moment}'")
        found = self.connection.execute(_NOW.sub("getvariable('now_at')", text)).fetchall()
        return {tuple(map(_micros, row)) for row in found}

    def first(self, text: str, instants: Iterable[int]) -> dict[Row, int]:
        """Map each row that is in the result at one of the instants to the first such instant."""
        found: dict[Row, int] = {}
        for instant in sorted(set(instants)):
            for row in self.at(text, instant):
                found.setdefault(row, instant)
        return found

    def entering(self, text: str, instants: Iterable[int], since: int) -> dict[Row, int]:
        """Map each row that enters the result at ``since`` or later to the first such instant."""
        found: dict[Row, int] = {}
        before: set[Row] = set()
        for instant in sorted(set(instants)):
            now = self.at(text, instant)
            if instant >= since:
                for row in now - before:
                    found.setdefault(row, instant)
            before = now
        return found

    def instants(self, moments: Mapping[str, Sequence[str]], until: int, shifts: Sequence[int] = (0,)) -> list[int]:
        """Return every instant before ``until`` at which a result can change.

        ``moments`` maps tables to columns. The instants are the values of these columns, moved by ``shifts``, and the
        microsecond after each.
        """
        found = set()
        for table, columns in moments.items():
            for column in columns:
                times = self.connection.execute(f"SELECT DISTINCT {column} FROM stored.{table}").fetchall()
                found |= {
                    _micros(time) + shift + one for (time,) in times if time for shift in shifts for one in (0, 1)
                }
        return sorted(instant for instant in found if instant < until)


def _micros(value: Any) -> Any:
    return (value - _EPOCH) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value


def _without_zones(data: pa.Table) -> pa.Table:
    plain = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in data.schema
    ]
    return data.cast(pa.schema(plain))
