"""Derive a view's delta, by induction on the view's expression (section 4).

A delta describes the effect of changed base relations, or the effect of passing time:

    change:  δ(E) = op(δ(E1), …, δ(En))            base cases δ(R) = R − ∇R ∪ ΔR, δ(S) = S if S does not change
    refresh: φ([E]_t) = op(φ([E1]_t), …, φ([En]_t)) base case φ([R]_t) = ψ_t([R]_t)

The refresh of an operator has two steps.  First, ``refresh`` returns a delta ∇'', Δ'' for the passing of time from t to
t_now, over the inputs as of t.  Then ``propagate`` returns a delta ∇', Δ' for the deltas of the inputs.  The net effect
of both steps is the paper's delta.

If the date of a change is t_now, the refresh of the view to t_now comes before the change (section 4, step 1).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from weft.algebra.relation import Scan, Values
from weft.algebra.schema import TableSchema
from weft.algebra.temporal import Deleted, Inserted, Temporal
from weft.derivation.temporal.delta import NOTHING, Delta, applied, followed_by, state_after
from weft.derivation.temporal.judging import state_at_refresh
from weft.derivation.temporal.rules import DerivationTrace, operands, propagate, refresh, with_operand

Kind: TypeAlias = 'Literal["deletions", "insertions"]'
BOTH: Final[frozenset[Kind]] = frozenset(("deletions", "insertions"))


def change_delta(
    relation: Temporal, tables: Collection[TableSchema], trace: DerivationTrace, kinds: Collection[Kind] = BOTH
) -> Delta:
    """Return ∇E and ΔE for a change of these tables at one instant.

    The expressions read the state before the change.  If ``kinds`` lacks "deletions", every ∇R is empty.  If ``kinds``
    lacks "insertions", every ΔR is empty.  Raise DerivationError for an operator without a rule, such as ⋉ or FR.
    """
    if isinstance(relation, Scan) and relation.table in tables:
        delta = Delta(
            Deleted(relation) if "deletions" in kinds else None,
            Inserted(relation) if "insertions" in kinds else None,
        )
        return replace(delta, after=applied(relation, delta))
    if isinstance(relation, (Scan, Values)):
        return NOTHING
    deltas = tuple(change_delta(part, tables, trace, kinds) for part in operands(relation))
    if all(delta.empty for delta in deltas):
        return NOTHING
    after: Temporal = relation
    for position, part in enumerate(operands(relation)):
        after = with_operand(after, position, state_after(part, deltas[position]))
    return replace(propagate(relation, deltas, trace), after=after)


def refresh_delta(relation: Temporal, trace: DerivationTrace) -> Delta:
    """Return ∇E and ΔE for the passing of time from the last refresh t to t_now.

    The delta leads from [E]_t to E: E = ψ_t([E]_t) − ∇E ∪ ΔE.  Raise DerivationError for an operator without a rule.
    """
    if isinstance(relation, (Scan, Values)):
        return NOTHING
    deltas = tuple(refresh_delta(part, trace) for part in operands(relation))
    below: Temporal = relation
    for position, part in enumerate(operands(relation)):
        below = with_operand(below, position, state_at_refresh(part))
    by_time = refresh(below, trace)
    both = by_time if all(each.empty for each in deltas) else followed_by(by_time, propagate(below, deltas, trace))
    return replace(both, after=relation)
