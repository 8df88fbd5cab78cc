"""Random histories, and whole cases: a query, a history over which its answer changes, and a partition into ticks.

Time is a grid of microseconds. Rows begin at 0 … LAST, so every threshold and the instant after it are on the grid.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from oracle.engines import Engine
from oracle.expressions import LAST
from oracle.grammar import TABLES, query
from oracle.reference import Reference, reference
from oracle.spelling import Text, folded

COLUMNS: Final = {"k": "INT", "n": "INT", "x": "STRING", "d": "TIMESTAMP", "f": "BOOLEAN", "ts": "TIMESTAMP"}
TRIES: Final = 60
"""Histories that are drawn for a query, to find one in which it has answers that come and go."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """Rows by table: k, n, x, d, f, ts, te; instants are microseconds on the grid; ``te`` None: not ended."""

    rows: dict[str, tuple[Row, ...]]
    ending: tuple[str, ...]
    """The tables whose rows can end."""


@dataclass(frozen=True)
class Case:
    """A query, a history and a partition of [0, LAST] into ticks; ``salt`` drives what else is chosen at random."""

    text: Text
    history: History
    cuts: tuple[int, ...]
    salt: int


def history(chance: random.Random) -> History:
    """Rows of the three tables: NULLs, duplicates, equal instants, and in some histories rows that end."""
    ending: tuple[str, ...] = chance.choice([(), (), TABLES, TABLES, ("r",), ("m", "u")])
    rows = {}
    for table in TABLES:
        found = [_row(chance, table in ending) for _ in range(chance.choice([0, 1, 2, 3, 4, 5]))]
        if found and chance.random() < 0.3:
            found.append(found[0])  # a duplicate
        rows[table] = tuple(found)
    return History(rows, ending)


def _row(chance: random.Random, ends: bool) -> Row:
    start = chance.randint(0, LAST)
    return (
        chance.choice([1, 0, 2, None, 1, 0, 1]),
        chance.choice([1, 0, 2, None, 1, 0, 1]),
        chance.choice(["a", "b", "ab", None, "a", "a"]),
        chance.choice([*range(-1, LAST + 1), None, None]),
        chance.choice([True, False, None]),
        start,
        chance.randint(start + 1, LAST + 1) if ends and chance.random() < 0.6 else None,
    )


def case(chance: random.Random, draw: Callable[[random.Random], Text] = query) -> Case:
    """A query over a history."""
    text, cuts = draw(chance), sorted(chance.randint(0, LAST + 1) for _ in range(chance.choice([0, 1, 2, 2])))
    return Case(text, history(chance), tuple(cuts), chance.randrange(2**16))


def distinct_cases(start: int, count: int, draw: Callable[[random.Random], Text] = query) -> Iterator[Case]:
    """As many cases, no two of whose texts are the same when constants and aliases are left out."""
    seen: set[str] = set()
    number = start
    while len(seen) < count:
        found = case(random.Random(number), draw)
        number += 1
        if (shape := folded(found.text.spark)) not in seen:
            seen.add(shape)
            yield found


def informative_case(engine: Engine, found: Case, tries: int = TRIES) -> tuple[Case, Reference]:
    """Return the case over a history in which the answer loses a row, and the reference.

    If none of ``tries`` histories is one, return a case whose answer has a row, or else any.  ``engine`` then has the
    tables of the reference.
    """
    best: tuple[int, History, Reference] | None = None
    chance = random.Random(found.salt)
    for attempt in range(tries):
        tried = found.history if attempt == 0 else history(chance)
        engine.load(tried.rows)
        seen = reference(engine, found.text.plain)
        worth = bool(seen.first()) + 2 * seen.changes
        if best is None or worth > best[0]:
            best = worth, tried, seen
        if worth == 3:
            break
    assert best is not None
    engine.load(best[1].rows)
    return replace(found, history=best[1]), best[2]
