"""The reference: Q(s) by running the query's own text at every instant.  It shares no code with Weft.

Tables are replaced by views of the rows alive at s, NOW() by s, nothing else.  Rows are told apart as values (NULL =
NULL).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oracle.engines import Engine, Row
from oracle.grammar import LAST, TABLES

NOW = re.compile(r"\b(?:NOW\(\)|CURRENT_TIMESTAMP(?:\(\))?)", re.IGNORECASE)
TABLE = re.compile(r"(\bFROM |\bJOIN |, )(m|r|u)\b(?!\.)")
Answer = dict[int, frozenset[Row]]


@dataclass(frozen=True)
class Reference:
    """The answers at every instant 0 … LAST."""

    answers: Answer

    def first(self, until: int = LAST + 1) -> dict[Row, int]:
        """The first instant of each row that was in the answer at some instant before ``until``."""
        found: dict[Row, int] = {}
        for s in range(until):
            for row in self.answers[s]:
                found.setdefault(row, s)
        return found

    def entering(self, since: int) -> dict[Row, int]:
        """Rows in Q(s) but not in Q(s⁻) at some s >= ``since``, with the first such s."""
        found: dict[Row, int] = {}
        for s in range(since, LAST + 1):
            for row in self.answers[s] - self.answers.get(s - 1, frozenset()):
                found.setdefault(row, s)
        return found


def reference(engine: Engine, text: str) -> Reference:
    """Evaluates ``text`` at every instant over the tables that ``engine`` holds."""
    at = over_views(text, engine.now)
    answers: Answer = {}
    for s in range(LAST + 1):
        engine.alive(TABLES, s)
        answers[s] = frozenset(engine.run(at))
    return Reference(answers)


def over_views(text: str, now: str) -> str:
    """The text with every table of a FROM replaced by its view at one instant, and NOW by that instant."""

    def seen(found: re.Match[str]) -> str:
        # An alias follows where there is AS or a word in lower case: the grammar writes keywords in capitals.
        aliased = re.match(r" (?:AS )?[a-z]", text[found.end() :])
        return f"{found[1]}{found[2]}_at" if aliased else f"{found[1]}{found[2]}_at AS {found[2]}"

    return NOW.sub(now, TABLE.sub(seen, text))
