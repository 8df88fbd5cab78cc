"""Define the rules of ⋈_p(R1, …, Rn).

    (c.11), (c.15) ⋈_p(…, Ri − ∇Ri, …) = ⋈_p(…, Ri, …) − ⋈_p(…, ∇Ri, …)
    (c.12), (c.16) ⋈_p(…, Ri ∪ ΔRi, …) = ⋈_p(…, Ri, …) ∪ ⋈_p(…, ΔRi, …)

If p mentions NOW or a period set, (c.15) and (c.16) require pure deltas and return pure deltas.  (c.11) and (c.12)
return pure deltas if the deltas of all inputs are pure.  As time passes, the following holds for E1 … En as of t:

    (r.7) ⋈_p(ψ(E1), …) = ψ(⋈_p(E1, …)) − ⋈_{[p]_t ∧ [¬p]_now}(E1, …) ∪ ⋈_{[p]_now ∧ [¬p]_t}(E1, …)

Section 4.3.2 rewrites (r.7) in this form.

Proof: proofs/TemporalViews.v: c_11, c_12, c_15, c_16, r_7.

>>> from weft.algebra.temporal import Inserted
>>> from shown_temporal import PAIRED, R, S, words
>>> words(c12(TemporalJoin((R, S), PAIRED), 1, Inserted(S)).inserted)
'⋈_{r.k = s.k}(r, Δs)'
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from weft.algebra.relation import Select
from weft.algebra.scalar import Scalar
from weft.algebra.temporal import Temporal, TemporalJoin, mentions_time
from weft.derivation.temporal.delta import NOTHING, Delta
from weft.derivation.temporal.refresh_terms import refresh_predicates
from weft.derivation.temporal.rules import DerivationTrace, propagate, purified, refresh, stepwise, with_operand

Node: TypeAlias = "Select[Temporal, Scalar] | TemporalJoin"


def c11(node: Node, position: int, deleted: Temporal) -> Delta:
    """Return ∇ = ⋈_p(…, ∇Ri, …), the delta of (c.11), or of (c.15) if p mentions time."""
    return Delta(with_operand(node, position, deleted), None)


def c12(node: Node, position: int, inserted: Temporal) -> Delta:
    """Return Δ = ⋈_p(…, ΔRi, …), the delta of (c.12), or of (c.16) if p mentions time."""
    return Delta(None, with_operand(node, position, inserted))


def propagated(
    node: Node, deltas: tuple[Delta, ...], trace: DerivationTrace, steady: tuple[str, str], timely: tuple[str, str]
) -> Delta:
    """Apply the rules ``steady`` to each input in turn, or the rules ``timely`` to pure deltas if p mentions time
    (Theorem 4.3).
    """
    of_time = mentions_time(node.predicate)
    pure_deltas = purified(node, deltas, trace) if of_time else deltas
    deleting, inserting = timely if of_time else steady
    pure = all(each.pure for each in pure_deltas)
    return stepwise(node, pure_deltas, ((deleting, _without), (inserting, _with)), trace, pure=pure)


def refreshed(node: Node, trace: DerivationTrace, steady: str, timely: str) -> Delta:
    """Apply the rule ``steady``, by which the delta is empty, or the rule ``timely`` if p mentions time."""
    if not mentions_time(node.predicate):
        return trace.record(steady, node, None, NOTHING)
    leaving, entering = refresh_predicates(timely, node, node.predicate, trace)
    delta = Delta(
        None if leaving is None else replace(node, predicate=leaving),
        None if entering is None else replace(node, predicate=entering),
        pure=True,
    )
    return trace.record(timely, node, None, delta)


def propagate_join(node: TemporalJoin, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.11) and (c.12), or (c.15) and (c.16) if p mentions time."""
    return propagated(node, deltas, trace, ("c.11", "c.12"), ("c.15", "c.16"))


def refresh_join(node: TemporalJoin, trace: DerivationTrace) -> Delta:
    """Apply (r.5) ⋈_p(ψ(E1), …) = ψ(⋈_p(E1, …)), or (r.7) if p mentions time."""
    return refreshed(node, trace, "r.5", "r.7")


def _without(node: Node, position: int, part: Temporal, current: Temporal) -> Delta:
    return c11(node, position, part)


def _with(node: Node, position: int, part: Temporal, current: Temporal) -> Delta:
    return c12(node, position, part)


propagate.register(TemporalJoin, propagate_join)
refresh.register(TemporalJoin, refresh_join)
