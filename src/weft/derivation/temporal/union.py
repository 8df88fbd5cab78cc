"""Define the rules of R ∪ S, where S stands for all other inputs.

A row stays in the union while another input has the row.  ∪ is symmetric, so the same rules apply to changes of S:

    (c.5) (R − ∇R) ∪ S = (R ∪ S) − (∇R − S)
    (c.6) (R ∪ ΔR) ∪ S = (R ∪ S) ∪ (ΔR − S)

Proof: proofs/TemporalViews.v: c_5, c_6.

>>> from weft.algebra.temporal import Inserted, union
>>> from shown_temporal import R, S, words
>>> words(c6(union(R, S), 1, Inserted(S)).inserted)
'ρ(Δs) − r'
"""

from __future__ import annotations

from weft.algebra.relation import Union
from weft.algebra.temporal import Difference, Temporal, union
from weft.derivation.temporal.delta import NOTHING, Delta, renamed
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise


def c5(node: Union[Temporal], position: int, deleted: Temporal) -> Delta:
    """Return ∇ = ∇R − S, the delta of (c.5)."""
    return Delta(_alone(node, position, deleted), None)


def c6(node: Union[Temporal], position: int, inserted: Temporal) -> Delta:
    """Return Δ = ΔR − S, the delta of (c.6)."""
    return Delta(None, _alone(node, position, inserted))


def propagate_union(node: Union[Temporal], deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.5) and (c.6) for each input in turn."""
    return stepwise(node, deltas, (("c.5", _without), ("c.6", _with)), trace)


def refresh_union(node: Union[Temporal], trace: DerivationTrace) -> Delta:
    """Apply (r.2): ψ(E1) ∪ ψ(E2) = ψ(E1 ∪ E2), so the delta is empty."""
    return trace.record("r.2", node, None, NOTHING)


def _alone(node: Union[Temporal], position: int, part: Temporal) -> Temporal:
    others = node.inputs[:position] + node.inputs[position + 1 :]
    return Difference(renamed(part, node), union(*others))


def _without(node: Union[Temporal], position: int, part: Temporal, current: Temporal) -> Delta:
    return c5(node, position, part)


def _with(node: Union[Temporal], position: int, part: Temporal, current: Temporal) -> Delta:
    return c6(node, position, part)


propagate.register(Union, propagate_union)
refresh.register(Union, refresh_union)
