"""Render temporal expressions and derivations in the paper's notation, for ``explain`` of a view.

The module splits long expressions into short lines.  A part gets a name and its own line if it occurs twice or is long.

>>> from shown_temporal import ENDED, R
>>> from weft.algebra.relation import Select
>>> from weft.algebra.temporal import Difference
>>> whole = Select(R, ENDED)
>>> naming = Naming()
>>> naming.lines("V", Difference(R, Difference(R, whole)), "D")
['p1 is PERIOD_END(r) < NOW()', 'V = r − (r − σ_{p1}(r))']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.algebra.relation import Grouped, Join, Measure, Output, Project, Scan, Select, Union, Values
from weft.algebra.scalar import Call, ColumnRef, PeriodOf, Scalar, children, with_children
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Semijoin,
    Temporal,
    attributes,
    inputs,
    mentions_time,
)
from weft.derivation.temporal.rules import DerivationStep, Dropped
from weft.sql.rendering import render


@dataclass(frozen=True)
class Words:
    """A renderer of expressions with the short names in ``names``, such as p1."""

    names: Mapping[Temporal | Scalar, str] = field(default_factory=dict)

    def relation(self, relation: Temporal) -> str:
        """Return the text of an expression in one line."""
        known = self.names.get(relation)
        if known is not None:
            return known
        match relation:
            case Scan(alias=alias) | Values(alias=alias):
                return alias
            case Deleted(base=base):
                return f"∇{self.relation(base)}"
            case Inserted(base=base):
                return f"Δ{self.relation(base)}"
            case Union(inputs=parts):
                return " ∪ ".join((self.relation(parts[0]), *map(self._operand, parts[1:])))
            case Difference(left=left, right=right):
                return f"{self.relation(left)} − {self._operand(right)}"
            case Semijoin():
                return self._semijoin(relation)
            case Select(input=inner, predicate=predicate):
                sign = "⋈" if isinstance(inner, Join) else "σ"
                return f"{sign}_{{{self.scalar(predicate)}}}({', '.join(map(self.relation, inputs(relation)))})"
            case _:
                return self._of_one(relation)

    def _of_one(self, relation: Project[Temporal] | Extension | Grouped[Temporal] | Fragment) -> str:
        inner = self.relation(relation.input)
        match relation:
            case Project() if _only_renames(relation):
                return f"ρ({inner})"
            case Project(outputs=outputs):
                return f"π_{{{', '.join(map(self._output, outputs))}}}({inner})"
            case Extension(window=window, at=at):
                text = f"EX_{{{self.scalar(window)}}}({inner})"
                return text if at is None else f"[{text}]_t"
            case Grouped(groups=groups, measures=measures):
                parts = (*map(self._output, groups), *map(self._measure, measures))
                return f"Π_{{{', '.join(parts)}}}({inner})"
            case Fragment(since=since):
                return f"FR_[{self.scalar(since)}, NOW]({inner})"

    def scalar(self, scalar: Scalar) -> str:
        """Return the text of a predicate or value.  AS_OF(r, :refreshed) is the period set of ``r`` at the last
        refresh.
        """
        known = self.names.get(scalar)
        return render.scalar(_spelled(scalar)) if known is None else known

    def _operand(self, relation: Temporal) -> str:
        text = self.relation(relation)
        compound = isinstance(relation, (Union, Difference, Semijoin)) and relation not in self.names
        return f"({text})" if compound else text

    def _semijoin(self, relation: Semijoin) -> str:
        sides = (attributes(relation.left), attributes(relation.right))
        all_columns = len(sides[0]) == len(sides[1]) and relation.on == tuple(zip(*sides, strict=True))
        pairs = ", ".join(f"{self.scalar(left)} = {self.scalar(right)}" for left, right in relation.on)
        sign = "⋉" if all_columns else f"⋉_{{{pairs}}}"
        return f"{self._operand(relation.left)} {sign} {self._operand(relation.right)}"

    def _output(self, output: Output) -> str:
        if isinstance(output.value, ColumnRef) and output.value.column == output.name:
            return output.name
        return f"{self.scalar(output.value)} AS {output.name}"

    def _measure(self, measure: Measure) -> str:
        return f"{render.measure_text(measure, self.scalar)} AS {measure.output.column}"

    def step(self, step: DerivationStep) -> str:
        """Return the text of a derivation step, with the number of the equation and the result."""
        of = [f"∇ = {self.relation(step.delta.deleted)}"] if step.delta.deleted is not None else []
        of += [f"Δ = {self.relation(step.delta.inserted)}"] if step.delta.inserted is not None else []
        return f"({step.rule}) {', '.join(of) or 'nothing'}"

    def dropped(self, dropped: Dropped) -> str:
        """Return the text of a term that the derivation dropped, with the reason."""
        why = ", ".join(part if isinstance(part, str) else self.scalar(part) for part in dropped.why)
        so = ": the term is empty" if dropped.whole else ""
        return f"({dropped.rule}) {dropped.term} never by {self.scalar(dropped.part)}, because {why}{so}"


def _only_renames(projection: Project[Temporal]) -> bool:
    return tuple(output.value for output in projection.outputs) == attributes(projection.input)


def _spelled(scalar: Scalar) -> Scalar:
    if isinstance(scalar, PeriodOf) and scalar.at is not None:
        return Call("as_of", (PeriodOf(scalar.scan), scalar.at), scalar.type)
    parts = children(scalar)
    return with_children(scalar, tuple(map(_spelled, parts))) if parts else scalar


_WIDE: Final = 64
_SHORT: Final = 16
"""A part that occurs more than once gets a name if its text has more than this number of characters.

``_WIDE`` is the limit for a part that occurs once.
"""


class Naming:
    """The names of expressions and of predicates on time in one explanation."""

    def __init__(self) -> None:
        self._names: dict[Temporal | Scalar, str] = {}
        self._counts: Counter[str] = Counter()
        self._lines: list[str] = []

    def call(self, relation: Temporal, name: str) -> None:
        """Give the expression ``relation`` the name ``name``."""
        self._names[relation] = name

    def lines(self, label: str, relation: Temporal, prefix: str) -> list[str]:
        """Return a line for each new name in the expression, and then the line ``label = expression``.

        The name of a part is ``prefix`` with a number, and the name of a predicate is ``p`` with a number.
        """
        self._lines = []
        if relation not in self._names:
            self._name_parts(relation, prefix)
        return [*self._lines, f"{label} = {self.words.relation(relation)}"]

    def _name_parts(self, relation: Temporal, prefix: str) -> None:
        order, uses = _below(relation, self._names)
        for part in order:
            self._name_predicate(part)
            if part is relation or isinstance(part, (Scan, Deleted, Inserted, Values)):
                continue
            text = self.words.relation(part)
            if len(text) > (_WIDE if uses[part] == 1 else _SHORT):
                name = self._next(prefix)
                self._lines.append(f"{name} = {text}")
                self._names[part] = name

    def _name_predicate(self, part: Temporal) -> None:
        if not isinstance(part, Select) or part.predicate in self._names:
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
        """A renderer that uses these names."""
        return Words(self._names)


def _below(relation: Temporal, known: dict[Temporal | Scalar, str]) -> tuple[list[Temporal], Counter[Temporal]]:
    """Return the distinct parts of an expression, inner parts first, and the number of uses of each part."""
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
