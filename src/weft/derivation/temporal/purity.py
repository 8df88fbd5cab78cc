"""Make deltas pure before an operator whose predicate mentions period sets (Theorem 4.3), and record the step."""

from __future__ import annotations

from weft.algebra.temporal import Temporal
from weft.derivation.temporal.delta import Delta, plus, pure
from weft.derivation.temporal.rules import DerivationTrace, operands


def purified(operator: Temporal, deltas: tuple[Delta, ...], trace: DerivationTrace) -> tuple[Delta, ...]:
    """Return the deltas of an operator's inputs, made pure; record a step for each one that changes."""
    made = []
    for old, delta in zip(operands(operator), deltas, strict=True):
        better = pure(old, delta)
        if better is not delta:
            trace.record("4.3", old, plus(delta.deleted, delta.inserted), better)
        made.append(better)
    return tuple(made)
