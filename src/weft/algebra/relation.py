"""Define relations and predicates, the operators of a query.

A relation returns rows over *range variables*.  A ``ColumnRef`` names a column of one range variable.  Range variables
are unique in a query.  ``Scan``, ``Values``, ``Project`` and ``Union`` bind a range variable.  ``Project`` and
``Union`` hide the range variables of their inputs.  Inputs of a ``Join`` may refer to columns of other inputs.  In a
replay, one input supplies the instant at which other inputs are evaluated.  The relation inside ``Exists`` or
``NotExists`` may refer to the columns of the surrounding relations.

A ``Predicate`` is true or not true.  The unknown truth value of SQL counts as not true.  Lowering removes three-valued
logic.  For example, ``NOT (a = b)`` becomes a scalar.  ``NOT IN`` becomes a ``NotExists`` with the condition that the
equality is not false.  EXISTS remains a predicate with a relation inside.  The SQL of a branch therefore resembles the
user's query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias
from typing import Literal as OneOf

from typing_extensions import TypeVar

from weft.algebra.calendar import within_calendar
from weft.algebra.scalar import (
    NEGATED,
    TICK_END,
    TICK_START,
    TIME_START,
    Call,
    ColumnRef,
    Scalar,
    call,
    mentions_now,
    shifted,
)
from weft.algebra.schema import Column, DataType, TableSchema, hashed_once

R = TypeVar("R", covariant=True, default="Relation")
"""The inputs of an operator: relations of a query, or temporal relations (``algebra.temporal``)."""
P = TypeVar("P", covariant=True, default="Predicate")
"""The condition of a selection: a predicate, or a scalar in a temporal relation."""


@hashed_once
@dataclass(frozen=True)
class Scan:
    """The rows of a table, with the range variable ``alias``.

    If ``whole`` is true, the scan returns all rows of the table's history (``FOR SYSTEM_TIME``).  Otherwise, the scan
    returns the rows that are valid at the instant of the query.
    """

    table: TableSchema
    alias: str
    whole: bool = False

    def ref(self, column: str) -> ColumnRef:
        """Return a reference to the named column of this scan."""
        match = self.table.column(column)
        assert match is not None, f"{self.table.name} has no column {column}"
        return ColumnRef(self.alias, match.name, match.type)

    @property
    def start(self) -> ColumnRef:
        """The column that contains the start time of each row."""
        return self.ref(self.table.start)


@hashed_once
@dataclass(frozen=True)
class Values:
    """Constant rows, with the range variable ``alias``.

    Each row has one scalar per column.  The scalars do not refer to columns.
    """

    alias: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@hashed_once
@dataclass(frozen=True)
class Join(Generic[R]):
    """The cross product of the inputs.  A ``Join`` without inputs has one row.

    The ``Select`` above a ``Join`` contains the join condition.
    """

    inputs: tuple[R, ...]


@hashed_once
@dataclass(frozen=True)
class Select(Generic[R, P]):
    """The rows of ``input`` for which ``predicate`` is true."""

    input: R
    predicate: P


@hashed_once
@dataclass(frozen=True)
class Output:
    """A named column of a projection and the scalar that computes it."""

    name: str
    value: Scalar


@hashed_once
@dataclass(frozen=True)
class Project(Generic[R]):
    """A derived relation with the range variable ``alias``, which computes ``outputs`` from each row of ``input``."""

    input: R
    alias: str
    outputs: tuple[Output, ...]


@hashed_once
@dataclass(frozen=True)
class Union(Generic[R]):
    """UNION ALL of the ``inputs``, with the range variable ``alias``.

    Columns match by position and have the names of the first input.  A union of temporal relations has no alias (""),
    and has the columns of the first input.
    """

    alias: str
    inputs: tuple[R, ...]


@hashed_once
@dataclass(frozen=True)
class Distinct:
    """The distinct rows of ``input``.  NULL equals NULL."""

    input: Relation


AggregateFunction: TypeAlias = OneOf[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "median",
    "min_by",
    "max_by",
    "stddev_samp",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "array_agg",
    "collect_set",
]
"""An aggregate.  BOOL_AND and BOOL_OR are MIN and MAX of a BOOLEAN.  COUNT_IF and FILTER are aggregates of a CASE."""


@hashed_once
@dataclass(frozen=True)
class Measure:
    """An aggregate of a scalar over the rows of the input.

    ``argument`` is None for ``COUNT(*)``.  The aggregate ignores rows in which the argument is NULL.  If ``distinct``
    is true, the aggregate counts equal arguments once.  MIN_BY and MAX_BY return the argument of the row with the
    least or the greatest value of ``by``, and ignore rows in which ``by`` is NULL.  Among equal values of ``by``, the
    least argument wins.  ARRAY_AGG and COLLECT_SET return their values in ascending order.
    """

    function: AggregateFunction
    argument: Scalar | None
    output: ColumnRef
    distinct: bool = False
    by: Scalar | None = None


@hashed_once
@dataclass(frozen=True)
class Grouped(Generic[R]):
    """GROUP BY: ``groups`` and ``measures`` over the rows of ``input``, with the range variable ``alias``.

    A group exists while it has rows.  If ``groups`` is empty, one group exists at all instants since t0.

    ``window`` is the length of the moving window of a temporal view (an INTERVAL), or None for the rows that are valid
    at the instant.  A standing query has no window, and a temporal relation has an ``Extension`` instead.
    """

    input: R
    alias: str
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]
    window: Scalar | None = None


@hashed_once
@dataclass(frozen=True)
class SortKey:
    """An item of ORDER BY in a window function.  ``nulls_first`` has the same meaning in both directions."""

    value: Scalar
    descending: bool = False
    nulls_first: bool = True


RankingFunction: TypeAlias = OneOf["row_number", "rank", "dense_rank"]
ValueFunction: TypeAlias = OneOf["lag", "lead", "first_value", "last_value", "nth_value"]


@hashed_once
@dataclass(frozen=True)
class Frame:
    """The frame of a window function: the rows from ``start`` to ``end`` around the current row.

    The bounds are offsets from the current row: a negative offset precedes the row, and 0 is the current row.  None is
    unbounded.  The offsets of ROWS are integers.  Those of RANGE are integers, or microseconds if the order is a
    TIMESTAMP.
    """

    unit: OneOf["rows", "range"]
    start: int | None
    end: int | None


@hashed_once
@dataclass(frozen=True)
class WindowFunction:
    """A function over the rows of a partition in the order of ``order``, as the column ``output``.

    ``args`` are the arguments, such as the value, the offset and the default of LAG.  ``frame`` is None for functions
    without a frame, and for aggregates over a whole partition, whose ``order`` is empty.  The order of ROW_NUMBER, of
    the value functions and of ROWS frames is total: its last keys are the columns of ``Windowed.outputs``.
    """

    function: RankingFunction | ValueFunction | AggregateFunction
    args: tuple[Scalar, ...]
    order: tuple[SortKey, ...]
    frame: Frame | None
    output: ColumnRef


@hashed_once
@dataclass(frozen=True)
class Windowed:
    """The rows of ``input`` with window functions, with the range variable ``alias``.

    The columns are ``outputs``, which are computed from each row of the input, and a column for each function.  All
    functions have the same ``partition``.  Rows are equal in a partition if NULL equals NULL.  If ``most`` is given,
    the only function is a rank, and the query needs only the rows with a rank up to ``most``.
    """

    input: Relation
    alias: str
    outputs: tuple[Output, ...]
    partition: tuple[Scalar, ...]
    functions: tuple[WindowFunction, ...]
    most: Scalar | None = None


@hashed_once
@dataclass(frozen=True)
class Unnest:
    """The elements of an ARRAY, or the entries of a MAP, as rows with the range variable ``alias``.

    ``value`` names columns of other inputs of the surrounding ``Join``.  The columns are the position (from 0) if
    ``positions`` is true, and then the element, or its two fields, or the key and the value.  If ``outer`` is true, an
    empty or NULL value has one row of NULLs.
    """

    value: Scalar
    alias: str
    columns: tuple[Column, ...]
    positions: bool = False
    outer: bool = False


@hashed_once
@dataclass(frozen=True)
class Materialized:
    """The rows of ``input``, which a tick computes once, with the range variable ``alias``.

    A query may contain several such relations with the same input.  They are the copies of one relation, so the range
    variables of the input occur in each of them.
    """

    input: Project
    alias: str


@hashed_once
@dataclass(frozen=True)
class Recurrence:
    """The rows that the last round of the recursion ``name`` found, with the range variable ``alias``."""

    name: str
    alias: str
    columns: tuple[Column, ...]


@hashed_once
@dataclass(frozen=True)
class Recursive:
    """WITH RECURSIVE ``name``: the rows of ``seed``, and the rows that ``step`` derives from them, round after round.

    The columns have the names and the types of ``seed``.  Each block of ``step`` has one ``Recurrence``, which is an
    item of its FROM.  If ``duplicates`` is true (UNION ALL), a row occurs once for each way to derive it.  Otherwise
    (UNION), a row occurs once, and a round passes on only rows that no earlier round found.
    """

    name: str
    alias: str
    seed: Source
    step: Source
    duplicates: bool


Relation: TypeAlias = (
    "Scan | Values | Join | Select | Project | Union | Distinct | Grouped | Windowed | Unnest | Materialized"
    " | Recurrence | Recursive"
)
Source: TypeAlias = (
    "Scan | Values | Project | Union | Distinct | Grouped | Windowed | Unnest | Materialized | Recurrence | Recursive"
)
"""An item of FROM: a relation that is neither a join nor a selection."""


@hashed_once
@dataclass(frozen=True)
class Plain:
    """A scalar condition that does not depend on time."""

    condition: Scalar


@hashed_once
@dataclass(frozen=True)
class And:
    """The conjunction of ``items``.  An empty conjunction is true."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class Or:
    """The disjunction of ``items``.  An empty disjunction is false."""

    items: tuple[Predicate, ...]


@hashed_once
@dataclass(frozen=True)
class NowFrom:
    """The predicate NOW >= ``threshold``, which is not true if the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class NowBefore:
    """The predicate NOW < ``threshold``, which is not true if the threshold is NULL."""

    threshold: Scalar


@hashed_once
@dataclass(frozen=True)
class Exists:
    """The predicate that ``body`` has at least one row (A ⋉ B)."""

    body: Relation


@hashed_once
@dataclass(frozen=True)
class NotExists:
    """The predicate that ``body`` has no row (A ▷ B)."""

    body: Relation


@hashed_once
@dataclass(frozen=True)
class Turns:
    """A comparison with NOW that turns several times, such as ``ts > NOW() - INTERVAL 1 MONTH``.

    ``turns`` are conditions of the form NOW >= c, in order: each is true only if the one before it is true.  The
    comparison is true at the start of time if ``begun`` is true, and it turns where one of the conditions becomes true.
    A turn on the clock of a zone is a ``Turns``, too.  If a threshold is NULL, all are, and the comparison is unknown.
    """

    comparison: Scalar
    turns: tuple[NowFrom | Turns, ...]
    begun: bool

    @property
    def items(self) -> tuple[Predicate, ...]:
        """The periods in which the comparison is true, in the order of time.  They exclude each other."""
        bounds: list[Predicate] = [TRUE] if self.begun else []
        for number, turn in enumerate(self.turns, 1 if self.begun else 0):
            bounds.append(turn if number % 2 == 0 else opposite(turn))
        return tuple(conjunction(*bounds[first : first + 2]) for first in range(0, len(bounds), 2))

    @property
    def unknown(self) -> Plain:
        """The condition that the comparison is neither true nor false."""
        other = turn_value(self)
        if not within_calendar(other):  # the thresholds are NULL outside the calendar, too
            return Plain(call("is null", first_threshold(self.turns[0])))
        parts = shifted(other)
        return Plain(call("is null", other if parts.intervals else parts.base))


def opposite(turn: NowFrom | NowBefore | Turns) -> NowFrom | NowBefore | Turns:
    """Return the predicate that a condition on NOW is false.  It is not true if the threshold is NULL."""
    match turn:
        case NowFrom(threshold=threshold):
            return NowBefore(threshold)
        case NowBefore(threshold=threshold):
            return NowFrom(threshold)
        case Turns(comparison=comparison):
            assert isinstance(comparison, Call)
            return replace(turn, comparison=call(NEGATED[comparison.name], *comparison.args), begun=not turn.begun)


def first_threshold(turn: NowFrom | Turns) -> Scalar:
    """Return the first threshold at which the condition turns."""
    return first_threshold(turn.turns[0]) if isinstance(turn, Turns) else turn.threshold


def turn_value(turn: NowFrom | Turns) -> Scalar:
    """Return the value that NOW, or the function of NOW in a comparison, reaches at the turn."""
    if isinstance(turn, NowFrom):
        return turn.threshold
    assert isinstance(turn.comparison, Call)
    return next(each for each in turn.comparison.args if not mentions_now(each))


Predicate: TypeAlias = "Plain | And | Or | NowFrom | NowBefore | Turns | Exists | NotExists"

TRUE = And(())
FALSE = Or(())
UNIT = Join(())
"""The relation with one row and no columns.  Events of a predicate use this relation as input."""


@hashed_once
@dataclass(frozen=True)
class Query:
    """A standing query.  The answer is the set of distinct rows of ``outputs`` over ``input``."""

    input: Relation
    outputs: tuple[Output, ...]

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the answer's columns."""
        return tuple(output.value.type for output in self.outputs)


@hashed_once
@dataclass(frozen=True)
class ViewSchema(TableSchema):
    """The schema of the table that stores the periods of a temporal view.

    If ``depends_on_now`` is true, the stored periods hold only for the instant of the view's last evaluation.  Standing
    queries read the ``definition`` of a view that depends on NOW (design section 11).  ``definition`` is the view's
    query after name resolution, or None if the caller did not request it.
    """

    depends_on_now: bool = False
    definition: Query | None = field(default=None, compare=False, repr=False)


@hashed_once
@dataclass(frozen=True)
class StateSchema(TableSchema):
    """The schema of a stateful operator's rows, with their periods in the window of a tick.

    ``operator`` is a ``Grouped``, ``Windowed``, ``Distinct``, ``Union``, ``Project`` or ``Recursive`` whose inputs
    contain no stateful operator.  Stateful operators below it are scans of other states.  ``window`` contains τ, t and
    t0.  A row that begins before τ begins at τ - 1 µs, and a row that does not end before t has no end.

    ``names`` are the operator's range variables in the query's text, in the order of ``traverse.range_variables``.
    States that differ only in ``names`` are equal.  The name of a state is a digest of its operator and window, and
    stands for both in ``repr``.
    """

    operator: Relation = field(default=UNIT, repr=False)
    window: tuple[Scalar, Scalar, Scalar] = field(default=(TICK_START, TICK_END, TIME_START), repr=False)
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)


def needs_definition(table: TableSchema) -> bool:
    """Return whether a standing query must read the definition of the view ``table``."""
    return isinstance(table, ViewSchema) and table.depends_on_now


def conjunction(*predicates: Predicate) -> Predicate:
    """Return the AND of ``predicates``.  Flatten nested ANDs and remove duplicates.

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
    """Return the OR of ``predicates``.  Flatten nested ORs and remove duplicates."""
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, Or) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else Or(tuple(items))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the items of a conjunction.  For any other predicate, return the predicate itself."""
    return predicate.items if isinstance(predicate, And) else (predicate,)


def sources(relation: Relation) -> tuple[Source, ...]:
    """Return the items of the relation's FROM clause."""
    match relation:
        case Join(inputs=inputs):
            return tuple(source for part in inputs for source in sources(part))
        case Select(input=inner):
            return sources(inner)
        case _:
            return (relation,)


def condition(relation: Relation) -> Predicate:
    """Return the relation's WHERE condition: the conjunction of its ``Select`` predicates."""
    match relation:
        case Join(inputs=inputs):
            return conjunction(*(condition(part) for part in inputs))
        case Select(input=inner, predicate=predicate):
            return conjunction(condition(inner), predicate)
        case _:
            return TRUE


def block(parts: tuple[Relation, ...], demanded: Predicate) -> Relation:
    """Return a relation that joins ``parts`` on the condition ``demanded``."""
    joined: Relation = parts[0] if len(parts) == 1 else Join(parts)
    return joined if demanded == TRUE else Select(joined, demanded)


def attributes(relation: Relation | Project[Any] | Grouped[Any]) -> tuple[ColumnRef, ...]:
    """Return references to the columns of ``relation``, in order."""
    match relation:
        case Scan(table=table, alias=alias):
            return tuple(ColumnRef(alias, column.name, column.type) for column in table.columns)
        case (
            Values(alias=alias, columns=columns)
            | Unnest(alias=alias, columns=columns)
            | Recurrence(alias=alias, columns=columns)
        ):
            return tuple(ColumnRef(alias, column.name, column.type) for column in columns)
        case Join(inputs=inputs):
            return tuple(ref for part in inputs for ref in attributes(part))
        case Select(input=inner) | Distinct(input=inner):
            return attributes(inner)
        case Project(alias=alias, outputs=outputs) | Materialized(input=Project(outputs=outputs), alias=alias):
            return tuple(ColumnRef(alias, output.name, output.value.type) for output in outputs)
        case Union(alias=alias, inputs=inputs):
            return tuple(ColumnRef(alias, ref.column, ref.type) for ref in attributes(inputs[0]))
        case Recursive(alias=alias, seed=seed):
            return tuple(ColumnRef(alias, ref.column, ref.type) for ref in attributes(seed))
        case Grouped(alias=alias, groups=groups, measures=measures):
            grouped = tuple(ColumnRef(alias, output.name, output.value.type) for output in groups)
            return (*grouped, *(measure.output for measure in measures))
        case Windowed(alias=alias, outputs=outputs, functions=functions):
            passed = tuple(ColumnRef(alias, output.name, output.value.type) for output in outputs)
            return (*passed, *(function.output for function in functions))


def distinct_names(refs: Iterable[ColumnRef]) -> dict[ColumnRef, str]:
    """Return a name for each column.  Names that begin with _ are reserved for Weft."""
    names: dict[ColumnRef, str] = {}
    taken: set[str] = set()
    for ref in refs:
        plain = ref.column.lstrip("_") or "column"
        name, count = plain, 1
        while name.lower() in taken:
            count += 1
            name = f"{plain}_{count}"
        taken.add(name.lower())
        names[ref] = name
    return names
