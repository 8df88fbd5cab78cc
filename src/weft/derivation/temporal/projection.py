"""Define the rules of π_A(R).

Several tuples may give the same row.  The row begins with the first of its tuples and ends with the last:

    (c.7) π(R − ∇R) = π(R) − (π(R) − π(R − ∇R))
    (c.8) π(R ∪ ΔR) = π(R) ∪ (π(ΔR) − π(R))

If every input column is an output, a pure delta stays pure.

Proof: proofs/TemporalViews.v: c_7, c_8.

>>> from weft.algebra.temporal import Deleted
>>> from shown_temporal import PI, words
>>> words(c7(PI, Deleted(PI.input)).deleted)
'π_{k}(r) − π_{k}(r − ∇r)'
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.relation import Project
from weft.algebra.temporal import Difference, Temporal, attributes
from weft.derivation.temporal.delta import NOTHING, Delta
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise


def c7(node: Project[Temporal], deleted: Temporal) -> Delta:
    """Return ∇ = π(R) − π(R − ∇R), the delta of (c.7)."""
    return Delta(Difference(node, replace(node, input=Difference(node.input, deleted))), None)


def c8(node: Project[Temporal], inserted: Temporal) -> Delta:
    """Return Δ = π(ΔR) − π(R), the delta of (c.8)."""
    return Delta(None, Difference(replace(node, input=inserted), node))


def keeps_rows_apart(node: Project[Temporal]) -> bool:
    """Return whether every input column is an output, so that distinct rows stay distinct."""
    return set(attributes(node.input)) <= {output.value for output in node.outputs}


def propagate_projection(node: Project[Temporal], deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.7), then (c.8)."""
    pure = keeps_rows_apart(node) and deltas[0].pure
    return stepwise(node, deltas, (("c.7", _without), ("c.8", _with)), trace, pure=pure)


def refresh_projection(node: Project[Temporal], trace: DerivationTrace) -> Delta:
    """Apply (r.3): π(ψ(E)) = ψ(π(E)), so the delta is empty."""
    return trace.record("r.3", node, None, NOTHING)


def _without(node: Project[Temporal], position: int, part: Temporal, current: Temporal) -> Delta:
    return c7(node, part)


def _with(node: Project[Temporal], position: int, part: Temporal, current: Temporal) -> Delta:
    return c8(node, part)


propagate.register(Project, propagate_projection)
refresh.register(Project, refresh_projection)
