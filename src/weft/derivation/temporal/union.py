"""Define the rules of R ∪ S.

A row stays in the union while the other input has the row.  ∪ is symmetric, so the same rules apply to changes of S:

    (c.5) (R − ∇R) ∪ S = (R ∪ S) − (∇R − S)
    (c.6) (R ∪ ΔR) ∪ S = (R ∪ S) ∪ (ΔR − S)

Proof: proofs/TemporalViews.v: c_5, c_6.

>>> from weft.algebra.temporal import Inserted
>>> from shown_temporal import R, S, words
>>> words(c6(TemporalUnion(R, S), 1, Inserted(S)).inserted)
'ρ(Δs) − r'
"""

from __future__ import annotations

from weft.algebra.temporal import Difference, Temporal, TemporalUnion
from weft.derivation.temporal.delta import NOTHING, Delta, renamed
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise


def c5(node: TemporalUnion, position: int, deleted: Temporal) -> Delta:
    """Return ∇ = ∇R − S, the delta of (c.5)."""
    return Delta(_alone(node, position, deleted), None)


def c6(node: TemporalUnion, position: int, inserted: Temporal) -> Delta:
    """Return Δ = ΔR − S, the delta of (c.6)."""
    return Delta(None, _alone(node, position, inserted))


def propagate_union(node: TemporalUnion, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.5) and (c.6) for the left input, then for the right input."""
    return stepwise(node, deltas, (("c.5", _without), ("c.6", _with)), trace)


def refresh_union(node: TemporalUnion, trace: DerivationTrace) -> Delta:
    """Apply (r.2): ψ(E1) ∪ ψ(E2) = ψ(E1 ∪ E2), so the delta is empty."""
    return trace.record("r.2", node, None, NOTHING)


def _alone(node: TemporalUnion, position: int, part: Temporal) -> Temporal:
    return Difference(renamed(part, node.left), node.left if position else node.right)


def _without(node: TemporalUnion, position: int, part: Temporal, current: Temporal) -> Delta:
    return c5(node, position, part)


def _with(node: TemporalUnion, position: int, part: Temporal, current: Temporal) -> Delta:
    return c6(node, position, part)


propagate.register(TemporalUnion, propagate_union)
refresh.register(TemporalUnion, refresh_union)
