"""Split long expressions into short lines: a part that occurs twice, or is long, gets a name and its own line.

>>> from shown_temporal import ENDED, R
>>> from weft.algebra.temporal import Difference, Selection
>>> whole = Selection(R, ENDED)
>>> naming = Naming()
>>> naming.lines("V", Difference(R, Difference(R, whole)), "D")
['p1 is PERIOD_END(r) < NOW()', 'V = r − (r − σ_{p1}(r))']
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from weft.algebra.scalar import Scalar
from weft.algebra.temporal import (
    Base,
    Constant,
    Deleted,
    Inserted,
    Selection,
    Temporal,
    TemporalJoin,
    inputs,
    mentions_time,
)
from weft.planning.temporal_words import Words

_WIDE: Final = 64
_SHORT: Final = 16
"""The most characters of a part without a name: if it occurs once, and if it occurs more often."""


class Naming:
    """The names of expressions and of predicates on time in one explanation."""

    def __init__(self) -> None:
        self._names: dict[Temporal | Scalar, str] = {}
        self._counts: Counter[str] = Counter()
        self._lines: list[str] = []

    def call(self, relation: Temporal, name: str) -> None:
        """Name an expression."""
        self._names[relation] = name

    def lines(self, label: str, relation: Temporal, prefix: str) -> list[str]:
        """Return ``label = expression``, preceded by the definitions of new names in it.

        Parts are named ``prefix`` and a number, predicates p and a number.
        """
        self._lines = []
        if relation not in self._names:
            self._name_parts(relation, prefix)
        return [*self._lines, f"{label} = {self.words.relation(relation)}"]

    def _name_parts(self, relation: Temporal, prefix: str) -> None:
        order, uses = _below(relation, self._names)
        for part in order:
            self._name_predicate(part)
            if part is relation or isinstance(part, (Base, Deleted, Inserted, Constant)):
                continue
            text = self.words.relation(part)
            if len(text) > (_WIDE if uses[part] == 1 else _SHORT):
                name = self._next(prefix)
                self._lines.append(f"{name} = {text}")
                self._names[part] = name

    def _name_predicate(self, part: Temporal) -> None:
        if not isinstance(part, (Selection, TemporalJoin)) or part.predicate in self._names:
            return
        if mentions_time(part.predicate):
            text = self.words.scalar(part.predicate)
            name = self._names[part.predicate] = self._next("p")
            self._lines.append(f"{name} is {text}")

    def _next(self, prefix: str) -> str:
        self._counts[prefix] += 1
        return f"{prefix}{self._counts[prefix]}"

    @property
    def words(self) -> Words:
        """The rendering of expressions with these names."""
        return Words(self._names)


def _below(relation: Temporal, known: dict[Temporal | Scalar, str]) -> tuple[list[Temporal], Counter[Temporal]]:
    """Return the parts of an expression, each once and inner ones first, and how often each is used."""
    order: list[Temporal] = []
    uses: Counter[Temporal] = Counter()
    waiting: list[tuple[Temporal, bool]] = [(relation, False)]
    seen: set[Temporal] = set()
    while waiting:
        part, done = waiting.pop()
        if done:
            order.append(part)
            continue
        uses[part] += 1
        if part in seen or part in known:
            continue
        seen.add(part)
        waiting.append((part, True))
        waiting.extend((below, False) for below in reversed(inputs(part)))
    return order, uses
