"""Define the rules of σ_p(R) and ⋈_p(R1, …, Rn).  A selection is a join of one relation, with rules of its own numbers.

    (c.9),  (c.13) σ_p(R − ∇R) = σ_p(R) − σ_p(∇R)
    (c.10), (c.14) σ_p(R ∪ ΔR) = σ_p(R) ∪ σ_p(ΔR)
    (c.11), (c.15) ⋈_p(…, Ri − ∇Ri, …) = ⋈_p(…, Ri, …) − ⋈_p(…, ∇Ri, …)
    (c.12), (c.16) ⋈_p(…, Ri ∪ ΔRi, …) = ⋈_p(…, Ri, …) ∪ ⋈_p(…, ΔRi, …)

If several inputs change at once, with Ri' = Ri − ∇Ri ∪ ΔRi, each term reads only old states or only new states:

    ∇⋈_p = ∪_i ⋈_p(R1, …, ∇Ri, …, Rn)        Δ⋈_p = ∪_i ⋈_p(R1', …, ΔRi, …, Rn')

One change after the other would also read states between the two, and subtract the terms from one another.

If p mentions NOW or a period set, (c.13) to (c.16) require pure deltas (Theorem 4.3) and return pure deltas.  (c.9) to
(c.12) return pure deltas if the deltas of all inputs are pure.  As time passes, for E, E1 … En as of t:

    (r.6) σ_p(ψ(E)) = ψ(σ_p(E)) − σ_{[p]_t ∧ [¬p]_now}(E) ∪ σ_{[p]_now ∧ [¬p]_t}(E)
    (r.7) ⋈_p(ψ(E1), …) = ψ(⋈_p(E1, …)) − ⋈_{[p]_t ∧ [¬p]_now}(E1, …) ∪ ⋈_{[p]_now ∧ [¬p]_t}(E1, …)

Section 4.3.2 rewrites (r.7) in this form.  If p does not mention time, the delta is empty: (r.4) for σ, (r.5) for ⋈.

Proof: proofs/TemporalViews.v: c_9, c_10, c_11, c_12, c_13, c_14, c_15, c_16, joins_at_once, tuples_at_once, r_6, r_7.

>>> from weft.algebra.temporal import Deleted, Inserted
>>> from shown_temporal import ENDED, PAIRED, R, S, words
>>> words(c12(Select(Join((R, S)), PAIRED), 1, Inserted(S)).inserted)
'⋈_{r.k = s.k}(r, Δs)'
>>> trace = DerivationTrace()
>>> words(propagate(Select(R, ENDED), (Delta(Deleted(R), None),), trace).deleted)
'σ_{PERIOD_END(r) < NOW()}(r ⋉ ∇r)'
>>> [step.rule for step in trace.steps]
['4.3', 'c.13', 'c.14']
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.relation import Join, Select
from weft.algebra.temporal import Selection, Temporal, inputs, mentions_time, over
from weft.derivation.temporal.delta import NOTHING, Delta, at_once, minus, state_after
from weft.derivation.temporal.refresh_terms import refresh_predicates
from weft.derivation.temporal.rules import DerivationTrace, propagate, purified, refresh, with_operand


def c11(node: Selection, position: int, deleted: Temporal) -> Delta:
    """Return ∇ = ⋈_p(…, ∇Ri, …), the delta of (c.11), or of (c.9), (c.13) and (c.15)."""
    return Delta(with_operand(node, position, deleted), None)


def c12(node: Selection, position: int, inserted: Temporal) -> Delta:
    """Return Δ = ⋈_p(…, ΔRi, …), the delta of (c.12), or of (c.10), (c.14) and (c.16)."""
    return Delta(None, with_operand(node, position, inserted))


def propagate_join(node: Selection, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.11) to all deletions and (c.12) to all insertions.

    If p mentions time, apply (c.15) and (c.16) to pure deltas (Theorem 4.3).  For σ, apply (c.9) and (c.10), or (c.13)
    and (c.14).
    """
    of_time, joins = mentions_time(node.predicate), isinstance(node.input, Join)
    pure_deltas = purified(node, deltas, trace) if of_time else deltas
    deleting, inserting = {
        (False, False): ("c.9", "c.10"),
        (False, True): ("c.11", "c.12"),
        (True, False): ("c.13", "c.14"),
        (True, True): ("c.15", "c.16"),
    }[of_time, joins]
    pure = all(each.pure for each in pure_deltas)
    new = over(node, tuple(map(state_after, inputs(node), deltas)))
    left = over(
        node, tuple(minus(part, each.deleted) or part for part, each in zip(inputs(node), pure_deltas, strict=True))
    )
    made = []
    for n, each in enumerate(pure_deltas):
        if each.deleted is not None:
            made.append(trace.record(deleting, node, each.deleted, replace(c11(node, n, each.deleted), pure=pure)))
    for n, each in enumerate(pure_deltas):
        if each.inserted is not None:
            made.append(trace.record(inserting, left, each.inserted, replace(c12(new, n, each.inserted), pure=pure)))
    return at_once(made)


def refresh_join(node: Selection, trace: DerivationTrace) -> Delta:
    """Apply (r.4) or (r.5), by which the delta is empty, or (r.6) or (r.7) if p mentions time."""
    joins = isinstance(node.input, Join)
    if not mentions_time(node.predicate):
        return trace.record("r.5" if joins else "r.4", node, None, NOTHING)
    rule = "r.7" if joins else "r.6"
    leaving, entering = refresh_predicates(rule, node, node.predicate, trace)
    delta = Delta(
        None if leaving is None else replace(node, predicate=leaving),
        None if entering is None else replace(node, predicate=entering),
        pure=True,
    )
    return trace.record(rule, node, None, delta)


propagate.register(Select, propagate_join)
refresh.register(Select, refresh_join)
