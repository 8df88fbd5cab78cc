"""DuckDB with prepared texts: the reference runs one text at several instants of many histories.

The histories are *worlds*: rows of three tables with the number of their world.  A prepared text has the world as a
parameter, so that nothing is loaded between two histories.  The branches read the tables of one world alone.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from oracle.engines import EPOCH, DuckDb, Row, grid
from oracle.expressions import LAST
from oracle.grammar import TABLES
from oracle.histories import Case, History
from oracle.reference import over_views

NEEDED = {"filter_pushdown", "deliminator"}
"""The optimizers that the states of joins need.  The others take longer than they save."""
PROBED = (4, LAST)
"""Instants that tell whether a text has answers, and whether they change."""
COLUMNS = "k INT, n INT, x VARCHAR, d TIMESTAMP, f BOOLEAN, ts TIMESTAMP, te TIMESTAMP"

EXPLODED = re.compile(r"LATERAL EXPLODE(_OUTER)?\((SPLIT\((?:[^()]|\([^()]*\))*\))\) AS (\w+)\((\w+)\)")
MOST = 100_000
"""Characters of a statement that is not tried: DuckDB plans a longer one for minutes."""
ARRAYS = {"STRING": "VARCHAR", "INT": "INTEGER", "BIGINT": "BIGINT"}


class TooLong(Exception):
    """A statement that is not tried."""


class Prepared(DuckDb):
    """Keeps the tables of the grammar and replaces their rows, so that a prepared text stays valid."""

    now = "CAST($1 AS TIMESTAMP)"

    def __init__(self, worlds: Sequence[History] = ()) -> None:
        super().__init__()
        self.worlds = worlds
        self.read = ""
        """The text that is prepared."""
        self.seen: dict[tuple[int, int], list[Row]] = {}
        """Its rows, by world and instant."""
        self.world = -1
        """The world that the reference reads."""
        self.characters = 0
        """The length of all statements that made tables."""
        for name in TABLES:
            self.connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
            self.connection.execute(f"CREATE TABLE all_{name} ({COLUMNS}, world INT)")
        self.connection.execute("CREATE MACRO size(items) AS COALESCE(LEN(items), -1)")
        names = {name for (name,) in self.connection.execute("FROM duckdb_optimizers()").fetchall()}
        self.connection.execute(f"SET disabled_optimizers = '{','.join(sorted(names - NEEDED))}'")
        for number, world in enumerate(worlds):
            self._add(world.rows, number)
        self.connection.execute("CREATE MACRO unix_micros(x) AS epoch_us(x)")
        self.connection.execute("CREATE MACRO timestamp_micros(x) AS make_timestamp(x)")

    @staticmethod
    def translated(text: str) -> str:
        """The text with DuckDB's spelling of the types in FROM_JSON, too."""
        for spark, plain in ARRAYS.items():
            text = text.replace(f", 'ARRAY<{spark}>')", f", '[\"{plain}\"]')")
        return EXPLODED.sub(_unnested, DuckDb.translated(text))

    def load(self, tables: Mapping[str, Sequence[Row]]) -> None:
        self.connection.execute("; ".join(f"DELETE FROM all_{name} WHERE world = -1" for name in TABLES))
        self._add(tables, -1)
        self.seen.clear()
        self.world, self.loaded = -1, tables
        self.show(-1)

    def _add(self, tables: Mapping[str, Sequence[Row]], world: int) -> None:
        for name, rows in tables.items():
            shown = [[self._constant(value, place in (3, 5, 6)) for place, value in enumerate(row)] for row in rows]
            if shown:
                given = ", ".join(f"({', '.join(row)}, {world})" for row in shown)
                self.connection.execute(f"INSERT INTO all_{name} VALUES {given}")

    def look(self, world: int) -> None:
        """Let the reference read a world."""
        self.world, self.loaded = world, self.worlds[world].rows

    def show(self, world: int) -> None:
        """Fill the tables with the rows of a world."""
        self.connection.execute(
            "; ".join(
                f"DELETE FROM {name}; INSERT INTO {name} SELECT * EXCLUDE (world) FROM all_{name} WHERE world = {world}"
                for name in TABLES
            )
        )

    def alive(self, table: str) -> str:
        rows = f"SELECT * EXCLUDE (world) FROM all_{table} WHERE world = CAST($2 AS INT)"
        return f"({rows} AND ts <= {self.now} AND (te IS NULL OR {self.now} < te))"

    def table(self, name: str, text: str) -> int:
        """Raises TooLong for a statement of more than ``MOST`` characters."""
        if len(text) > MOST:
            raise TooLong(f"{len(text):,} characters")
        self.characters += len(text)
        return super().table(name, text)

    def at(self, text: str, instant: int) -> list[Row]:
        if text != self.read:
            # The states of joins need the optimizer, and the short texts of the reference are faster without it.
            self.connection.execute("PRAGMA disable_optimizer")
            self.connection.execute(f"PREPARE reading AS {self.translated(text)}")
            self.connection.execute("PRAGMA enable_optimizer")
            self.read = text
            self.seen.clear()
        if (self.world, instant) not in self.seen:
            self.seen[self.world, instant] = self._executed(text, instant)
        return self.seen[self.world, instant]

    def _executed(self, text: str, instant: int) -> list[Row]:
        values = []
        if "$1" in text:
            values.append(f"TIMESTAMP '{EPOCH + timedelta(microseconds=instant)}'")
        if "$2" in text:
            values.append(str(self.world))
        return self.rows(f"EXECUTE reading({', '.join(values)})" if values else "EXECUTE reading")

    def run(self, text: str, **instants: int) -> list[Row]:
        return [tuple(map(comparable, row)) for row in super().run(text, **instants)]

    def rows(self, text: str) -> list[Row]:
        return [tuple(map(comparable, row)) for row in self.connection.execute(text).fetchall()]


@dataclass(frozen=True)
class Probe:
    """A world, and what a text has in it at the instants PROBED."""

    world: int
    answered: bool
    """Whether there are answers."""
    changes: bool
    """Whether there are answers at the first instant, and others at the second."""


def informative_world(engine: Prepared, found: Case, tries: int) -> Probe:
    """Return the first of ``tries`` worlds in which the answers change, or else one with answers, or else any."""
    text, best = over_views(found.text.plain, engine), None
    numbers = random.Random(found.salt).sample(range(len(engine.worlds)), tries)
    for number in numbers:
        engine.look(number)
        early = frozenset(engine.at(text, PROBED[0]))
        if not early and best is not None:
            continue  # ``changes`` is false, and an earlier world has answers
        late = frozenset(engine.at(text, PROBED[1]))
        probe = Probe(number, bool(early or late), bool(early) and early != late)
        if probe.changes:
            return probe
        if best is None and probe.answered:
            best = probe
    return best or Probe(numbers[0], answered=False, changes=False)


def in_world(engine: Prepared, found: Case, world: int) -> Case:
    """Return the case over the history of a world, which the engine's tables then have."""
    engine.look(world)
    engine.show(world)
    return replace(found, history=engine.worlds[world])


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
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)  # the plain text counts microseconds
    return grid(value)
