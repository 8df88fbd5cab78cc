"""Temporal relations and their operators: what a temporal view is (Yang and Widom 1998, sections 3 and 5).

A temporal relation is a set of *tuples*: a row (its explicit attributes) with the set of instants at which it holds,
two NULLs being the same when rows are told apart.  A row occurs in one tuple only (BCDM).  The set is kept as maximal
periods [valid_from, valid_to), microseconds UTC; a ``valid_to`` that is NULL is open: it holds now, and until
changed (NOW in the paper).  No period reaches beyond t_now, the instant at which an expression is asked; one that
would is open.

Operators without a word on time are τ-reducible: the snapshot of the result at each instant is the ordinary operator
over the snapshots of its inputs.  A predicate that speaks of NOW or of a period set (``mentions_time``) is judged at
t_now, once a tuple with its whole period set; it keeps the tuple with all of its past, or leaves it out (θ-reducible).

Expressions are immutable values; equal ones are the same expression, so that what occurs twice is computed once.
Columns are named as elsewhere in the algebra, ``ColumnRef(range variable, name)``.
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
    """R: the recorded history of a tracked table, or a kept view, under the range variable ``alias``.

    Its attributes are the table's columns but for its start and end.  In a maintenance expression it is the state
    before the change.
    """

    table: TableSchema
    alias: str


@hashed_once
@dataclass(frozen=True)
class Deleted:
    """∇R: what a change takes out of a base relation."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Inserted:
    """ΔR: what a change puts into a base relation."""

    base: Base


@hashed_once
@dataclass(frozen=True)
class Constant:
    """Constant rows, which hold since time began (t0).  Without rows: the empty relation."""

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
    """π: rows of ``outputs``, each with the instants of all tuples that give it; under the range variable ``alias``."""

    input: Temporal
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class TemporalJoin:
    """⋈_p: combinations of tuples that share an instant, with the instants they share (∩)."""

    inputs: tuple[Temporal, ...]
    predicate: Scalar


@hashed_once
@dataclass(frozen=True)
class TemporalUnion:
    """R ∪ S: rows of either with the instants of both, columns by position, named as the left one's."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Difference:
    """R − S: rows of the left with their instants less those of the same row on the right, columns by position."""

    left: Temporal
    right: Temporal


@hashed_once
@dataclass(frozen=True)
class Semijoin:
    """⋉: the tuples of the left, with all their instants, that agree with some tuple of the right in ``on``.

    ``on`` pairs columns of the left with columns of the right; two NULLs agree.  Instants do not matter (section
    4.2.2).
    """

    left: Temporal
    right: Temporal
    on: tuple[tuple[ColumnRef, ColumnRef], ...]


@hashed_once
@dataclass(frozen=True)
class Extension:
    """EX_w: each tuple holds for ``window`` (an INTERVAL) longer after each of its instants (section 5.2).

    ``at`` is the instant as of which it is judged (None: t_now): a longer period that holds at ``at`` or reaches
    beyond it is open, and goes on until t_now.
    """

    input: Temporal
    window: Scalar
    at: Param | None = None


@hashed_once
@dataclass(frozen=True)
class Aggregation:
    """Π_{A',0}: at each instant the measures of each group, over the rows that hold then (section 5.1).

    A group is there while it has rows; without ``groups`` there is one, at all instants since t0, with a count of 0
    where there are none.  A moving window is an ``Extension`` below it: Π_{A',w} = Π_{A',0}(EX_w).
    """

    input: Temporal
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]


@hashed_once
@dataclass(frozen=True)
class Fragment:
    """FR_[since, NOW]: what the tuples have from the instant ``since`` on (Theorem 5.3)."""

    input: Temporal
    since: Scalar


Temporal: TypeAlias = (
    "Base | Deleted | Inserted | Constant | Selection | Projection | TemporalJoin | TemporalUnion | Difference"
    " | Semijoin | Extension | Aggregation | Fragment"
)


@lru_cache(maxsize=20_000)
def attributes(relation: Temporal) -> tuple[ColumnRef, ...]:
    """The explicit attributes of a temporal relation, in their order."""
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
    """The relations directly below."""
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
    """The same operator over other inputs, as many as ``inputs`` gives."""
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
    """The expression and everything below it, outermost first."""
    yield relation
    for part in inputs(relation):
        yield from each(part)


def mentions_time(predicate: Scalar) -> bool:
    """Whether a predicate speaks of NOW or of a period set, so that it is judged at t_now (section 3.2.2)."""
    return isinstance(predicate, (Now, PeriodOf)) or any(mentions_time(child) for child in children(predicate))


def periods_asked(scalar: Scalar) -> frozenset[str]:
    """The range variables whose period sets a scalar speaks of."""
    if isinstance(scalar, PeriodOf):
        return frozenset((scalar.scan,))
    return frozenset().union(*map(periods_asked, children(scalar)))
