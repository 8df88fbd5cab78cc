"""The reference: evaluate Q(s) by running the text of the query at every instant s. It shares no code with Weft.

The text reads the rows alive at s in place of the tables, and s in place of NOW(). Nothing else is changed. Rows are
compared as values (NULL = NULL).
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from oracle.engines import Engine, Row
from oracle.expressions import LAST

NOW = re.compile(r"\b(?:NOW\(\)|CURRENT_TIMESTAMP(?:\(\))?)", re.IGNORECASE)
TABLE = re.compile(r"(\bFROM \(*|\bJOIN \(*|, )(m|r|u)\b(?!\.)")
Answer = dict[int, frozenset[Row]]


@dataclass(frozen=True)
class Reference:
    """The answers at every instant -1 … LAST; time begins at 0: there is nothing before, constant rows neither."""

    answers: Answer

    def first(self, until: int = LAST + 1) -> dict[Row, int]:
        """The first instant of each row that was in the answer at some instant from 0 on, before ``until``."""
        found: dict[Row, int] = {}
        for s in range(until):
            for row in self.answers[s]:
                found.setdefault(row, s)
        return found

    def entering(self, since: int) -> dict[Row, int]:
        """Rows in Q(s) but not in Q(s⁻) at some s >= ``since``, with the first such s."""
        found: dict[Row, int] = {}
        for s in range(since, LAST + 1):
            for row in self.answers[s] - self.answers[s - 1]:
                found.setdefault(row, s)
        return found

    @property
    def changes(self) -> bool:
        """Whether the answer is another one some time after its first row was there."""
        shown = [self.answers[s] for s in range(LAST + 1)]
        there = next((s for s, rows in enumerate(shown) if rows), None)
        return there is not None and any(rows != shown[there] for rows in shown[there:])


def reference(engine: Engine, text: str) -> Reference:
    """Evaluates ``text`` at every instant at which it can change, over the tables that ``engine`` holds."""
    at, turns = over_views(text, engine), turning(text, engine.loaded)
    answers: Answer = {-1: frozenset()}
    for s in range(LAST + 1):
        answers[s] = frozenset(engine.at(at, s)) if s == 0 or s in turns else answers[s - 1]
    return Reference(answers)


def answer(engine: Engine, text: str, instant: int) -> frozenset[Row]:
    """Evaluates ``text`` at one instant, over the tables that ``engine`` holds."""
    return frozenset(engine.at(over_views(text, engine), instant))


def turning(text: str, rows: Mapping[str, Sequence[Row]]) -> Container[int]:
    """The instants at which the answer can change: where a row of its tables begins or ends, or all if it names NOW.

    >>> sorted(turning("SELECT k FROM m", {"m": [(1, 1, "a", None, True, 2, 5)], "u": [(1, 1, "a", None, True, 3, 4)]}))
    [2, 5]
    """
    if NOW.search(text):
        return range(LAST + 1)
    return {instant for name in TABLE.findall(text) for row in rows.get(name[1], ()) for instant in row[5:]}


def over_views(text: str, engine: Engine) -> str:
    """The text with every table of a FROM replaced by its rows at one instant, and NOW by that instant."""

    def seen(found: re.Match[str]) -> str:
        # An alias follows where there is AS or a word in lower case: the grammar writes keywords in capitals.
        aliased = re.match(r" (?:AS )?[a-z]", text[found.end() :])
        rows = engine.alive(found[2])
        return f"{found[1]}{rows}" if aliased else f"{found[1]}{rows} AS {found[2]}"

    return NOW.sub(engine.now, TABLE.sub(seen, text))
