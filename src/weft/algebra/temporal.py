"""Define temporal relations and the operators of temporal views (Yang and Widom 1998, sections 3 and 5).

A temporal relation is a set of *tuples*.  A tuple is a row (its explicit attributes) together with the set of instants
at which the row is valid.  Two tuples never have the same row (BCDM).  NULL equals NULL.  The set of instants is stored
as maximal periods [valid_from, valid_to), in microseconds UTC.  A NULL ``valid_to`` marks an open period: the row
is still valid, and the end is not known yet (the paper writes NOW as the end).  The instant of the evaluation is t_now.
A period that would extend beyond t_now is stored as an open period.

Operators that do not refer to time are τ-reducible.  The snapshot of the result at an instant is the ordinary operator
applied to the snapshots of the inputs.  A predicate that refers to NOW or to a period set (``mentions_time``) is
evaluated at t_now, once per tuple.  The predicate retains or removes the tuple with its past (θ-reducible).

A ``Scan`` is R, the history of a tracked table or the stored periods of a view.  The attributes of R are all columns of
the table except the start column and the end column.  In a maintenance expression, R is the state before the change.
``Values`` has constant rows, valid from the beginning of time (t0).  Without rows, it is the empty relation.

``Select`` is σ_p: the tuples for which the scalar p is true.  A ``Select`` over a ``Join`` is one operator, ⋈_p: the
combinations of tuples with common instants for which p is true.  A combination is valid at the common instants, but the
period sets in p are those of the join's inputs.  ``Project`` is π, and ``Union`` is ∪.  Their results are sets: the
instants of a row are the union of the instants of its input tuples.  ``Grouped`` is Π_{A',0}: the measures of each
group at each instant, over the rows that are valid at the instant (section 5.1).  A moving window is an ``Extension``
below the ``Grouped``: Π_{A',w} = Π_{A',0}(EX_w).

Expressions are immutable values.  An expression that occurs twice is computed once.  A ``ColumnRef`` refers to a
column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any, Final, TypeAlias, TypeVar, cast

from weft.algebra import traverse
from weft.algebra.relation import Grouped, Join, Project, Scan, Select, Union, Values
from weft.algebra.relation import attributes as columns_bound
from weft.algebra.scalar import ColumnRef, Now, Param, PeriodOf, Scalar
from weft.algebra.schema import hashed_once


@hashed_once
@dataclass(frozen=True)
class Deleted:
    """∇R: the tuples and instants that a change removes from R."""

    base: Scan


@hashed_once
@dataclass(frozen=True)
class Inserted:
    """ΔR: the tuples and instants that a change adds to R."""

    base: Scan


@hashed_once
@dataclass(frozen=True)
class Difference:
    """R − S: the rows of R, without the instants at which S contains an equal row.  Columns match by position."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Semijoin:
    """⋉: the left tuples that equal some right tuple in the columns ``on``.

    ``on`` contains pairs (column of ``left``, column of ``right``).  NULL equals NULL.  The comparison ignores instants
    (section 4.2.2).
    """

    left: Temporal
    right: Temporal
    on: tuple[tuple[ColumnRef, ColumnRef], ...]


@hashed_once
@dataclass(frozen=True)
class Extension:
    """EX_w: each tuple remains valid for a further ``window`` (an INTERVAL) after each of its instants (section 5.2).

    ``at`` is the instant of the evaluation, or None for t_now.  An extended period is open if it ends after ``at``.
    """

    input: Temporal
    window: Scalar
    at: Param | None = None


@hashed_once
@dataclass(frozen=True)
class Fragment:
    """FR_[since, NOW]: the tuples restricted to the instants from ``since`` on (Theorem 5.3)."""

    input: Temporal
    since: Scalar


Temporal: TypeAlias = (
    "Scan | Deleted | Inserted | Values | Selection | Project[Temporal] | Union[Temporal]"
    " | Difference | Semijoin | Extension | Grouped[Temporal] | Fragment"
)

Selection: TypeAlias = "Select[Temporal | Join[Temporal], Scalar]"
"""σ_p, or ⋈_p if the input is a ``Join``."""
T = TypeVar("T", bound="Temporal")

_OWN: Final[dict[type, tuple[str, ...]]] = {
    Deleted: (),
    Inserted: (),
    Difference: ("left", "right"),
    Semijoin: ("left", "right", "on"),
    Extension: ("input", "window", "at"),
    Fragment: ("input", "since"),
}
traverse.PARTS.update(_OWN)


def union(*parts: Temporal) -> Temporal:
    """Return the union ∪ of one or more temporal relations."""
    return parts[0] if len(parts) == 1 else Union("", parts)


@lru_cache(maxsize=20_000)
def attributes(relation: Temporal | Join[Temporal]) -> tuple[ColumnRef, ...]:
    """Return references to the explicit attributes of a temporal relation, in order."""
    match relation:
        case Scan(table=table, alias=alias):
            hidden = (table.start, table.end)
            return tuple(ColumnRef(alias, c.name, c.type) for c in table.columns if c.name not in hidden)
        case Deleted(base=base) | Inserted(base=base):
            return attributes(base)
        case Select(input=inner) | Extension(input=inner) | Fragment(input=inner):
            return attributes(inner)
        case Difference(left=left) | Semijoin(left=left):
            return attributes(left)
        case Union(inputs=parts):
            return attributes(parts[0])
        case Join(inputs=parts):
            return tuple(ref for part in parts for ref in attributes(part))
        case Values() | Project() | Grouped():
            return columns_bound(relation)


def keeps_rows_apart(projection: Project[Temporal]) -> bool:
    """Return whether every input column is an output, so that distinct rows stay distinct."""
    return set(attributes(projection.input)) <= {output.value for output in projection.outputs}


def inputs(relation: Temporal) -> tuple[Temporal, ...]:
    """Return the direct inputs of an operator."""
    if isinstance(relation, Select) and isinstance(relation.input, Join):
        return relation.input.inputs
    return tuple(part for part in _parts(relation) if not traverse.is_scalar(part))


def over(relation: T, parts: tuple[Temporal, ...]) -> T:
    """Return a copy of the operator with the items of ``parts`` as direct inputs, in the order of ``inputs``."""
    if all(map(is_, parts, inputs(relation))):
        return relation
    below = (Join(parts),) if isinstance(relation, Select) and isinstance(relation.input, Join) else parts
    whole: Any = (*below, *scalars(relation))
    return cast("T", traverse.rebuild(cast("Any", relation), whole))


def scalars(relation: Temporal) -> tuple[Scalar, ...]:
    """Return the predicates, outputs, measured values and instants of an operator, without those of its inputs."""
    return tuple(filter(traverse.is_scalar, _parts(relation)))


def _parts(relation: Temporal) -> tuple[Any, ...]:
    return traverse.children(cast("Any", relation))


def each(relation: Temporal) -> Iterator[Temporal]:
    """Yield the relation and all its direct and indirect inputs, outermost first."""
    yield relation
    for part in inputs(relation):
        yield from each(part)


def mentions_time(predicate: Scalar) -> bool:
    """Return whether a predicate refers to NOW or to a period set (section 3.2.2)."""
    return any(isinstance(part, (Now, PeriodOf)) for part in traverse.walk(predicate))


def periods_asked(scalar: Scalar) -> frozenset[str]:
    """Return the range variables whose period sets occur in ``scalar``."""
    return frozenset(part.scan for part in traverse.walk(scalar) if isinstance(part, PeriodOf))
