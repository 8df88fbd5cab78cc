"""Deltas: ∇E and ΔE, the relations they make together, and Theorem 4.3's pure ones.

Every delta that the rules give keeps two conditions, which those on base relations (∇R − R = ∅, ΔR ∩ R = ∅) begin:

    ∇E − E = ∅                nothing is deleted that is not there
    ΔE ∩ (E − ∇E) = ∅         nothing is inserted that stays

They are what Theorems 5.1 and 5.2 demand of the input of an aggregate, so nothing has to be enforced there.  Each
rule's docstring gives its equation; that it keeps the conditions is tried at every node of every random derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.algebra.relation import Output
from weft.algebra.scalar import Cast, ColumnRef, Literal
from weft.algebra.schema import BOOLEAN, Column
from weft.algebra.temporal import (
    Constant,
    Difference,
    Projection,
    Semijoin,
    Temporal,
    TemporalJoin,
    TemporalUnion,
    attributes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

TRUE = Literal(True, BOOLEAN, fixed=True)


@dataclass(frozen=True)
class Delta:
    """∇E and ΔE, each named as E is; None where it is known to be empty.

    ``pure``: whole tuples go and rows that were not there come, so that no tuple's period set merely grows or
    shrinks (conditions (ii) and (iii) of Theorem 4.3).
    """

    deleted: Temporal | None = None
    inserted: Temporal | None = None
    pure: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing changes, whatever the data."""
        return self.deleted is None and self.inserted is None


NOTHING = Delta(pure=True)


def minus(left: Temporal | None, right: Temporal | None) -> Temporal | None:
    """left − right, where either may be known to be empty."""
    if left is None or right is None:
        return left
    return None if left == right else Difference(left, right)


def plus(left: Temporal | None, right: Temporal | None) -> Temporal | None:
    """left ∪ right, where either may be known to be empty; both are named alike."""
    if left is None or right is None:
        return right if left is None else left
    return left if left == right else TemporalUnion(left, right)


def intersection(left: Temporal, right: Temporal) -> Temporal:
    """left ∩ right, which the paper defines as left − (left − right)."""
    return Difference(left, Difference(left, right))


def applied(old: Temporal, delta: Delta) -> Temporal:
    """E − ∇E ∪ ΔE."""
    new = plus(minus(old, delta.deleted), delta.inserted)
    assert new is not None
    return new


def followed_by(first: Delta, then: Delta) -> Delta:
    """The net effect of one delta and then another (section 4.3).

    E − ∇'' ∪ Δ'' − ∇' ∪ Δ' = E − (∇'' ∪ (∇' − Δ'')) ∪ ((Δ'' − ∇') ∪ Δ'), under the two conditions above, which the
    right side keeps.  Pure ones give a pure one: a row that the second touches goes with all that the first left.
    """
    if first.empty or then.empty:
        return then if first.empty else first
    return Delta(
        plus(first.deleted, minus(then.deleted, first.inserted)),
        plus(minus(first.inserted, then.deleted), then.inserted),
        first.pure and then.pure,
    )


def pure(old: Temporal, delta: Delta) -> Delta:
    """Theorem 4.3: ∇2 = R ⋉ (∇1 ∪ Δ1), the whole tuples that are touched, and Δ2 = ∇2 − ∇1 ∪ Δ1, what becomes of them.

    R ⋉ takes the tuples that agree in all explicit attributes.  A delta that is pure already is left as it is.
    """
    touched = plus(delta.deleted, delta.inserted)
    if delta.pure or touched is None:
        return delta
    pairs = tuple(zip(attributes(old), attributes(touched), strict=True))
    whole = Semijoin(old, touched, pairs)
    return Delta(whole, applied(whole, delta), pure=True)


def renamed(relation: Temporal, like: Temporal) -> Temporal:
    """The relation, its columns taken by position under the names of another's."""
    wanted = attributes(like)
    given = attributes(relation)
    if wanted == given:
        return relation
    if len({ref.scan for ref in wanted}) == 1:
        outputs = tuple(
            Output(ref.column, value if value.type == ref.type else Cast(value, ref.type))
            for ref, value in zip(wanted, given, strict=True)
        )
        return Projection(relation, wanted[0].scan, outputs)
    return TemporalUnion(_empty(wanted), relation)


def _empty(names: Iterable[ColumnRef]) -> Temporal:
    """The empty relation with columns of several range variables."""
    variables: dict[str, list[Column]] = {}
    for ref in names:
        columns = variables.setdefault(ref.scan, [])
        columns.append(Column(len(columns) + 1, ref.column, ref.type))
    return TemporalJoin(tuple(Constant(scan, tuple(each), ()) for scan, each in variables.items()), TRUE)
