"""Long expressions as short lines: a part that occurs twice, or would make a line long, is given a name and a line.

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
"""Characters from which on a part gets a name: of those that occur once, and of others."""


class Naming:
    """The names that one explanation has given so far, to expressions and to predicates that speak of time."""

    def __init__(self) -> None:
        self._names: dict[Temporal | Scalar, str] = {}
        self._counts: Counter[str] = Counter()
        self._lines: list[str] = []

    def call(self, relation: Temporal, name: str) -> None:
        """Gives an expression this name from now on."""
        self._names[relation] = name

    def lines(self, label: str, relation: Temporal, prefix: str) -> list[str]:
        """``label = expression``, after the lines that say what the names in it stand for, where those are new.

        Its parts are named ``prefix`` and a number, its predicates p and a number.
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
        """With these names."""
        return Words(self._names)


def _below(relation: Temporal, known: dict[Temporal | Scalar, str]) -> tuple[list[Temporal], Counter[Temporal]]:
    """An expression's parts, each once, what is below before what is above; and how often each is used."""
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
