"""Relations and predicates: what a query is, as operators.

A relation gives rows over *range variables*: a ``ColumnRef`` names a column of one of them, and range variables are
unique in a whole query.  ``Scan``, ``Values``, ``Project`` and ``Union`` bind a range variable of their own, the last
two hide those of their inputs.  The inputs of a ``Join`` may mention one another's columns (after a replay one of them
gives the instant at which the others are judged), and the relation inside ``Exists`` or ``NotExists`` those of the
relations around it.

A ``Predicate`` is two-valued: it says whether something *is true*, SQL's unknown counting as not true.  Three-valued
logic is settled when SQL is lowered (``NOT (a = b)`` becomes the scalar, ``NOT IN`` becomes NotExists over "is not
false"), so that the rules never meet it.  EXISTS stays a predicate with a relation inside: that keeps the SQL of a
branch the user's own query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from weft.algebra.scalar import ColumnRef, Scalar
from weft.algebra.schema import Column, DataType, TableSchema, hashed_once


@hashed_once
@dataclass(frozen=True)
class Scan:
    """The rows of a table under the range variable ``alias``.

    With ``whole`` all that ever held, at any instant (``FOR SYSTEM_TIME``), else those that hold at the query's.
    """

    table: TableSchema
    alias: str
    whole: bool = False

    def ref(self, column: str) -> ColumnRef:
        """A column of this scan."""
        found = self.table.column(column)
        assert found is not None, f"{self.table.name} has no column {column}"
        return ColumnRef(self.alias, found.name, found.type)

    @property
    def start(self) -> ColumnRef:
        """The column that holds the first instant of a row's life."""
        return self.ref(self.table.start)


@hashed_once
@dataclass(frozen=True)
class Values:
    """Constant rows under the range variable ``alias``; each row has a scalar without columns for each column."""

    alias: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@hashed_once
@dataclass(frozen=True)
class Join:
    """Every combination of rows of the inputs (A ⋈ B, its condition being a Select above); of no input: one row."""

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
    """A column of a projection."""

    name: str
    value: Scalar


@hashed_once
@dataclass(frozen=True)
class Project:
    """``outputs`` over ``input``, under the range variable ``alias``: a derived relation."""

    input: Relation
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class Union:
    """The rows of all ``inputs``, duplicates kept, columns by position, under the range variable ``alias``.

    The columns have the names of the first input's.
    """

    alias: str
    inputs: tuple[Relation, ...]


@hashed_once
@dataclass(frozen=True)
class Distinct:
    """The rows of ``input``, each once (two NULLs being the same)."""

    input: Relation


@hashed_once
@dataclass(frozen=True)
class Measure:
    """An aggregate: ``COUNT(*)`` (no argument), COUNT, SUM, AVG, MIN or MAX of a scalar over the input's columns."""

    function: OneOf["count", "sum", "avg", "min", "max"]
    argument: Scalar | None
    output: ColumnRef


@hashed_once
@dataclass(frozen=True)
class Grouped:
    """GROUP BY of a temporal view: ``groups`` and ``measures`` over ``input``, under the range variable ``alias``.

    ``window`` is the length (an INTERVAL) of the moving window, None for what holds at the instant alone; see
    ``algebra.temporal.Aggregation``.  A standing query has none.
    """

    input: Relation
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]
    window: Scalar | None = None


Relation: TypeAlias = "Scan | Values | Join | Select | Project | Union | Distinct | Grouped"
Source: TypeAlias = "Scan | Values | Project | Union | Distinct | Grouped"
"""What FROM lists: a relation that is neither a join nor a selection."""


@hashed_once
@dataclass(frozen=True)
class Plain:
    """A scalar condition that does not change with time."""

    condition: Scalar


@hashed_once
@dataclass(frozen=True)
class And:
    """All of ``items``; of none: true."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class Or:
    """At least one of ``items``; of none: false."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class NowFrom:
    """NOW >= threshold.  Never, where the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class NowBefore:
    """NOW < threshold.  Never, where the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class Exists:
    """``body`` has a row (A ⋉ B)."""

    body: Relation


@hashed_once
@dataclass(frozen=True)
class NotExists:
    """``body`` has no row (A ▷ B)."""

    body: Relation


Predicate: TypeAlias = "Plain | And | Or | NowFrom | NowBefore | Exists | NotExists"

TRUE = And(())
FALSE = Or(())
UNIT = Join(())
"""The relation of one row without columns: what a predicate's events are over."""


@hashed_once
@dataclass(frozen=True)
class Query:
    """The distinct rows of ``outputs`` over ``input``: what a standing query's answer is."""

    input: Relation
    outputs: tuple[Output, ...]

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the answer's columns."""
        return tuple(output.value.type for output in self.outputs)


@hashed_once
@dataclass(frozen=True)
class ViewSchema(TableSchema):
    """A temporal view as queries see it: the table of its kept periods.

    A view that ``depends_on_now`` is judged at one instant when it is read, and its kept periods are what held then.  A
    standing query is asked at every instant, so it has the ``definition`` of such a view in the place of the periods
    (design section 11).  The definition is the view as it was bound; None where it was not asked for.
    """

    depends_on_now: bool = False
    definition: Query | None = field(default=None, compare=False, repr=False)


def needs_definition(table: TableSchema) -> bool:
    """Whether a standing query has the definition of this view in the place of its kept periods."""
    return isinstance(table, ViewSchema) and table.depends_on_now


def conjunction(*predicates: Predicate) -> Predicate:
    """AND with nested ANDs opened and doubles left out.

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
    """OR with nested ORs opened and doubles left out."""
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, Or) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else Or(tuple(items))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """What must all be true."""
    return predicate.items if isinstance(predicate, And) else (predicate,)


def sources(relation: Relation) -> tuple[Source, ...]:
    """What a relation combines, through joins and selections: what FROM lists."""
    match relation:
        case Join(inputs=inputs):
            return tuple(source for part in inputs for source in sources(part))
        case Select(input=inner):
            return sources(inner)
        case Scan() | Values() | Project() | Union() | Distinct() | Grouped():
            return (relation,)


def condition(relation: Relation) -> Predicate:
    """What a relation demands of the combinations of its sources: what WHERE says."""
    match relation:
        case Join(inputs=inputs):
            return conjunction(*(condition(part) for part in inputs))
        case Select(input=inner, predicate=predicate):
            return conjunction(condition(inner), predicate)
        case Scan() | Values() | Project() | Union() | Distinct() | Grouped():
            return TRUE


def block(parts: tuple[Relation, ...], demanded: Predicate) -> Relation:
    """The relation with these sources and this condition."""
    joined: Relation = parts[0] if len(parts) == 1 else Join(parts)
    return joined if demanded == TRUE else Select(joined, demanded)


def attributes(relation: Relation) -> tuple[ColumnRef, ...]:
    """The columns that a relation gives, in their order."""
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
