"""Deltas made pure before an operator that judges period sets (Theorem 4.3), and noted as a step."""

from __future__ import annotations

from weft.algebra.temporal import Temporal
from weft.derivation.temporal.delta import Delta, plus, pure
from weft.derivation.temporal.rules import Log, operands


def purified(operator: Temporal, deltas: tuple[Delta, ...], log: Log) -> tuple[Delta, ...]:
    """The deltas of an operator's inputs, pure; those that are known to be already are left as they are."""
    made = []
    for old, delta in zip(operands(operator), deltas, strict=True):
        better = pure(old, delta)
        if better is not delta:
            log.note("4.3", old, plus(delta.deleted, delta.inserted), better)
        made.append(better)
    return tuple(made)
