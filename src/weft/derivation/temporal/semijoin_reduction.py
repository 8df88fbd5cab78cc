"""Limit a maintenance expression to touched keys: read only base tuples whose keys occur in a delta.

A relation is *small* if it is computed from deltas or constants.  If one input D of an operator is small, the other
input X must be correct only for the rows that can match D:

    D − X = D − (X ⋉ D)                              on all columns, by position
    ⋈_p(D, X) = ⋈_p(D, X ⋉ D)                        on the columns that p makes equal, and so on for other inputs
    X ∩ D = X − (X − D) = D − (D − (X ⋉ D))
    π(X) − π(X − D) = π(X ∩ D) − (π(X − D) ⋉ π(X ∩ D))

In a refresh, the module limits X to the tuples that can have changed (``refresh_terms``).

``limited`` pushes ⋉ down through every operator to the base relations:

    law: among the rows that agree with a row of D in ``on``, limited(X, D, on) has exactly the rows of X.

The result of ``limited`` may have other rows too, so each use above also tests the equality.  Each row keeps its full
period set, so the limitation does not change predicates over periods.  Each base relation becomes Semijoin(Scan, …),
and storage computes the semijoin by a look-up.  So does R − ∇R ∪ ΔR, the state of a base
relation after the change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from weft.algebra.relation import Grouped, Join, Output, Project, Scan, Select, Union, Values
from weft.algebra.scalar import REFRESHED, Call, ColumnRef, Param, Scalar, columns, conjuncts
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Selection,
    Semijoin,
    Temporal,
    attributes,
    inputs,
    mentions_time,
    over,
    union,
)
from weft.derivation.temporal.delta import changed_table
from weft.derivation.temporal.judging import conjunction
from weft.derivation.temporal.refresh_terms import (
    Crossing,
    PeriodCondition,
    candidates,
    crossings,
    expiring,
    single_variable,
)
from weft.derivation.temporal.timeslice_pushdown import Bounding

On: TypeAlias = "tuple[tuple[ColumnRef, ColumnRef], ...]"


def reduce_by_semijoins(relation: Temporal) -> Temporal:
    """Limit the expression to base rows that match the deltas, without a change of the result."""
    return _Reduction().narrowed(relation)


class _Reduction:
    def __init__(self) -> None:
        self._narrowed: dict[Temporal, Temporal] = {}
        self._small: dict[Temporal, bool] = {}
        self._crossings: dict[Temporal, Temporal | None] = {}
        self._begins = Bounding()

    def small(self, relation: Temporal) -> bool:
        """Return whether the relation reads only deltas, constants, and base rows that match a delta or constant."""
        known = self._small.get(relation)
        if known is None:
            known = self._small[relation] = self._is_small(relation)
        return known

    def _is_small(self, relation: Temporal) -> bool:
        match relation:
            case Deleted() | Inserted() | Values():
                return True
            case Scan():
                return False
            case Select() if self._crossed(relation) is not None:
                return True
            case Select():
                parts = inputs(relation)
                return len(_reached(relation, {n for n, part in enumerate(parts) if self.small(part)})) == len(parts)
            case Union(inputs=parts):
                return all(map(self.small, parts))
            case Difference(left=left):
                reductions = (self._common(relation), self._lost(relation), self._expired(relation))
                return self.small(left) or any(each is not None for each in reductions)
            case Semijoin(left=left, right=right):
                return self.small(left) or self.small(right)
            case Project(input=inner) | Extension(input=inner) | Fragment(input=inner) | Grouped(input=inner):
                return self.small(inner)

    def narrowed(self, relation: Temporal) -> Temporal:
        """If one input of an operator is small, limit the other inputs to rows that can match."""
        known = self._narrowed.get(relation)
        if known is None:
            known = self._narrowed[relation] = self._narrow(relation)
        return known

    def _narrow(self, relation: Temporal) -> Temporal:
        match relation:
            case Difference():
                return self._narrow_difference(relation)
            case Select() if (crossed := self._crossed(relation)) is not None:
                return crossed
            case Select():
                return self._join(_merged(relation), None, ())
            case Semijoin(left=left, right=right, on=on):
                given = self.narrowed(right)
                return self._exactly(left, given, on) if self.small(right) else Semijoin(self.narrowed(left), given, on)
            case _:
                return over(relation, tuple(map(self.narrowed, inputs(relation))))

    def _narrow_difference(self, relation: Difference) -> Temporal:
        common = self._common(relation)
        if common is not None:
            return self._shared(relation.left, common)
        lost = self._lost(relation)
        if lost is not None:
            projection, part = lost
            gone = replace(projection, input=self._shared(projection.input, part))
            return Difference(gone, self.limited(relation.right, keys(gone), _all(relation.right, gone)))
        expired = self._expired(relation)
        if expired is not None:
            return expired
        left = self.narrowed(relation.left)
        if not self.small(relation.left):
            return Difference(left, self.narrowed(relation.right))
        return Difference(left, self.limited(relation.right, keys(left), _all(relation.right, left)))

    def _common(self, relation: Difference) -> Temporal | None:
        """Return D if the relation is X − (X − D) for a small D, otherwise None."""
        match relation:
            case Difference(left=whole, right=Difference(left=again, right=part)) if whole == again:
                return part if self._part_of(whole, part) else None
        return None

    def _lost(self, relation: Difference) -> tuple[Project[Temporal], Temporal] | None:
        """Return π and D if the relation is π(X) − π(X − D) for a small D, otherwise None."""
        match relation:
            case Difference(
                left=Project(input=whole) as one, right=Project(input=Difference(left=again, right=part)) as other
            ) if whole == again and replace(other, input=whole) == one:
                return (one, part) if self._part_of(whole, part) else None
        return None

    def _expired(self, relation: Difference) -> Temporal | None:
        """Limit FR(ψ(EX_w(X))) − EX_w(X) to the rows of X that can have expired.  Return None otherwise."""
        match relation:
            case Difference(
                left=Fragment(input=Extension(input=whole, at=Param())) as old, right=Extension(at=None) as new
            ) if replace(new, at=old.input.at) == old.input and not self.small(whole):  # type: ignore[union-attr]
                reduced = self._among(whole, expiring(new))
                if reduced is not None:
                    was = replace(old, input=replace(new, input=reduced, at=REFRESHED))
                    return Difference(was, replace(new, input=reduced))
        return None

    def _crossed(self, relation: Selection) -> Temporal | None:
        """Limit a term of a refresh to the tuples that can have changed.  Return None if no rule applies."""
        if relation not in self._crossings:
            self._crossings[relation] = None
            self._crossings[relation] = self._cross(relation)
        return self._crossings[relation]

    def _cross(self, relation: Selection) -> Temporal | None:
        cases = crossings(relation.predicate) if mentions_time(relation.predicate) else None
        made: Temporal | None = None
        for case in cases or ():
            parts = list(inputs(relation))
            place = _place(case, parts)
            if place is None or self.small(parts[place]):
                return None
            reduced = self._due(parts[place], case.row) if case.row else self._among(parts[place], case.bound)
            if reduced is None:
                return None
            parts[place] = reduced
            one = self._join(over(replace(relation, predicate=case.predicate), tuple(parts)), None, ())
            made = one if made is None else union(made, one)
        return made

    def _due(self, relation: Temporal, row: Scalar) -> Temporal:
        """Treat the selection as small, because it returns few tuples although it reads the full relation."""
        due = Select(self.narrowed(relation), row)
        self._small[due], self._narrowed[due] = True, due
        return due

    def _among(self, relation: Temporal, bound: PeriodCondition) -> Temporal | None:
        """Return None if the base relations offer no look-up by first or last instants."""
        candidate = candidates(relation, bound)
        if candidate is None:
            return None
        rows, leaves = candidate
        self._small.update(dict.fromkeys(leaves, True))
        narrowed = self._exactly(relation, rows, _all(relation, rows))
        self._small[narrowed], self._narrowed[narrowed] = True, narrowed
        return narrowed

    def _part_of(self, whole: Temporal, part: Temporal) -> bool:
        return self.small(part) and not self.small(whole) and attributes(whole) == attributes(part)

    def _shared(self, whole: Temporal, part: Temporal) -> Temporal:
        """Return X ∩ D as D − (D − (X ⋉ D)), where X is ``whole`` and D is ``part``."""
        given = self.narrowed(part)
        return Difference(given, Difference(given, self.limited(whole, keys(given), _all(whole, given))))

    def _exactly(self, relation: Temporal, given: Temporal, on: On) -> Temporal:
        some = self.limited(relation, given, on)
        return (
            some if isinstance(some, Semijoin) and some.right == given and some.on == on else Semijoin(some, given, on)
        )

    def limited(self, relation: Temporal, given: Temporal, on: On) -> Temporal:
        """Return the rows of a relation that match ``given`` in the columns ``on``, and possibly other rows."""
        if self.small(relation) or not on:
            return self.narrowed(relation)
        match relation:
            case Union() if changed_table(relation) is not None:
                return Semijoin(relation, given, on)
            case Select():
                return self._join(_merged(relation), given, on)
            case Extension() | Fragment():
                return replace(relation, input=self.limited(relation.input, given, on))
            case Project(input=inner, alias=alias, outputs=outputs):
                return replace(relation, input=self.limited(inner, given, _below(on, alias, outputs)))
            case Grouped(input=inner, alias=alias, groups=groups):
                return replace(relation, input=self.limited(inner, given, _below(on, alias, groups)))
            case Union() | Difference():
                parts = inputs(relation)
                return over(relation, tuple(self.limited(part, given, _across(on, parts[0], part)) for part in parts))
            case Semijoin(left=left, right=right):
                some = self.limited(left, given, on)
                swapped = tuple((theirs, ours) for ours, theirs in relation.on)
                return Semijoin(some, self.limited(right, keys(some), swapped), relation.on)
            case _:
                return Semijoin(relation, given, on)

    def _keys_since(self, begin: Scalar | None, relation: Temporal) -> Temporal:
        """Without ``begin``, a look-up would return the history of every row that ever had the key."""
        given = keys(relation)
        if begin is None or _stretched(relation) or self._begins.begin(given) is not None:
            return given
        return Fragment(given, begin)

    def _join(self, join: Selection, given: Temporal | None, on: On) -> Temporal:
        """Limit the inputs of ⋈_p or σ_p by ``given``, then by the small inputs, then by one another."""
        parts = inputs(join)
        made = {n: self.narrowed(part) for n, part in enumerate(parts) if self.small(part)}
        for number, part in enumerate(parts):
            mine = tuple(pair for pair in on if pair[0] in attributes(part))
            if given is not None and mine and number not in made:
                made[number] = self.limited(part, given, mine)
        begin = self._begins.begin(over(join, tuple(made.get(n, part) for n, part in enumerate(parts))))
        for number, via in _reached(join, set(made)).items():
            if via is not None:
                pairs = _pairs(join, number, via)
                made[number] = self.limited(parts[number], self._keys_since(begin, made[via]), pairs)
        return over(join, tuple(made[n] if n in made else self.narrowed(part) for n, part in enumerate(parts)))


def keys(relation: Temporal) -> Temporal:
    """Return a relation that contains the row values of ``relation`` and is cheaper to compute."""
    match relation:
        case Difference(left=left) | Fragment(input=left) | Extension(input=left):
            return keys(left)
        case Union(inputs=parts):
            return union(*map(keys, parts))
        case Project(input=inner):
            return replace(relation, input=keys(inner))
        case _:
            return relation


def _stretched(relation: Temporal) -> bool:
    """Return whether ``keys`` removes an EX_w.  Without EX_w, rows may end earlier."""
    match relation:
        case Extension():
            return True
        case Difference(left=inner) | Fragment(input=inner) | Project(input=inner):
            return _stretched(inner)
        case Union(inputs=parts):
            return any(map(_stretched, parts))
        case _:
            return False


def equalities(predicate: Scalar) -> On:
    """Return the pairs of columns that a join's predicate makes equal."""
    pairs = []
    for part in conjuncts(predicate):
        match part:
            case Call(name="=" | "<=>", args=(ColumnRef() as one, ColumnRef() as other)):
                pairs += [(one, other), (other, one)]
            case _:
                pass
    return tuple(pairs)


def _place(case: Crossing, parts: list[Temporal]) -> int | None:
    if case.row is None:
        return next((n for n, part in enumerate(parts) if single_variable(part) == case.scan), None)
    used = columns(case.row)
    return next((n for n, part in enumerate(parts) if used <= set(attributes(part))), None)


def _merged(relation: Selection) -> Selection:
    """Return σ_q(⋈_p(…)) as one ⋈ if q does not mention time."""
    match relation:
        case Select(input=Select(input=Join()) as join, predicate=predicate) if not mentions_time(predicate):
            return replace(join, predicate=conjunction(join.predicate, predicate))
        case _:
            return relation


def _pairs(join: Selection, number: int, via: int) -> On:
    ours, theirs = (attributes(inputs(join)[place]) for place in (number, via))
    return tuple((one, other) for one, other in equalities(join.predicate) if one in ours and other in theirs)


def _reached(join: Selection, met: set[int]) -> dict[int, int | None]:
    """Map each input that look-ups can reach to the input that gives the keys, or to None for an input in ``met``."""
    lookups: dict[int, int | None] = dict.fromkeys(sorted(met))
    more = True
    while more:
        more = False
        for number in range(len(inputs(join))):
            via = next((known for known in lookups if _pairs(join, number, known)), None)
            if number not in lookups and via is not None:
                lookups[number], more = via, True
    return lookups


def _all(relation: Temporal, given: Temporal) -> On:
    return tuple(zip(attributes(relation), attributes(given), strict=True))


def _below(on: On, alias: str, outputs: tuple[Output, ...]) -> On:
    plain = {ColumnRef(alias, out.name, out.value.type): out.value for out in outputs}
    values = ((plain.get(ours), theirs) for ours, theirs in on)
    return tuple((value, theirs) for value, theirs in values if isinstance(value, ColumnRef))


def _across(on: On, left: Temporal, right: Temporal) -> On:
    same = dict(zip(attributes(left), attributes(right), strict=True))
    return tuple((same[ours], theirs) for ours, theirs in on)
