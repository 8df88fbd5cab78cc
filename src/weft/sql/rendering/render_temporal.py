"""Render a temporal relation as a chain of named SQL queries for both DuckDB and Spark.

Each query returns ``c1 … cn, valid_from, valid_to``: the attributes by position, and maximal periods.  A query reads
earlier queries of the chain and named views.  The views contain the history up to t_now.  A subexpression that occurs
twice becomes only one query.  NOW and the parameters are constants in the SQL.

    SELECT dept FROM employees        step_1  SELECT dept AS c1, valid_from, valid_to FROM employees, coalesced
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.algebra import temporal
from weft.algebra.relation import Grouped, Project, Scan, Select, Union, Values
from weft.algebra.scalar import (
    TIME_START,
    TRUE,
    Call,
    Case,
    Cast,
    ColumnRef,
    Literal,
    Now,
    Param,
    PeriodOf,
    Scalar,
    columns,
    conjuncts,
    with_children,
)
from weft.algebra.scalar import children as parts_of
from weft.algebra.schema import BOOLEAN, TIMESTAMP
from weft.errors import DerivationError
from weft.period_sql.groups import Grouping, arguments, measure_of
from weft.period_sql.notation import DUCKDB, VALID_TIME, Dialect, listed
from weft.period_sql.period_functions import Until, judged, pairs
from weft.period_sql.sweep import Sweep
from weft.sql.rendering import render
from weft.sql.rendering.null_on_overflow import within_range

Leaf: TypeAlias = "Scan | temporal.Deleted | temporal.Inserted"
Names: TypeAlias = Mapping[ColumnRef, ColumnRef]
"""A mapping from each column of a relation to a column of a named query."""


@dataclass(frozen=True)
class Evaluation:
    """The instant of an evaluation, the beginning of time, and the values of the parameters."""

    now: int
    """The instant t_now in microseconds UTC."""
    since: int
    """The beginning of time t0 in microseconds UTC."""
    parameters: Mapping[str, Literal] = field(default_factory=dict)
    """The values of the parameters by name."""

    def literal(self, param: Param) -> Literal:
        """Return the value of a parameter.  Raise DerivationError for a parameter without a value."""
        if param == TIME_START:
            return Literal(self.since, TIMESTAMP)
        if param.name not in self.parameters:
            raise DerivationError(f"the parameter :{param.name} has no value")
        return self.parameters[param.name]


@dataclass(frozen=True)
class NamedQuery:
    """A query of the chain: its name, its SQL, and the names of the queries and views in its FROM."""

    name: str
    sql: str
    reads: tuple[str, ...]


def value_steps(
    relation: temporal.Temporal,
    views: Callable[[Leaf], str],
    evaluation: Evaluation,
    prefix: str = "step",
    dialect: Dialect = DUCKDB,
) -> tuple[NamedQuery, ...]:
    """Return a chain of queries.  The last query of the chain returns the rows of the relation.

    The function ``views`` returns the name of a leaf's view.  The view has the same columns as the leaf's table,
    including the start column and the end column.
    """
    chain = Chain(views, evaluation, prefix, dialect)
    last = chain.step(relation)
    if chain.steps[-1].name != last:
        chain.steps.append(next(step for step in chain.steps if step.name == last))
    return tuple(chain.steps)


def value_sql(
    relation: temporal.Temporal, views: Callable[[Leaf], str], evaluation: Evaluation, dialect: Dialect = DUCKDB
) -> str:
    """Return one query for a relation, with one row per maximal period.

    The columns are ``c1 … cn, valid_from, valid_to``.
    """
    steps = value_steps(relation, views, evaluation, dialect=dialect)
    named = ",\n".join(f"{step.name} AS (\n  {step.sql}\n)" for step in steps)
    heads = listed(VALID_TIME.columns(len(temporal.attributes(relation))), "valid_from", "valid_to")
    return f"WITH {named}\nSELECT {heads} FROM {steps[-1].name}"


@dataclass(frozen=True)
class _Item:
    alias: str
    step: str
    columns: tuple[ColumnRef, ...]


@dataclass(frozen=True)
class _Joining:
    items: Sequence[_Item]
    whole: Scalar
    joins: list[str]


def _named(refs: Sequence[ColumnRef], alias: str) -> dict[ColumnRef, ColumnRef]:
    """Map each of ``refs`` to the column with the same position in a named query, qualified by ``alias``."""
    return {ref: ColumnRef(alias, f"c{number}", ref.type) for number, ref in enumerate(refs, 1)}


def _of(scan: str, items: Sequence[_Item]) -> _Item:
    """Return the input that contains only columns of the range variable ``scan``."""
    for item in items:
        if {ref.scan for ref in item.columns} == {scan}:
            return item
    raise DerivationError(f"no single input of the join has the periods of {scan}")


def _asked(predicate: Scalar) -> tuple[PeriodOf, ...]:
    """Return the period sets whose start, end or length the predicate uses."""
    if isinstance(predicate, Call) and predicate.name in ("period_start", "period_end", "period_length"):
        return tuple(each for each in predicate.args if isinstance(each, PeriodOf))
    return tuple(period for part in parts_of(predicate) for period in _asked(part))


def _is_equality(scalar: Scalar) -> bool:
    return isinstance(scalar, Call) and scalar.name in ("=", "<=>") and not temporal.mentions_time(scalar)


@dataclass
class Chain:
    """The queries of a chain, indexed by relation and by text.  Common subexpressions are rendered once."""

    views: Callable[[Leaf], str]
    asked: Evaluation
    prefix: str
    dialect: Dialect = DUCKDB
    steps: list[NamedQuery] = field(default_factory=list)
    known: dict[temporal.Temporal, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def sweep(self) -> Sweep:
        """The operations over the periods of rows."""
        return Sweep(VALID_TIME, self.dialect)

    @property
    def now(self) -> str:
        """The SQL of the instant t_now."""
        return render.timestamp(self.asked.now)

    @property
    def after_now(self) -> str:
        """The SQL of the first instant after t_now."""
        return render.timestamp(self.asked.now + 1)

    def step(self, relation: temporal.Temporal) -> str:
        """Return the name of the query for a relation.  Add a new query to the chain if necessary."""
        if relation not in self.known:
            before = len(self.reads)
            sql = self.query(relation)
            reads = tuple(dict.fromkeys(self.reads[before:]))
            del self.reads[before:]
            self.known[relation] = self.named(sql, reads)
        self.reads.append(self.known[relation])
        return self.known[relation]

    reads: list[str] = field(default_factory=list)

    def named(self, sql: str, reads: tuple[str, ...]) -> str:
        """Return the name of the query with the text ``sql``.  Add a new query to the chain if necessary."""
        if sql not in self.texts:
            self.texts[sql] = f"{self.prefix}_{len(self.steps) + 1}"
            self.steps.append(NamedQuery(self.texts[sql], sql, reads))
        return self.texts[sql]

    def query(self, relation: temporal.Temporal) -> str:
        """Return the SQL of a relation over the queries of its inputs."""
        width = len(temporal.attributes(relation))
        match relation:
            case Scan() | temporal.Deleted() | temporal.Inserted():
                return self.leaf(relation)
            case Values():
                return self.constant(relation)
            case Select(predicate=predicate):
                return self.joined(temporal.inputs(relation), predicate)
            case Project() | Union():
                rows, merged = self.periods(relation)
                return self.sweep.coalesced(rows, width) if merged else rows
            case temporal.Difference(left=left, right=right):
                return self.sweep.subtracted(self.step(left), self.step(right), width)
            case temporal.Semijoin():
                return self.semijoined(relation)
            case temporal.Extension(input=inner, window=window, at=at):
                last = self.text(at or Now(), {})
                return self.sweep.extended(self.step(inner), width, self.text(window, {}), last)
            case temporal.Fragment(input=inner, since=since):
                return self.fragment(inner, self.text(since, {}))
            case Grouped():
                return self.sweep.coalesced(self.aggregated(relation), width)

    def periods(self, relation: Project[temporal.Temporal] | Union[temporal.Temporal]) -> tuple[str, bool]:
        """Return the SQL of the periods of π or ∪, and whether periods of equal rows must be merged."""
        if isinstance(relation, Project):
            return self.projected(relation), not temporal.keeps_rows_apart(relation)
        width = len(temporal.attributes(relation))
        return " UNION ALL ".join(self.all_of(self.step(part), width) for part in relation.inputs), True

    def all_of(self, name: str, width: int) -> str:
        """Return SQL that selects all rows of a named query."""
        return f"SELECT {listed(VALID_TIME.columns(width), 'valid_from', 'valid_to')} FROM {name}"

    def leaf(self, leaf: Leaf) -> str:
        """Return SQL that selects from the view of a leaf and names the columns by position."""
        base = leaf if isinstance(leaf, Scan) else leaf.base
        name = self.views(leaf)
        self.reads.append(name)
        heads = [f"{render.quoted(ref.column)} AS c{number}" for number, ref in enumerate(temporal.attributes(leaf), 1)]
        start, end = render.quoted(base.table.start), render.quoted(base.table.end or "NULL")
        return f"SELECT {listed(heads, f'{start} AS valid_from', f'{end} AS valid_to')} FROM {name}"

    def constant(self, constant: Values) -> str:
        """Return the SQL of constant rows, which are valid since t0."""
        types = [column.type for column in constant.columns]
        rows = constant.rows or (tuple(Literal(None, type) for type in types),)
        since = render.timestamp(self.asked.since)
        texts = []
        for row in rows:
            values = (
                f"CAST({self.text(value, {})} AS {render.spelled(type)}) AS c{number}"
                for number, (value, type) in enumerate(zip(row, types, strict=True), 1)
            )
            texts.append(f"SELECT {listed(values)}, {since} AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to")
        text = " UNION ".join(texts)
        return text if constant.rows else f"{text} WHERE 1 = 0"

    def projected(self, projection: Project[temporal.Temporal]) -> str:
        """Return the SQL of π, in which equal rows may have several periods."""
        inner = projection.input
        names = _named(temporal.attributes(inner), "a")
        values = [self.text(output.value, names) for output in projection.outputs]
        heads = [f"{value} AS c{number}" for number, value in enumerate(values, 1)]
        return f"SELECT {listed(heads, 'valid_from', 'valid_to')} FROM {self.step(inner)} AS a"

    def aggregated(self, relation: Grouped[temporal.Temporal]) -> str:
        """Return the SQL of Π, which computes the measures of groups."""
        names = _named(temporal.attributes(relation.input), "a")
        every = dict.fromkeys(argument for each in relation.measures for argument in arguments(each))
        places = {argument: f"x{number}" for number, argument in enumerate(every, 1)}
        heads = [f"{self.text(group.value, names)} AS c{number}" for number, group in enumerate(relation.groups, 1)]
        heads += [f"{self.text(argument, names)} AS {place}" for argument, place in places.items()]
        rows = f"SELECT {listed(heads, VALID_TIME.period)} FROM {self.step(relation.input)} AS a"
        measures = [measure_of(each, [places[part] for part in arguments(each)]) for each in relation.measures]
        span = None if relation.groups else (render.timestamp(self.asked.since), VALID_TIME.forever)
        return Grouping(self.sweep, rows, len(relation.groups), measures, span).measured()

    def semijoined(self, semijoin: temporal.Semijoin) -> str:
        """Return the SQL of ⋉, which selects the left rows that equal some right row in the columns ``on``."""
        left, right = _named(temporal.attributes(semijoin.left), "a"), _named(temporal.attributes(semijoin.right), "b")
        width = len(temporal.attributes(semijoin))
        pairs = (Call("<=>", (left[one], right[other]), BOOLEAN) for one, other in semijoin.on)
        same = " AND ".join(map(render.scalar, pairs)) or "TRUE"
        heads = listed(VALID_TIME.columns(width, "a"), "a.valid_from", "a.valid_to")
        first, second = self.step(semijoin.left), self.step(semijoin.right)
        return f"SELECT {heads} FROM {first} AS a WHERE EXISTS (SELECT 1 FROM {second} AS b WHERE {same})"

    def fragment(self, inner: temporal.Temporal, since: str) -> str:
        """Return SQL that restricts a relation to the instants from ``since`` on."""
        heads = listed(VALID_TIME.columns(len(temporal.attributes(inner))))
        return (
            f"SELECT {heads}, GREATEST(valid_from, {since}) AS valid_from, valid_to FROM {self.step(inner)} "
            f"WHERE (valid_to IS NULL OR valid_to > {since}) AND {since} <= {self.now}"
        )

    def joined(self, inputs: tuple[temporal.Temporal, ...], predicate: Scalar) -> str:
        """Return the SQL of ⋈, which selects the common instants of rows that satisfy the predicate.

        A selection (σ) is a join of one input.
        """
        items = [
            _Item(f"a{number}", self.step(inner), temporal.attributes(inner)) for number, inner in enumerate(inputs, 1)
        ]
        names = {ref: text for item in items for ref, text in _named(item.columns, item.alias).items()}
        joins: list[str] = []
        condition = self.text(self.judging(predicate, items, predicate, joins), names)
        periods = _asked(predicate)
        froms = []
        for item in items:
            untils = [self.until(each) for each in periods if any(ref.scan == each.scan for ref in item.columns)]
            distinct = tuple(dict.fromkeys(untils))
            source = f"({judged(item.step, len(item.columns), distinct)})" if distinct else item.step
            froms.append(f"{source} AS {item.alias}")
        all_columns = (column for item in items for column in VALID_TIME.columns(len(item.columns), item.alias))
        heads = [f"{column} AS c{number}" for number, column in enumerate(all_columns, 1)]
        aliases = [item.alias for item in items]
        overlap = VALID_TIME.overlap(aliases)
        return (
            f"SELECT {listed(heads, VALID_TIME.common(aliases))} "
            f"FROM {' CROSS JOIN '.join(froms)}{''.join(joins)} WHERE {' AND '.join((f'({condition})', *overlap))}"
        )

    def judging(self, scalar: Scalar, items: Sequence[_Item], whole: Scalar, joins: list[str]) -> Scalar:
        """Replace the period functions in a condition by columns, and add the necessary joins to ``joins``."""
        match scalar:
            case Call(name="period_overlaps", args=(PeriodOf(at=None), PeriodOf(at=None))):
                return TRUE  # joined rows always share an instant
            case Call(name="period_contains" | "period_overlaps", args=(PeriodOf() as one, PeriodOf() as other)):
                if one.scan == other.scan:
                    return TRUE
                contained = scalar.name == "period_contains"
                return self.paired(one, other, _Joining(items, whole, joins), contained=contained)
            case Call(name=name, args=(PeriodOf() as period,), type=type):
                return ColumnRef(_of(period.scan, items).alias, f"{name}{self.until(period).suffix}", type)
            case _:
                parts = parts_of(scalar)
                return with_children(scalar, tuple(self.judging(each, items, whole, joins) for each in parts))

    def until(self, period: PeriodOf) -> Until:
        """Return the instant at which the period functions evaluate a period set."""
        if period.at is None:
            return Until(self.now, self.after_now)
        instant = self.asked.literal(period.at).value
        assert isinstance(instant, int)
        return Until(render.timestamp(instant), render.timestamp(instant + 1), f"_{period.at.name}")

    def paired(self, one: PeriodOf, other: PeriodOf, joining: _Joining, *, contained: bool) -> Scalar:
        """Return a condition on the period sets of two tuples, and add a join to ``joining``.

        The joined query contains the pairs of tuples that satisfy the condition.
        """
        outer, inner = _of(one.scan, joining.items), _of(other.scan, joining.items)
        names = {**_named(outer.columns, "a"), **_named(inner.columns, "b")}
        equal = [each for each in conjuncts(joining.whole) if _is_equality(each) and columns(each) <= names.keys()]
        condition = "".join(f" AND {self.text(each, names)}" for each in equal)
        sizes = (outer.step, len(outer.columns)), (inner.step, len(inner.columns))
        related = self.named(pairs(*sizes, condition, self.until(one), contained=contained), (outer.step, inner.step))
        self.reads.append(related)
        alias = f"k{len(joining.joins) + 1}"
        both = [
            *VALID_TIME.columns(len(outer.columns), outer.alias),
            *VALID_TIME.columns(len(inner.columns), inner.alias),
        ]
        same = " AND ".join(f"{alias}.c{number} IS NOT DISTINCT FROM {column}" for number, column in enumerate(both, 1))
        joining.joins.append(f" LEFT JOIN {related} AS {alias} ON {same}")
        return Call("is not null", (ColumnRef(alias, "holds", BOOLEAN),), BOOLEAN)

    def text(self, scalar: Scalar, names: Names) -> str:
        """Return the SQL of a scalar after replacing columns by ``names``, and NOW and parameters by constants."""
        return render.scalar(self.plain(scalar, names))

    def plain(self, scalar: Scalar, names: Names) -> Scalar:
        """Replace columns of a scalar by ``names``, and NOW and parameters by constants."""
        match scalar:
            case Now():
                return Literal(self.asked.now, TIMESTAMP)
            case Param():
                return self.asked.literal(scalar)
            case ColumnRef() if scalar in names:
                return names[scalar]
            case Call() | Cast() | Case():
                return within_range(with_children(scalar, tuple(self.plain(each, names) for each in parts_of(scalar))))
            case _:
                return scalar
