"""Render temporal expressions and derivations in the paper's notation, for ``explain`` of a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.algebra.relation import Output
from weft.algebra.scalar import Call, ColumnRef, PeriodOf, Scalar, children, with_children
from weft.algebra.temporal import (
    Aggregation,
    Base,
    Constant,
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Measure,
    Projection,
    Selection,
    Semijoin,
    Temporal,
    TemporalJoin,
    TemporalUnion,
    attributes,
)
from weft.derivation.temporal.rules import DerivationStep, Dropped
from weft.sql import render


@dataclass(frozen=True)
class Words:
    """A renderer with short names, such as p, for some expressions and predicates."""

    names: Mapping[Temporal | Scalar, str] = field(default_factory=dict)

    def relation(self, relation: Temporal) -> str:
        """Return an expression in one line."""
        known = self.names.get(relation)
        if known is not None:
            return known
        match relation:
            case Base(alias=alias) | Constant(alias=alias):
                return alias
            case Deleted(base=base):
                return f"∇{self.relation(base)}"
            case Inserted(base=base):
                return f"Δ{self.relation(base)}"
            case TemporalUnion(left=left, right=right):
                return f"{self.relation(left)} ∪ {self._operand(right)}"
            case Difference(left=left, right=right):
                return f"{self.relation(left)} − {self._operand(right)}"
            case Semijoin():
                return self._semijoin(relation)
            case TemporalJoin(inputs=inputs, predicate=predicate):
                return f"⋈_{{{self.scalar(predicate)}}}({', '.join(map(self.relation, inputs))})"
            case _:
                return self._of_one(relation)

    def _of_one(self, relation: Selection | Projection | Extension | Aggregation | Fragment) -> str:
        """Return an operator with one input."""
        inner = self.relation(relation.input)
        match relation:
            case Selection(predicate=predicate):
                return f"σ_{{{self.scalar(predicate)}}}({inner})"
            case Projection() if _only_renames(relation):
                return f"ρ({inner})"
            case Projection(outputs=outputs):
                return f"π_{{{', '.join(map(self._output, outputs))}}}({inner})"
            case Extension(window=window, at=at):
                text = f"EX_{{{self.scalar(window)}}}({inner})"
                return text if at is None else f"[{text}]_t"
            case Aggregation(groups=groups, measures=measures):
                parts = (*map(self._output, groups), *map(self._measure, measures))
                return f"Π_{{{', '.join(parts)}}}({inner})"
            case Fragment(since=since):
                return f"FR_[{self.scalar(since)}, NOW]({inner})"

    def scalar(self, scalar: Scalar) -> str:
        """Return a predicate or value; AS_OF(r, :refreshed) is the period set of r at the last refresh."""
        known = self.names.get(scalar)
        return render.scalar(_spelled(scalar)) if known is None else known

    def _operand(self, relation: Temporal) -> str:
        text = self.relation(relation)
        compound = isinstance(relation, (TemporalUnion, Difference, Semijoin)) and relation not in self.names
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
        argument = "*" if measure.argument is None else self.scalar(measure.argument)
        return f"{measure.function.upper()}({argument}) AS {measure.output.column}"

    def step(self, step: DerivationStep) -> str:
        """Return an equation that was used, and its result."""
        of = [f"∇ = {self.relation(step.delta.deleted)}"] if step.delta.deleted is not None else []
        of += [f"Δ = {self.relation(step.delta.inserted)}"] if step.delta.inserted is not None else []
        return f"({step.rule}) {', '.join(of) or 'nothing'}"

    def dropped(self, dropped: Dropped) -> str:
        """Return a term that was dropped, and the reason."""
        why = ", ".join(part if isinstance(part, str) else self.scalar(part) for part in dropped.why)
        so = ": the term is empty" if dropped.whole else ""
        return f"({dropped.rule}) {dropped.term} never by {self.scalar(dropped.part)}, since {why}{so}"


def _only_renames(projection: Projection) -> bool:
    return tuple(output.value for output in projection.outputs) == attributes(projection.input)


def _spelled(scalar: Scalar) -> Scalar:
    if isinstance(scalar, PeriodOf) and scalar.at is not None:
        return Call("as_of", (PeriodOf(scalar.scan), scalar.at), scalar.type)
    parts = children(scalar)
    return with_children(scalar, tuple(map(_spelled, parts))) if parts else scalar
