"""Limit expressions to recent periods.

If one input of an operator has no row before an instant s, the operator needs the other inputs only from s on.

Theorem.  Let D have no instant before s, let op be τ-reducible, and let FR_s(X) be X without the instants before s.
Then

    D − X = D − FR_s(X)          ⋈_p(D, X) = ⋈_p(D, FR_s(X))
    FR_s(op(X1, …)) = FR_s(op(FR_s(X1), …))          FR_s(EX_w(X)) = FR_s(EX_w(FR_{s−w}(X)))

Here p must not mention the period sets of X.

Proof.  The first two equations: before s, neither side has a row, because D has none.  From s on, X and FR_s(X) have
the same snapshots.  The third equation: at an instant from s on, the snapshot of op's result is op^nt of the inputs'
snapshots (Definition 3.2).  FR_s does not change these snapshots.  The last equation: if EX_w(X) has a row at t >= s,
then X has the row at an instant u with t − w <= u <= t.  Therefore u >= s − w.  If EX_w is evaluated as of an instant
r, a row that holds after r also held at r.  ∎

A predicate that mentions a tuple's period set needs the full period set, so FR is not pushed below the predicate.  The
law of ``since``: from s on, since(X, s) has exactly the rows of X.  Before s, since(X, s) may have any rows.
"""

from __future__ import annotations

from weft.algebra import temporal
from weft.algebra.relation import Grouped, Project, Scan, Select, Union, Values
from weft.algebra.scalar import CHANGED_FROM, Call, Scalar, minus
from weft.algebra.schema import TIMESTAMP
from weft.derivation.temporal.delta import changed_table


def push_timeslices(relation: temporal.Temporal) -> temporal.Temporal:
    """Return an equal expression that reads base relations only from the beginning of the change on."""
    return Bounding().bounded(relation)


class Bounding:
    """A rewriting of one expression, with a cache for common subexpressions."""

    def __init__(self) -> None:
        self._bounded: dict[temporal.Temporal, temporal.Temporal] = {}
        self._begin: dict[temporal.Temporal, Scalar | None] = {}
        self._since: dict[tuple[temporal.Temporal, Scalar], temporal.Temporal] = {}

    def bounded(self, relation: temporal.Temporal) -> temporal.Temporal:
        """Return an equal relation.  If one input of an operator begins at a known instant, cut the others at that
        instant.
        """
        if relation not in self._bounded:
            parts = tuple(map(self.bounded, temporal.inputs(relation)))
            self._bounded[relation] = self._bound(temporal.over(relation, parts))
        return self._bounded[relation]

    def _bound(self, relation: temporal.Temporal) -> temporal.Temporal:
        match relation:
            case temporal.Difference(left=left, right=right):
                first = self.begin(left)
                return relation if first is None else temporal.over(relation, (left, self.since(right, first)))
            case Select():
                begins = tuple(map(self.begin, temporal.inputs(relation)))
                first = next((each for each in begins if each is not None), None)
                return relation if first is None else self._join_since(relation, first, begins)
            case temporal.Fragment(input=inner, since=start):
                cut = self.since(inner, start)
                return cut if self.begin(cut) == start else temporal.over(relation, (cut,))
            case _:
                return relation

    def _join_since(
        self, join: temporal.Selection, first: Scalar, begins: tuple[Scalar | None, ...]
    ) -> temporal.Temporal:
        """Cut the inputs without a known beginning, unless the predicate mentions their period sets."""
        spoken_of = temporal.periods_asked(join.predicate)
        parts = (
            self.since(part, first) if begun is None and spoken_of.isdisjoint(_variables(part)) else part
            for part, begun in zip(temporal.inputs(join), begins, strict=True)
        )
        return temporal.over(join, tuple(parts))

    def begin(self, relation: temporal.Temporal) -> Scalar | None:
        """Return an instant before which the relation has no row, or None if no such instant is known."""
        if relation not in self._begin:
            self._begin[relation] = self._begin_of(relation)
        return self._begin[relation]

    def _begin_of(self, relation: temporal.Temporal) -> Scalar | None:
        match relation:
            case temporal.Deleted() | temporal.Inserted():
                return CHANGED_FROM
            case Scan() | Values() | Grouped(groups=()):
                return None
            case temporal.Fragment(since=first):
                return first
            case Union(inputs=parts):
                return self.begin(parts[0]) if len(set(map(self.begin, parts))) == 1 else None
            case Select():
                return next((first for first in map(self.begin, temporal.inputs(relation)) if first is not None), None)
            case temporal.Difference(left=inner) | temporal.Semijoin(left=inner):
                return self.begin(inner)
            case Project(input=inner) | temporal.Extension(input=inner) | Grouped(input=inner):
                return self.begin(inner)

    def since(self, relation: temporal.Temporal, first: Scalar) -> temporal.Temporal:
        """Cut base relations at ``first`` if possible.  The result is correct from ``first`` on."""
        key = (relation, first)
        if key not in self._since:
            self._since[key] = relation if self.begin(relation) == first else self._cut(relation, first)
        return self._since[key]

    def _cut(self, relation: temporal.Temporal, first: Scalar) -> temporal.Temporal:
        match relation:
            case Scan() | temporal.Semijoin(left=Scan()):
                return temporal.Fragment(relation, first)
            case Union() | temporal.Semijoin() if changed_table(getattr(relation, "left", relation)) is not None:
                return temporal.Fragment(relation, first)
            case temporal.Deleted() | temporal.Inserted() | Values() | temporal.Fragment():
                return relation
            case Select():
                return self._join_since(relation, first, (None,) * len(temporal.inputs(relation)))
            case temporal.Extension(input=inner, window=window, at=at):
                earliest = first if at is None else Call("least", (first, at), TIMESTAMP)
                return temporal.over(relation, (self.since(inner, minus(earliest, window)),))
            case temporal.Semijoin(left=left, right=right):
                return temporal.over(relation, (self.since(left, first), right))
            case temporal.Difference() | Union() | Project() | Grouped():
                return temporal.over(relation, tuple(self.since(part, first) for part in temporal.inputs(relation)))


def _variables(relation: temporal.Temporal) -> frozenset[str]:
    return frozenset(ref.scan for ref in temporal.attributes(relation))
