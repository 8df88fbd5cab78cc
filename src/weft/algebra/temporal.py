"""Temporal relations and their operators: the expressions of temporal views (Yang and Widom 1998, sections 3 and 5).

A temporal relation is a set of *tuples*.  A tuple is a row (its explicit attributes) with the set of instants at which
the row holds.  No two tuples have the same row (BCDM), and NULL equals NULL.  The set of instants is stored as maximal
periods [valid_from, valid_to), microseconds UTC.  A NULL ``valid_to`` marks an open period: the row holds now and until
it is changed (NOW in the paper).  No period reaches beyond t_now, the instant of the evaluation; a period that would is
open.

Operators that do not refer to time are τ-reducible: the snapshot of the result at each instant is the ordinary operator
over the snapshots of its inputs.  A predicate that refers to NOW or to a period set (``mentions_time``) is evaluated at
t_now, once per tuple with its full period set; it keeps or removes the tuple with all of its past (θ-reducible).

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

    Its attributes are the table's columns except its start and end.  In a maintenance expression it is the state before
    the change.
    """

    table: TableSchema
    alias: str


@hashed_once
@dataclass(frozen=True)
class Deleted:
    """∇R: the part of a base relation that a change removes."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Inserted:
    """ΔR: the part that a change adds to a base relation."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Constant:
    """Constant rows, which hold since the beginning of time (t0).  Without rows: the empty relation."""

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
    """π: rows of ``outputs``, each with the instants of all tuples that produce it; ``alias`` is the range variable."""

    input: Temporal
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class TemporalJoin:
    """⋈_p: combinations of tuples that share an instant, each with the shared instants (∩)."""

    inputs: tuple[Temporal, ...]
    predicate: Scalar


@hashed_once
@dataclass(frozen=True)
class TemporalUnion:
    """R ∪ S: the rows of both, with the union of their instants.  Columns match by position and have the left names."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Difference:
    """R − S: the rows of the left, minus the instants of the same row on the right.  Columns match by position."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Semijoin:
    """⋉: the tuples of the left, with all their instants, that equal some tuple of the right in the columns ``on``.

    ``on`` pairs columns of the left with columns of the right; NULL equals NULL.  Instants do not matter (section
    4.2.2).
    """

    left: Temporal
    right: Temporal
    on: tuple[tuple[ColumnRef, ColumnRef], ...]


@hashed_once
@dataclass(frozen=True)
class Extension:
    """EX_w: each tuple holds for ``window`` (an INTERVAL) longer after each of its instants (section 5.2).

    ``at`` is the instant of the evaluation (None: t_now).  An extended period that holds at ``at`` or ends after it is
    open and continues until t_now.
    """

    input: Temporal
    window: Scalar
    at: Param | None = None


@hashed_once
@dataclass(frozen=True)
class Aggregation:
    """Π_{A',0}: at each instant, the measures of each group over the rows that hold at that instant (section 5.1).

    A group exists while it has rows.  Without ``groups`` one group exists at all instants since t0; its count is 0
    where no rows hold.  A moving window is an ``Extension`` below: Π_{A',w} = Π_{A',0}(EX_w).
    """

    input: Temporal
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]


@hashed_once
@dataclass(frozen=True)
class Fragment:
    """FR_[since, NOW]: the instants of the tuples from ``since`` on (Theorem 5.3)."""

    input: Temporal
    since: Scalar


Temporal: TypeAlias = (
    "Base | Deleted | Inserted | Constant | Selection | Projection | TemporalJoin | TemporalUnion | Difference"
    " | Semijoin | Extension | Aggregation | Fragment"
)


@lru_cache(maxsize=20_000)
def attributes(relation: Temporal) -> tuple[ColumnRef, ...]:
    """Return the explicit attributes of a temporal relation, in order."""
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
    """Return the same operator over other inputs, in the order of ``inputs``."""
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
    """Return whether a predicate refers to NOW or to a period set, and so is evaluated at t_now (section 3.2.2)."""
    return isinstance(predicate, (Now, PeriodOf)) or any(mentions_time(child) for child in children(predicate))


def periods_asked(scalar: Scalar) -> frozenset[str]:
    """Return the range variables to whose period sets a scalar refers."""
    if isinstance(scalar, PeriodOf):
        return frozenset((scalar.scan,))
    return frozenset().union(*map(periods_asked, children(scalar)))
