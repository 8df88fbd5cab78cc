"""Combine deltas ∇E and ΔE, and make deltas pure (Theorem 4.3).

If the deltas of base relations satisfy ∇R − R = ∅ and ΔR ∩ R = ∅, every delta that the rules return satisfies:

    ∇E − E = ∅                a deletion removes only rows of E
    ΔE ∩ (E − ∇E) = ∅         an insertion adds only rows that E − ∇E does not have

Theorems 5.1 and 5.2 require both conditions for the input of an aggregate.  The rules of aggregates can therefore rely
on both conditions.  The docstring of each rule gives the equation of the rule.  Tests check both conditions at every
node of random derivations.

Proof: proofs/TemporalViews.v: theorem_4_3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.algebra.relation import Join, Output, Project, Scan, Select, Union, Values
from weft.algebra.scalar import TRUE, Cast, ColumnRef
from weft.algebra.schema import Column
from weft.algebra.temporal import Deleted, Difference, Inserted, Semijoin, Temporal, attributes, union

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Delta:
    """The delta ∇E and ΔE, with the attribute names of E.  None stands for a relation that is empty for all data.

    If ``pure`` is true, the delta deletes full tuples and inserts only tuples that were absent.  A pure delta never
    extends or shortens the period set of a tuple (conditions (ii) and (iii) of Theorem 4.3).

    ``after`` is E − ∇E ∪ ΔE as an expression over the new states of the base relations, if it is known.
    """

    deleted: Temporal | None = None
    inserted: Temporal | None = None
    pure: bool = False
    after: Temporal | None = None

    @property
    def empty(self) -> bool:
        """Whether the delta is known to be empty for all data."""
        return self.deleted is None and self.inserted is None


NOTHING = Delta(pure=True)


def minus(left: Temporal | None, right: Temporal | None) -> Temporal | None:
    """Return left − right, where None stands for an empty relation."""
    if left is None or right is None:
        return left
    return None if left == right else Difference(left, right)


def plus(left: Temporal | None, right: Temporal | None) -> Temporal | None:
    """Return left ∪ right, where None stands for an empty relation.  Both inputs must have the same attribute names."""
    if left is None or right is None:
        return right if left is None else left
    return left if left == right else union(left, right)


def intersection(left: Temporal, right: Temporal) -> Temporal:
    """Return left ∩ right, which the paper defines as left − (left − right)."""
    return Difference(left, Difference(left, right))


def applied(old: Temporal, delta: Delta) -> Temporal:
    """Return E − ∇E ∪ ΔE."""
    new = plus(minus(old, delta.deleted), delta.inserted)
    assert new is not None
    return new


def state_after(old: Temporal, delta: Delta) -> Temporal:
    """Return E − ∇E ∪ ΔE, over the new states of the base relations if possible."""
    return delta.after or applied(old, delta)


def followed_by(first: Delta, then: Delta) -> Delta:
    """Return the net effect of a first delta ∇'', Δ'' and a second delta ∇', Δ' (section 4.3).

    E − ∇'' ∪ Δ'' − ∇' ∪ Δ' = E − (∇'' ∪ (∇' − Δ'')) ∪ ((Δ'' − ∇') ∪ Δ')

    The equation requires the two conditions of this module, and the result satisfies them too.  The net effect of two
    pure deltas is pure.  If the second delta touches a row, it deletes all remaining periods of the row.
    """
    if first.empty or then.empty:
        return then if first.empty else first
    return Delta(
        plus(first.deleted, minus(then.deleted, first.inserted)),
        plus(minus(first.inserted, then.deleted), then.inserted),
        first.pure and then.pure,
    )


def at_once(deltas: Iterable[Delta]) -> Delta:
    """Return the delta that deletes what any of the deltas deletes, and inserts what any of them inserts."""
    total = NOTHING
    for each in deltas:
        total = Delta(plus(total.deleted, each.deleted), plus(total.inserted, each.inserted), total.pure and each.pure)
    return total


def changed_table(relation: Temporal) -> Scan | None:
    """Return R if the relation is ``applied(R, …)`` with insertions, the state of a base relation after the change.

    If the change has no deletions at all, R ∪ ΔR is this state, too.
    """
    match relation:
        case Union(inputs=(Difference(left=Scan() as base, right=Deleted(base=other)), Inserted(base=same))):
            return base if base == other == same else None
        case Union(inputs=(Scan() as base, Inserted(base=same))):
            return base if base == same else None
        case _:
            return None


def pure(old: Temporal, delta: Delta) -> Delta:
    """Make a delta pure (Theorem 4.3).  If the delta is already pure, return it unchanged.

    R ⋉ D selects the tuples of R that agree with a tuple of D in all explicit attributes.  ∇2 = R ⋉ (∇1 ∪ Δ1) has the
    full tuples that the delta touches.  Δ2 = ∇2 − ∇1 ∪ Δ1 has the new state of these tuples.
    """
    touched = plus(delta.deleted, delta.inserted)
    if delta.pure or touched is None:
        return delta
    pairs = tuple(zip(attributes(old), attributes(touched), strict=True))
    whole = Semijoin(old, touched, pairs)
    return Delta(whole, applied(whole, delta), pure=True)


def renamed(relation: Temporal, like: Temporal) -> Temporal:
    """Rename the columns of ``relation``, by position, to the column names of ``like``."""
    wanted = attributes(like)
    given = attributes(relation)
    if wanted == given:
        return relation
    if len({ref.scan for ref in wanted}) == 1:
        outputs = tuple(
            Output(ref.column, value if value.type == ref.type else Cast(value, ref.type))
            for ref, value in zip(wanted, given, strict=True)
        )
        return Project(relation, wanted[0].scan, outputs)
    return union(_empty(wanted), relation)


def _empty(names: Iterable[ColumnRef]) -> Temporal:
    variables: dict[str, list[Column]] = {}
    for ref in names:
        columns = variables.setdefault(ref.scan, [])
        columns.append(Column(len(columns) + 1, ref.column, ref.type))
    return Select(Join(tuple(Values(scan, tuple(each), ()) for scan, each in variables.items())), TRUE)
