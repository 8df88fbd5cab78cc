"""Define the rules of σ_p(R).

    (c.9), (c.13)  σ_p(R − ∇R) = σ_p(R) − σ_p(∇R)
    (c.10), (c.14) σ_p(R ∪ ΔR) = σ_p(R) ∪ σ_p(ΔR)

If p mentions NOW or a period set, (c.13) and (c.14) require pure deltas (Theorem 4.3) and return pure deltas.  (c.9)
and (c.10) return a pure delta if the delta of the input is pure.  As time passes:

    (r.6) σ_p(ψ(E)) = ψ(σ_p(E)) − σ_{[p]_t ∧ [¬p]_now}(E) ∪ σ_{[p]_now ∧ [¬p]_t}(E)

Proof: proofs/TemporalViews.v: c_9, c_10, c_13, c_14, r_6.

>>> from weft.algebra.temporal import Deleted
>>> from shown_temporal import R, ENDED, words
>>> from weft.derivation.temporal.delta import Delta
>>> trace = DerivationTrace()
>>> words(propagate(Selection(R, ENDED), (Delta(Deleted(R), None),), trace).deleted)
'σ_{PERIOD_END(r) < NOW()}(r ⋉ ∇r)'
>>> [step.rule for step in trace.steps]
['4.3', 'c.13', 'c.14']
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.temporal import Selection, Temporal, mentions_time
from weft.derivation.temporal.delta import NOTHING, Delta
from weft.derivation.temporal.refresh_terms import refresh_predicates
from weft.derivation.temporal.rules import DerivationTrace, propagate, purified, refresh, stepwise


def c9(node: Selection, deleted: Temporal) -> Delta:
    """Return ∇ = σ_p(∇R), the delta of (c.9), or of (c.13) if p mentions time."""
    return Delta(replace(node, input=deleted), None)


def c10(node: Selection, inserted: Temporal) -> Delta:
    """Return Δ = σ_p(ΔR), the delta of (c.10), or of (c.14) if p mentions time."""
    return Delta(None, replace(node, input=inserted))


def propagate_selection(node: Selection, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.9) and (c.10).  If p mentions time, apply (c.13) and (c.14) to the pure delta (Theorem 4.3)."""
    timely = mentions_time(node.predicate)
    pure_deltas = purified(node, deltas, trace) if timely else deltas
    numbers = ("c.13", "c.14") if timely else ("c.9", "c.10")
    return stepwise(node, pure_deltas, ((numbers[0], _without), (numbers[1], _with)), trace, pure=pure_deltas[0].pure)


def refresh_selection(node: Selection, trace: DerivationTrace) -> Delta:
    """Apply (r.4) σ_p(ψ(E)) = ψ(σ_p(E)), or (r.6) if p mentions time."""
    if not mentions_time(node.predicate):
        return trace.record("r.4", node, None, NOTHING)
    leaving, entering = refresh_predicates("r.6", node, node.predicate, trace)
    delta = Delta(
        None if leaving is None else replace(node, predicate=leaving),
        None if entering is None else replace(node, predicate=entering),
        pure=True,
    )
    return trace.record("r.6", node, None, delta)


def _without(node: Selection, position: int, part: Temporal, current: Temporal) -> Delta:
    return c9(node, part)


def _with(node: Selection, position: int, part: Temporal, current: Temporal) -> Delta:
    return c10(node, part)


propagate.register(Selection, propagate_selection)
refresh.register(Selection, refresh_selection)
