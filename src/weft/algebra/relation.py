"""Relations and predicates: the operators of a query.

A relation returns rows over *range variables*.  A ``ColumnRef`` names a column of one range variable, and range
variables are unique in a query.  ``Scan``, ``Values``, ``Project`` and ``Union`` bind a range variable; the last two
hide those of their inputs.  The inputs of a ``Join`` may refer to one another's columns, because after a replay one
input supplies the instant at which the others are evaluated.  The relation inside ``Exists`` or ``NotExists`` may refer
to the columns of the surrounding relations.

A ``Predicate`` is two-valued: it is true or not true, and SQL's unknown is not true.  Lowering resolves three-valued
logic (``NOT (a = b)`` becomes a scalar, ``NOT IN`` becomes NotExists over "is not false"), so the rules never see it.
EXISTS remains a predicate with a relation inside, so that the SQL of a branch looks like the user's query.

A ``Key`` is an ORDER BY key over an answer's columns, compared as Spark compares them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Literal as OneOf

from weft.algebra.scalar import ColumnRef, Scalar
from weft.algebra.schema import Column, DataType, TableSchema, hashed_once


@hashed_once
@dataclass(frozen=True)
class Scan:
    """The rows of a table under the range variable ``alias``.

    With ``whole`` it returns all rows of the table's history (``FOR SYSTEM_TIME``), otherwise the rows that hold at the
    instant of the query.
    """

    table: TableSchema
    alias: str
    whole: bool = False

    def ref(self, column: str) -> ColumnRef:
        """Return a column of this scan."""
        match = self.table.column(column)
        assert match is not None, f"{self.table.name} has no column {column}"
        return ColumnRef(self.alias, match.name, match.type)

    @property
    def start(self) -> ColumnRef:
        """The column with the first instant of a row's life."""
        return self.ref(self.table.start)


@hashed_once
@dataclass(frozen=True)
class Values:
    """Constant rows under the range variable ``alias``, with one scalar without column references per column."""

    alias: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@hashed_once
@dataclass(frozen=True)
class Join:
    """The cross product of the inputs.  Its condition is a Select above it.  Without inputs it has one row."""

    inputs: tuple[Relation, ...]


@hashed_once
@dataclass(frozen=True)
class Select:
    """The rows of ``input`` for which ``predicate`` is true."""

    input: Relation
    predicate: Predicate


@hashed_once
@dataclass(frozen=True)
class Output:
    """A named column of a projection."""

    name: str
    value: Scalar


@hashed_once
@dataclass(frozen=True)
class Project:
    """A derived relation: ``outputs`` computed over ``input``, under the range variable ``alias``."""

    input: Relation
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class Union:
    """UNION ALL of the ``inputs``, with columns matched by position, under the range variable ``alias``.

    The columns have the names of the first input.
    """

    alias: str
    inputs: tuple[Relation, ...]


@hashed_once
@dataclass(frozen=True)
class Distinct:
    """The distinct rows of ``input``; NULL equals NULL."""

    input: Relation


@hashed_once
@dataclass(frozen=True)
class Measure:
    """An aggregate over the input's columns: ``COUNT(*)`` (no argument), COUNT, SUM, AVG, MIN or MAX of a scalar."""

    function: OneOf["count", "sum", "avg", "min", "max"]
    argument: Scalar | None
    output: ColumnRef


@hashed_once
@dataclass(frozen=True)
class Grouped:
    """GROUP BY of a temporal view: ``groups`` and ``measures`` over ``input``, under the range variable ``alias``.

    ``window`` is the length (an INTERVAL) of the moving window, or None to aggregate only the rows that hold at the
    instant (see ``algebra.temporal.Aggregation``).  A standing query has no window.
    """

    input: Relation
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]
    window: Scalar | None = None


Relation: TypeAlias = "Scan | Values | Join | Select | Project | Union | Distinct | Grouped"
Source: TypeAlias = "Scan | Values | Project | Union | Distinct | Grouped"
"""An item of FROM: a relation that is neither a join nor a selection."""


@hashed_once
@dataclass(frozen=True)
class Plain:
    """A scalar condition that does not depend on time."""

    condition: Scalar


@hashed_once
@dataclass(frozen=True)
class And:
    """The conjunction of ``items``; true without items."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class Or:
    """The disjunction of ``items``; false without items."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class NowFrom:
    """NOW >= threshold; never true if the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class NowBefore:
    """NOW < threshold; never true if the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class Exists:
    """True if ``body`` has a row (A ⋉ B)."""

    body: Relation


@hashed_once
@dataclass(frozen=True)
class NotExists:
    """True if ``body`` has no row (A ▷ B)."""

    body: Relation


Predicate: TypeAlias = "Plain | And | Or | NowFrom | NowBefore | Exists | NotExists"

TRUE = And(())
FALSE = Or(())
UNIT = Join(())
"""The relation with one row and no columns: the input of a predicate's events."""


@hashed_once
@dataclass(frozen=True)
class Query:
    """The distinct rows of ``outputs`` over ``input``: the answer of a standing query."""

    input: Relation
    outputs: tuple[Output, ...]

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the answer's columns."""
        return tuple(output.value.type for output in self.outputs)


@hashed_once
@dataclass(frozen=True)
class ViewSchema(TableSchema):
    """The schema of a temporal view: a table of its stored periods.

    A view that ``depends_on_now`` is evaluated at one instant when it is read, and its stored periods are those of that
    instant.  A standing query is evaluated at every instant, so it reads the ``definition`` of such a view instead of
    the stored periods (design section 11).  The definition is the bound query of the view, or None if the caller did
    not ask for it.
    """

    depends_on_now: bool = False
    definition: Query | None = field(default=None, compare=False, repr=False)


def needs_definition(table: TableSchema) -> bool:
    """Return whether a standing query reads this view's definition instead of its stored periods."""
    return isinstance(table, ViewSchema) and table.depends_on_now


def conjunction(*predicates: Predicate) -> Predicate:
    """Return the AND of predicates, with nested ANDs flattened and duplicates removed.

    >>> conjunction(TRUE, Or(()), Or(())) == Or(())
    True
    """
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == FALSE:
            return FALSE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, And) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else And(tuple(items))


def disjunction(*predicates: Predicate) -> Predicate:
    """Return the OR of predicates, with nested ORs flattened and duplicates removed."""
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, Or) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else Or(tuple(items))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the conjuncts of a predicate."""
    return predicate.items if isinstance(predicate, And) else (predicate,)


def sources(relation: Relation) -> tuple[Source, ...]:
    """Return the sources below joins and selections: the items of FROM."""
    match relation:
        case Join(inputs=inputs):
            return tuple(source for part in inputs for source in sources(part))
        case Select(input=inner):
            return sources(inner)
        case Scan() | Values() | Project() | Union() | Distinct() | Grouped():
            return (relation,)


def condition(relation: Relation) -> Predicate:
    """Return the condition on the sources of a relation: its WHERE."""
    match relation:
        case Join(inputs=inputs):
            return conjunction(*(condition(part) for part in inputs))
        case Select(input=inner, predicate=predicate):
            return conjunction(condition(inner), predicate)
        case Scan() | Values() | Project() | Union() | Distinct() | Grouped():
            return TRUE


def block(parts: tuple[Relation, ...], demanded: Predicate) -> Relation:
    """Return the relation with these sources and this condition."""
    joined: Relation = parts[0] if len(parts) == 1 else Join(parts)
    return joined if demanded == TRUE else Select(joined, demanded)


def attributes(relation: Relation) -> tuple[ColumnRef, ...]:
    """Return the columns of a relation, in order."""
    match relation:
        case Scan(table=table, alias=alias):
            return tuple(ColumnRef(alias, column.name, column.type) for column in table.columns)
        case Values(alias=alias, columns=columns):
            return tuple(ColumnRef(alias, column.name, column.type) for column in columns)
        case Join(inputs=inputs):
            return tuple(ref for part in inputs for ref in attributes(part))
        case Select(input=inner) | Distinct(input=inner):
            return attributes(inner)
        case Project(alias=alias, outputs=outputs):
            return tuple(ColumnRef(alias, output.name, output.value.type) for output in outputs)
        case Union(alias=alias, inputs=inputs):
            return tuple(ColumnRef(alias, ref.column, ref.type) for ref in attributes(inputs[0]))
        case Grouped(alias=alias, groups=groups, measures=measures):
            grouped = tuple(ColumnRef(alias, output.name, output.value.type) for output in groups)
            return (*grouped, *(measure.output for measure in measures))


@dataclass(frozen=True)
class Key:
    """A sort key: a column number (from 0), a direction, and whether NULLs sort first in either direction."""

    column: int
    descending: bool = False
    nulls_first: bool = True


def compared(keys: Sequence[Key], left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return a negative number if ``left`` sorts first, a positive one if ``right`` does, 0 if the keys are equal.

    >>> compared([Key(0, descending=True, nulls_first=False)], ["a"], [None])
    -1
    >>> compared([Key(0)], [float("nan")], [1.0])
    1
    """
    for key in keys:
        one, other = left[key.column], right[key.column]
        if one is None or other is None:
            if one is not other:
                return -1 if (one is None) == key.nulls_first else 1
            continue
        one, other = _ranked(one), _ranked(other)
        if one != other:
            return -1 if (one < other) != key.descending else 1
    return 0


def _ranked(value: Any) -> tuple[bool, Any]:
    """Return a sortable value in which NaN equals itself and exceeds every other number."""
    undefined = isinstance(value, float) and math.isnan(value)
    return undefined, 0.0 if undefined else value
