"""Define the rules of R − S.

A deletion from R removes rows of the difference.  A deletion from S may restore rows of R, and an insertion into S
hides rows of R:

    (c.1) (R − ∇R) − S = (R − S) − (∇R − S)
    (c.2) (R ∪ ΔR) − S = (R − S) ∪ (ΔR − S)
    (c.3) R − (S − ∇S) = (R − S) ∪ (R ∩ ∇S)
    (c.4) R − (S ∪ ΔS) = (R − S) − (R ∩ ΔS)

Proof: proofs/TemporalViews.v: c_1, c_2, c_3, c_4.

>>> from weft.algebra.temporal import Inserted
>>> from shown_temporal import R, S, words
>>> words(c4(Difference(R, S), Inserted(S)).deleted)
'r − (r − ρ(Δs))'
"""

from __future__ import annotations

from weft.algebra.temporal import Difference, Temporal
from weft.derivation.temporal.delta import NOTHING, Delta, intersection, renamed
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise


def c1(node: Difference, deleted: Temporal) -> Delta:
    """Return ∇ = ∇R − S, the delta of (c.1)."""
    return Delta(Difference(deleted, node.right), None)


def c2(node: Difference, inserted: Temporal) -> Delta:
    """Return Δ = ΔR − S, the delta of (c.2)."""
    return Delta(None, Difference(inserted, node.right))


def c3(node: Difference, deleted: Temporal) -> Delta:
    """Return Δ = R ∩ ∇S, the delta of (c.3)."""
    return Delta(None, intersection(node.left, renamed(deleted, node.left)))


def c4(node: Difference, inserted: Temporal) -> Delta:
    """Return ∇ = R ∩ ΔS, the delta of (c.4)."""
    return Delta(intersection(node.left, renamed(inserted, node.left)), None)


def propagate_difference(node: Difference, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.1) and (c.2) for the left input, then (c.3) and (c.4) for the right input."""
    return stepwise(node, deltas, (("c.1|c.3", _without), ("c.2|c.4", _with)), trace)


def refresh_difference(node: Difference, trace: DerivationTrace) -> Delta:
    """Apply (r.1): ψ(E1) − ψ(E2) = ψ(E1 − E2), so the delta is empty."""
    return trace.record("r.1", node, None, NOTHING)


def _without(node: Difference, position: int, part: Temporal, current: Temporal) -> Delta:
    return c3(node, part) if position else c1(node, part)


def _with(node: Difference, position: int, part: Temporal, current: Temporal) -> Delta:
    return c4(node, part) if position else c2(node, part)


propagate.register(Difference, propagate_difference)
refresh.register(Difference, refresh_difference)
