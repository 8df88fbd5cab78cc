"""DuckDB with prepared texts: the reference runs one text at ten instants over many histories."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from oracle.engines import EPOCH, DuckDb, Row, grid
from oracle.grammar import TABLES

COLUMNS = "k INT, n INT, x VARCHAR, d TIMESTAMP, f BOOLEAN, ts TIMESTAMP, te TIMESTAMP"

EXPLODED = re.compile(r"LATERAL EXPLODE(_OUTER)?\((SPLIT\([^()]*\))\) AS (\w+)\((\w+)\)")
ARRAYS = {"STRING": "VARCHAR", "INT": "INTEGER", "BIGINT": "BIGINT"}


class Prepared(DuckDb):
    """Keeps the tables of the grammar and replaces their rows, so that a prepared text stays valid."""

    now = "CAST($1 AS TIMESTAMP)"

    def __init__(self) -> None:
        super().__init__()
        self.read = ""
        for name in TABLES:
            self.connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
        self.connection.execute("CREATE MACRO size(items) AS COALESCE(LEN(items), -1)")
        self.connection.execute("CREATE MACRO unix_micros(x) AS epoch_us(x)")
        self.connection.execute("CREATE MACRO timestamp_micros(x) AS make_timestamp(x)")

    @staticmethod
    def translated(text: str) -> str:
        """The text with DuckDB's spelling of the types in FROM_JSON, too."""
        for spark, plain in ARRAYS.items():
            text = text.replace(f", 'ARRAY<{spark}>')", f", '[\"{plain}\"]')")
        return EXPLODED.sub(_unnested, DuckDb.translated(text))

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        script = []
        for name, rows in tables.items():
            script.append(f"DELETE FROM {name}")
            if rows:
                shown = (
                    f"({', '.join(self._constant(value, place in (3, 5, 6)) for place, value in enumerate(row))})"
                    for row in rows
                )
                script.append(f"INSERT INTO {name} VALUES {', '.join(shown)}")
        self.connection.execute("; ".join(script))

    def at(self, text: str, instant: int) -> list[Row]:
        if text != self.read:
            # The states of joins need the optimizer, and the short texts of the reference are faster without it.
            self.connection.execute("PRAGMA disable_optimizer")
            self.connection.execute(f"PREPARE reading AS {self.translated(text)}")
            self.connection.execute("PRAGMA enable_optimizer")
            self.read = text
        if "$1" not in text:
            return self.rows("EXECUTE reading")
        return self.rows(f"EXECUTE reading(TIMESTAMP '{EPOCH + timedelta(microseconds=instant)}')")

    def run(self, text: str, **instants: int) -> list[Row]:
        return [tuple(map(comparable, row)) for row in super().run(text, **instants)]

    def rows(self, text: str) -> list[Row]:
        return [tuple(map(comparable, row)) for row in self.connection.execute(text).fetchall()]


def _unnested(found: re.Match[str]) -> str:
    outer, items, alias, column = found.groups()
    listed = f"COALESCE({items}, [NULL])" if outer else items
    return f"LATERAL (SELECT UNNEST({listed}) AS {column}) AS {alias}"


def comparable(value: Any) -> Any:
    """A value that equals itself and that both ways of adding DOUBLEs give.

    >>> comparable(float("nan")), comparable(0.1 + 0.2), comparable([1, None])
    ('NaN', 0.3, '[1,null]')
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))  # an answer has an array as JSON text
    return grid(value)
