"""Define the rules of π_A(R).

Several tuples may give the same row.  The row begins with the first of its tuples and ends with the last:

    (c.7) π(R − ∇R) = π(R) − (π(R) − π(R − ∇R))
    (c.8) π(R ∪ ΔR) = π(R) ∪ (π(ΔR) − π(R))

Every deleted row of π(R) comes from a row of ∇R, so (c.7) deletes π(∇R) − π(R − ∇R).  If the change also inserts, both
equations apply at once, over the old state R and the new state R' = R − ∇R ∪ ΔR:

    ∇π = π(∇R) − π(R')        Δπ = π(ΔR) − π(R)

If every input column is an output, ∇π = π(∇R) and Δπ = π(ΔR), and a pure delta stays pure.

Proof: proofs/TemporalViews.v: c_7, c_8, projection_at_once.

>>> from weft.algebra.temporal import Deleted
>>> from shown_temporal import PI, words
>>> words(c7(PI, Deleted(PI.input)).deleted)
'π_{k}(∇r) − π_{k}(r − ∇r)'
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.relation import Project
from weft.algebra.temporal import Difference, Temporal, keeps_rows_apart
from weft.derivation.temporal.delta import NOTHING, Delta, at_once, minus
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh


def c7(node: Project[Temporal], deleted: Temporal, after: Temporal | None = None) -> Delta:
    """Return ∇ = π(∇R) − π(R'), the delta of (c.7).  ``after`` is R', or None for R − ∇R."""
    left = Difference(node.input, deleted) if after is None else after
    return Delta(Difference(replace(node, input=deleted), replace(node, input=left)), None)


def c8(node: Project[Temporal], inserted: Temporal) -> Delta:
    """Return Δ = π(ΔR) − π(R), the delta of (c.8)."""
    return Delta(None, Difference(replace(node, input=inserted), node))


def propagate_projection(node: Project[Temporal], deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.7) and (c.8) at once."""
    (delta,) = deltas
    apart, made = keeps_rows_apart(node), []
    if delta.deleted is not None:
        gone = Delta(replace(node, input=delta.deleted), None, delta.pure)
        made.append(trace.record("c.7", node, delta.deleted, gone if apart else c7(node, delta.deleted, delta.after)))
    if delta.inserted is not None:
        left = replace(node, input=minus(node.input, delta.deleted) or node.input) if apart else node
        came = Delta(None, replace(node, input=delta.inserted), delta.pure)
        made.append(trace.record("c.8", left, delta.inserted, came if apart else c8(node, delta.inserted)))
    return at_once(made)


def refresh_projection(node: Project[Temporal], trace: DerivationTrace) -> Delta:
    """Apply (r.3): π(ψ(E)) = ψ(π(E)), so the delta is empty."""
    return trace.record("r.3", node, None, NOTHING)


propagate.register(Project, propagate_projection)
refresh.register(Project, refresh_projection)
