"""Define temporal relations and their operators: the expressions of temporal views (Yang and Widom 1998, 3 and 5).

A temporal relation is a set of *tuples*.  A tuple is a row (its explicit attributes) with the set of instants at which
the row is valid.  No two tuples have the same row (BCDM), and NULL equals NULL.  The set of instants is stored as
maximal periods [valid_from, valid_to), microseconds UTC.  A NULL ``valid_to`` marks an open period, in which the row is
valid now and until it is changed (NOW in the paper).  No period extends beyond t_now, the instant of the evaluation; a
period that would extend beyond t_now is open.

Operators that do not refer to time are τ-reducible: the snapshot of the result at each instant is the ordinary operator
over the snapshots of the inputs.  A predicate that refers to NOW or to a period set (``mentions_time``) is evaluated at
t_now, once per tuple with its full period set.  The predicate retains or removes the tuple with all of the tuple's past
(θ-reducible).

Expressions are immutable values: an expression that occurs twice is computed once.  A column is a ``ColumnRef(range
variable, name)``, as elsewhere in the algebra.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import is_
from typing import Final, TypeAlias

from weft.algebra.relation import Measure as Measure
from weft.algebra.relation import Output
from weft.algebra.scalar import ColumnRef, Now, Param, PeriodOf, Scalar, children
from weft.algebra.schema import Column, TableSchema, hashed_once

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"


@hashed_once
@dataclass(frozen=True)
class Base:
    """R: the recorded history of a tracked table, or the stored periods of a view, under the range variable ``alias``.

    The attributes of R are the table's columns except the table's start and end.  In a maintenance expression, R is the
    state before the change.
    """

    table: TableSchema
    alias: str


@hashed_once
@dataclass(frozen=True)
class Deleted:
    """∇R: the tuples and instants that a change removes from the base relation R."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Inserted:
    """ΔR: the tuples and instants that a change adds to the base relation R."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Constant:
    """Constant rows, which are valid from the beginning of time (t0).  Without rows it is the empty relation."""

    alias: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@hashed_once
@dataclass(frozen=True)
class Selection:
    """σ_p: the tuples for which ``predicate`` is true."""

    input: Temporal
    predicate: Scalar


@hashed_once
@dataclass(frozen=True)
class Projection:
    """π: the rows of ``outputs``, each with the instants of all tuples from which the row is computed.

    ``alias`` is the range variable of the rows.
    """

    input: Temporal
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class TemporalJoin:
    """⋈_p: the combinations of tuples that have an instant in common, each with the common instants (∩)."""

    inputs: tuple[Temporal, ...]
    predicate: Scalar


@hashed_once
@dataclass(frozen=True)
class TemporalUnion:
    """R ∪ S: the rows of R and S, each with the union of its instants.

    Columns match by position and have the names of the columns of R.
    """

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Difference:
    """R − S: the rows of R without the instants at which S has the same row.  Columns match by position."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Semijoin:
    """⋉: the left tuples, with all their instants, that equal some right tuple in the columns ``on``.

    ``on`` pairs columns of ``left`` with columns of ``right``; NULL equals NULL.  The comparison ignores instants
    (section 4.2.2).
    """

    left: Temporal
    right: Temporal
    on: tuple[tuple[ColumnRef, ColumnRef], ...]


@hashed_once
@dataclass(frozen=True)
class Extension:
    """EX_w: each tuple, valid for another ``window`` (an INTERVAL) after each of its instants (section 5.2).

    ``at`` is the instant of the evaluation, or None for t_now.  An extended period that includes ``at`` or ends after
    ``at`` is open and continues until t_now.
    """

    input: Temporal
    window: Scalar
    at: Param | None = None


@hashed_once
@dataclass(frozen=True)
class Aggregation:
    """Π_{A',0}: at each instant, the measures of each group over the rows that are valid at that instant (section 5.1).

    A group exists while it has rows.  Without ``groups``, one group exists at all instants since t0, with the count 0
    where no rows are valid.  A moving window is an ``Extension`` below the Aggregation: Π_{A',w} = Π_{A',0}(EX_w).
    """

    input: Temporal
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]


@hashed_once
@dataclass(frozen=True)
class Fragment:
    """FR_[since, NOW]: the tuples restricted to their instants at and after ``since`` (Theorem 5.3)."""

    input: Temporal
    since: Scalar


Temporal: TypeAlias = (
    "Base | Deleted | Inserted | Constant | Selection | Projection | TemporalJoin | TemporalUnion | Difference"
    " | Semijoin | Extension | Aggregation | Fragment"
)


@lru_cache(maxsize=20_000)
def attributes(relation: Temporal) -> tuple[ColumnRef, ...]:
    """Return references to the explicit attributes of a temporal relation, in order."""
    match relation:
        case Base(table=table, alias=alias):
            hidden = (table.start, table.end)
            return tuple(ColumnRef(alias, c.name, c.type) for c in table.columns if c.name not in hidden)
        case Deleted(base=base) | Inserted(base=base):
            return attributes(base)
        case Constant(alias=alias, columns=columns):
            return tuple(ColumnRef(alias, column.name, column.type) for column in columns)
        case Selection(input=inner) | Extension(input=inner) | Fragment(input=inner):
            return attributes(inner)
        case TemporalUnion(left=left) | Difference(left=left) | Semijoin(left=left):
            return attributes(left)
        case TemporalJoin(inputs=inputs):
            return tuple(ref for part in inputs for ref in attributes(part))
        case Projection(alias=alias, outputs=outputs):
            return tuple(ColumnRef(alias, output.name, output.value.type) for output in outputs)
        case Aggregation(alias=alias, groups=groups, measures=measures):
            grouped = tuple(ColumnRef(alias, output.name, output.value.type) for output in groups)
            return (*grouped, *(measure.output for measure in measures))


def inputs(relation: Temporal) -> tuple[Temporal, ...]:
    """Return the direct inputs of an operator."""
    match relation:
        case Base() | Deleted() | Inserted() | Constant():
            return ()
        case Selection(input=inner) | Projection(input=inner) | Extension(input=inner) | Fragment(input=inner):
            return (inner,)
        case Aggregation(input=inner):
            return (inner,)
        case TemporalUnion(left=left, right=right) | Difference(left=left, right=right):
            return (left, right)
        case Semijoin(left=left, right=right):
            return (left, right)
        case TemporalJoin(inputs=parts):
            return parts


def over(relation: Temporal, parts: tuple[Temporal, ...]) -> Temporal:
    """Return a copy of the operator with its direct inputs replaced by ``parts``, in the order of ``inputs``."""
    if all(map(is_, parts, inputs(relation))):
        return relation
    match relation:
        case Base() | Deleted() | Inserted() | Constant():
            return relation
        case TemporalUnion() | Difference() | Semijoin():
            return replace(relation, left=parts[0], right=parts[1])
        case TemporalJoin():
            return replace(relation, inputs=parts)
        case Selection() | Projection() | Extension() | Aggregation() | Fragment():
            return replace(relation, input=parts[0])


def each(relation: Temporal) -> Iterator[Temporal]:
    """Yield the expression and all its subexpressions, outermost first."""
    yield relation
    for part in inputs(relation):
        yield from each(part)


def mentions_time(predicate: Scalar) -> bool:
    """Return whether a predicate refers to NOW or to a period set (section 3.2.2).

    A predicate that refers to time is evaluated at t_now.
    """
    return isinstance(predicate, (Now, PeriodOf)) or any(mentions_time(child) for child in children(predicate))


def periods_asked(scalar: Scalar) -> frozenset[str]:
    """Return the range variables whose period sets occur in ``scalar``."""
    if isinstance(scalar, PeriodOf):
        return frozenset((scalar.scan,))
    return frozenset().union(*map(periods_asked, children(scalar)))
