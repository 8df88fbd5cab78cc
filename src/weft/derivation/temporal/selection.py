"""Define the rules of σ_p(R).

    (c.9), (c.13)  σ_p(R − ∇R) = σ_p(R) − σ_p(∇R)
    (c.10), (c.14) σ_p(R ∪ ΔR) = σ_p(R) ∪ σ_p(ΔR)

If p mentions NOW or a period set, (c.13) and (c.14) require pure deltas (Theorem 4.3) and return pure deltas.  (c.9)
and (c.10) return a pure delta if the delta of the input is pure.  As time passes:

    (r.6) σ_p(ψ(E)) = ψ(σ_p(E)) − σ_{[p]_t ∧ [¬p]_now}(E) ∪ σ_{[p]_now ∧ [¬p]_t}(E)

A selection is a join of one relation, and has the rules of ``join`` under numbers of its own.

Proof: proofs/TemporalViews.v: c_9, c_10, c_13, c_14, r_6.

>>> from weft.algebra.temporal import Deleted
>>> from shown_temporal import R, ENDED, words
>>> from weft.derivation.temporal.delta import Delta
>>> trace = DerivationTrace()
>>> words(propagate(Select(R, ENDED), (Delta(Deleted(R), None),), trace).deleted)
'σ_{PERIOD_END(r) < NOW()}(r ⋉ ∇r)'
>>> [step.rule for step in trace.steps]
['4.3', 'c.13', 'c.14']
"""

from __future__ import annotations

from weft.algebra.relation import Select
from weft.algebra.scalar import Scalar
from weft.algebra.temporal import Temporal
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.join import c11, c12, propagated, refreshed
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh


def c9(node: Select[Temporal, Scalar], deleted: Temporal) -> Delta:
    """Return ∇ = σ_p(∇R), the delta of (c.9), or of (c.13) if p mentions time."""
    return c11(node, 0, deleted)


def c10(node: Select[Temporal, Scalar], inserted: Temporal) -> Delta:
    """Return Δ = σ_p(ΔR), the delta of (c.10), or of (c.14) if p mentions time."""
    return c12(node, 0, inserted)


def propagate_selection(node: Select[Temporal, Scalar], deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.9) and (c.10).  If p mentions time, apply (c.13) and (c.14) to the pure delta (Theorem 4.3)."""
    return propagated(node, deltas, trace, ("c.9", "c.10"), ("c.13", "c.14"))


def refresh_selection(node: Select[Temporal, Scalar], trace: DerivationTrace) -> Delta:
    """Apply (r.4) σ_p(ψ(E)) = ψ(σ_p(E)), or (r.6) if p mentions time."""
    return refreshed(node, trace, "r.4", "r.6")


propagate.register(Select, propagate_selection)
refresh.register(Select, refresh_selection)
