"""Compile the text of a query into a plan.  This module is the whole compiler, and has no side effects.

text -> bind (-> definitions of views) -> normalize -> canonical -> lift -> branches of Q^I, closed form of Q^M

A plan belongs to a shape, which is a query without its constants and names (design section 5).  ``for_one`` returns a
branch with the constants of one query.  ``for_many`` returns a branch for many queries, joined with a table of their
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from weft.algebra.access import Access
from weft.algebra.event import Event
from weft.algebra.relation import Output, Query, Scan, StateSchema, block, condition, sources
from weft.algebra.scalar import MICROSECOND, ColumnRef, Literal, Param, Scalar, plus
from weft.algebra.schema import BIGINT, DOUBLE, TIMESTAMP, Column, DataType, TableSchema, remembered
from weft.algebra.traverse import mentioned, params, range_variables, scans
from weft.derivation.access_paths import access_paths, whole_tables
from weft.derivation.canonical import canonical
from weft.derivation.incremental import incremental, snapshot
from weft.derivation.lift import bind_params, lift
from weft.derivation.lives import lives
from weft.derivation.localize import localize
from weft.derivation.monotone import ClosedFormVerdict, closed_form_verdict, minimum_bounding
from weft.derivation.normalize import normalize
from weft.derivation.size import size
from weft.derivation.stateful import begins_with_time, depends_on_time, has_own_constants, stateful, states
from weft.errors import Reasons, SqlError
from weft.planning.names import numbered, numbered_columns, renumbered, without_clashes
from weft.planning.state_causes import all_states
from weft.planning.state_sql import inputs
from weft.sql.dialects.duckdb_dialect import JAVA_TEXT
from weft.sql.lower.query import bind, within_limits
from weft.sql.lower.rewriting import viewed
from weft.sql.lower.view_definitions import with_definitions
from weft.sql.rendering import render
from weft.sql.rendering.render import branch_sql, query_sql, quoted

PARAMETERS: Final = "_p"
"""The range variable of the parameter table.  Aliases of users never start with an underscore."""
PARAMETER_TABLE: Final = "parameters__"
"""The beginning of the names of parameter tables."""
MOST_SOURCES: Final = 1_000
"""The branches of a plan read at most this number of tables in total, including subqueries.

The limit keeps the SQL below about 400 kB.  The compiler checks the limit before the derivation, which could otherwise
take too long.  The compiler checks the limit again afterwards, because the rewriting for Spark
(``derivation.localize``) adds tables.
"""
_INSTANTS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|:(tau|t0|t)\b", re.DOTALL)
"""A quoted part of Spark's SQL, or the name of an instant."""
BEGINNING: Final = Literal(-(2**62), TIMESTAMP, fixed=True)
"""The value of τ for a window without a start."""


@dataclass(frozen=True)
class Branch:
    """An executable branch: its event, the access paths of its tables, and its SQL.

    The event may have the parameters tau, t and t0 where the SQL has the instants of ``window`` (``for_one``).
    """

    event: Event
    paths: Mapping[str, Access]
    sql: str
    leading: tuple[Output, ...] = ()
    window: tuple[tuple[str, Scalar], ...] = ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of the branch, without the column of the instant."""
        return (*self.leading, *self.event.outputs)


@dataclass(frozen=True)
class Plan:
    """The shape of a query, with the constants of one query.

    If ``from_now`` is true, the query delivers only rows that were not in the answer just before the installation
    (``--from now``).  ``definitions`` are the views that the compiler replaced by their definitions.  A plan from the
    catalog has no definitions.
    """

    lifted: Query
    values: tuple[Literal, ...] = ()
    from_now: bool = False
    definitions: tuple[TableSchema, ...] = field(default=(), compare=False)

    @cached_property
    def query(self) -> Query:
        """The query with its constants in place of the parameters."""
        return bind_params(self.lifted, {f"p{number}": value for number, value in enumerate(self.values, 1)})

    @cached_property
    def standing(self) -> Query:
        """The query with scans of states in place of its stateful operators, with parameters in place of constants."""
        return stateful(self.lifted)

    @cached_property
    def evaluated(self) -> Query:
        """The query with its constants, and with scans of states in place of its stateful operators.

        A state keeps the conditions that ``standing`` moves out of it, so that other queries can share it.
        """
        return stateful(self.query)

    @cached_property
    def has_own_states(self) -> bool:
        """Whether a state of the query depends on the query's constants."""
        return any(map(has_own_constants, states(self.standing)))

    @cached_property
    def branches(self) -> tuple[Event, ...]:
        """The branches of Q^I, with parameters in place of constants."""
        return incremental(self.standing, from_now=self.from_now)

    @cached_property
    def verdict(self) -> ClosedFormVerdict:
        """The decision whether Q^M has the closed form, with the reason."""
        return closed_form_verdict(self.standing)

    @cached_property
    def first(self) -> tuple[Event, ...]:
        """The branches that the first tick of a query runs, with parameters in place of constants.

        If Q^M has the closed form and ``from_now`` is false, the result has the branches of Q^M, otherwise those of
        Q^I.
        """
        return minimum_bounding(self.standing) if self.verdict.closed and not self.from_now else self.branches

    @cached_property
    def time_driven(self) -> bool:
        """Whether time alone can make answers appear."""
        return any(map(is_time_driven, self.branches))

    @cached_property
    def has_constants(self) -> bool:
        """Whether answers can appear at the beginning of time: rows of constants, or aggregates of no rows."""
        return any(event.driver.kind == "beginning" for event in self.branches) or any(
            map(begins_with_time, states(self.standing))
        )

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables that the query reads."""
        return tuple({(scan.table.source, scan.table.id): scan.table for scan in scans(self.lifted)}.values())

    @property
    def reads(self) -> tuple[int, ...]:
        """The IDs of the queries whose answers this query reads."""
        return tuple(table.id for table in self.tables if table.source == "results")

    @cached_property
    def parameters(self) -> tuple[Param, ...]:
        """The parameters, in the order of their numbers."""
        return tuple(sorted(params(self.lifted), key=lambda p: int(p.name[1:])))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The range variables in the query's text, in the order of t1, t2 … in ``shape``."""
        return range_variables(self.lifted)

    @cached_property
    def shape(self) -> Plan:
        """The plan that queries can share, with range variables t1, t2 …, columns c1, c2 …, and no constants."""
        return Plan(numbered(self.lifted), (), self.from_now)

    @cached_property
    def with_numbered_columns(self) -> Plan:
        """The plan with the column names c1, c2 … for a tick."""
        return replace(self, lifted=numbered_columns(self.lifted))

    @property
    def text(self) -> str:
        """The SQL of the normalized query."""
        return query_sql(self.query)


def plan(text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Plan:
    """Return the plan of a query that is evaluated once.  Raise SqlError for an invalid query."""
    return planned(bind(text, tables), from_now=from_now)


def standing_plan(text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Plan:
    """Return the plan of a standing query.  Raise SqlError for a query that is invalid, not allowed, or too large."""
    query, definitions = bind_standing(text, tables)
    return planned(query, from_now=from_now, definitions=definitions)


def planned(query: Query, *, from_now: bool = False, definitions: tuple[TableSchema, ...] = ()) -> Plan:
    """Return the plan of a bound query.  Raise SqlError if the derived query or a state is too large."""
    lifted = lift(canonical(normalize(query)))
    _within(size(stateful(lifted.query)).sources)
    plan_ = Plan(lifted.query, lifted.values, from_now, definitions)
    _within(sum(1 for event in plan_.branches for _ in scans(localize(event).relation)))
    for state in all_states(plan_.standing):
        relation, columns, _ = inputs(state.operator)
        lives(relation, columns)  # raises SqlError for too many alternatives, before a tick meets them
    return plan_


def bind_standing(text: str, tables: Mapping[str, TableSchema]) -> tuple[Query, tuple[TableSchema, ...]]:
    """Bind a standing query, and replace each view that depends on NOW by its definition.

    Return the query and the replaced views.  Raise SqlError if the query is invalid, or if it reads the history or the
    end times of rows.  While a row is in a table, its end is not yet recorded, so an earlier answer cannot depend on
    the end (laws 1 and 2).
    """
    query = bind(text, tables)
    reasons = Reasons()
    with reasons.part():
        _refuse_history(query)
    ends = {(scan.alias, scan.table.end): scan.table for scan in scans(query) if not scan.whole}
    for ref in sorted(mentioned(query), key=repr):
        if (ref.scan, ref.column) in ends:
            reasons.add(_of_ends(ends[ref.scan, ref.column], ref.column))
    written: Query = query
    definitions: tuple[TableSchema, ...] = ()
    with reasons.part():
        written, definitions = with_definitions(query)
    reasons.check()
    if definitions:
        within_limits(written)
    return written, definitions


def _of_ends(table: TableSchema, column: str) -> SqlError:
    name = table.name
    listed = ", ".join(quoted(each.name) for each in table.columns if each.name not in (table.start, table.end))
    ended = viewed(f"SELECT {listed} FROM {quoted(name)} AS e WHERE PERIOD_END(e) < NOW()")
    return SqlError(
        f"a standing query cannot use {column}: the end of a row is not known while the row is in {name}",
        hint=(
            f"The answer never contains rows that have ended. To see those rows, create a view: {ended}, then "
            'weft try "SELECT * FROM NAME". A standing query over the view is not supported today.'
        ),
    )


def _refuse_history(query: Query) -> None:
    reasons = Reasons()
    for name in sorted({scan.table.name for scan in scans(query) if scan.whole}):
        error = SqlError(
            f"a standing query cannot read {name} FOR SYSTEM_TIME: Weft evaluates the query at every instant, "
            "over the rows that are valid at that instant",
            hint=(
                f"Run the query once with `weft try`, or remove FOR SYSTEM_TIME to receive the rows of {name} as "
                "they begin. `weft try` over a view with PERIOD_START(e) and PERIOD_LENGTH(e) shows how long "
                "rows were valid."
            ),
        )
        reasons.add(error)
    reasons.check()


def _within(sources: int) -> None:
    if sources > MOST_SOURCES:
        raise SqlError(
            f"the SQL that Weft derives from the query names {sources:,} tables, but at most {MOST_SOURCES:,} "
            "are allowed: each table and each comparison with NOW() adds a branch that reads all other "
            "tables, and NOT EXISTS adds more with each level of nesting",
            hint=(
                "Split the query into several queries; a query can read the answers of another query FROM results.NAME."
            ),
        )


def for_one(
    event: Event,
    values: Sequence[Literal],
    window: Mapping[str, Scalar],
    whole: bool,
    names: Sequence[str] | None = None,
) -> Branch:
    """Return a branch for one query, with the constants ``values``.

    ``window`` binds tau, t and t0.  An unbound instant remains :tau, :t or :t0 in the SQL.  ``names`` are the query's
    range variables.  If ``names`` is None, the range variables stay unchanged.

    Only the SQL has the window, unless the branch reads states.  The rest is the same in each tick.
    """
    texts = tuple(map(render.scalar, values))
    given = texts, tuple(values), whole, None if names is None else tuple(names)
    if _reads_states(event):
        return _own_branch(event, *given, tuple(window.items()))
    branch = _own_branch(event, *given)
    return replace(branch, sql=in_window(branch.sql, window), window=tuple(window.items())) if window else branch


@remembered
def _reads_states(event: Event) -> bool:
    return bool(states(event.relation))


@remembered
def _own_branch(
    event: Event,
    texts: tuple[str, ...],
    values: tuple[Literal, ...],
    whole: bool,
    names: tuple[str, ...] | None,
    window: tuple[tuple[str, Scalar], ...] = (),
) -> Branch:
    """``texts`` are those of the values.  They tell 0.0 and -0.0 apart, which are equal."""
    known = {f"p{number}": value for number, value in enumerate(values, 1)} | dict(window)
    return ready(bound(event if names is None else renumbered(event, names), known), whole)


def in_window(sql: str, window: Mapping[str, Scalar]) -> str:
    """Replace :tau, :t and :t0 outside quotes by the instants of a window.

    >>> in_window("SELECT ':t' AS `:t` WHERE a < :t AND b >= :tau", {"t": MICROSECOND})
    "SELECT ':t' AS `:t` WHERE a < INTERVAL '1' MICROSECOND AND b >= :tau"
    """
    texts = {name: render.scalar(at) for name, at in window.items()}
    return _INSTANTS.sub(lambda match: texts.get(match[1], match[0]), sql)


def parameter_table(name: int | str, shape: Plan) -> TableSchema:
    """Return the schema of a plan's parameter table, with the columns query_id, tau, p1, p2 ….

    ``name`` ends the name of the table.
    """
    fields = [("query_id", BIGINT), ("tau", TIMESTAMP), *((p.name, p.type) for p in shape.parameters)]
    return TableSchema(
        0,
        f"{PARAMETER_TABLE}{name}",
        tuple(Column(n, label, type) for n, (label, type) in enumerate(fields, 1)),
        "tau",
    )


def for_many(event: Event, table: TableSchema, window: Mapping[str, Scalar], whole: bool) -> Branch:
    """Return a branch for all queries of a plan, joined with their parameters (NiagaraCQ; design section 5)."""
    scan = Scan(table, PARAMETERS)
    known: dict[str, Scalar] = {column.name: scan.ref(column.name) for column in table.columns} | dict(window)
    joined = event.with_block(block((*sources(event.block), scan), condition(event.block)))
    return ready(bound(joined, known), whole, (Output("_query_id", scan.ref("query_id")),))


def at_instant(query: Query, s: Scalar) -> tuple[Branch, ...]:
    """Return the branches that ``weft try`` runs.  The union of the branches is the answer at the instant ``s``."""
    return tuple(ready(event, whole=True) for event in events_at(query, s))


def events_at(query: Query, s: Scalar) -> tuple[Event, ...]:
    """Return the events of the branches of ``at_instant``."""
    now: dict[str, Scalar] = {"tau": s, "t": plus(s, MICROSECOND), "t0": s}
    events = snapshot(bind_params(stateful(query), now), s)
    return tuple(bound(event, {"t0": s}) for event in events)


def with_constants(event: Event, values: Sequence[Literal]) -> Event:
    """Replace the parameters of a branch by the constants ``values``."""
    return bound(event, {f"p{number}": value for number, value in enumerate(values, 1)})


def bound(event: Event, known: Mapping[str, Scalar]) -> Event:
    """Replace the parameters of an event, and of the states that it reads, by ``known``."""
    scan = event.driver.scan
    instant = bind_params(event.driver.instant, known)
    driver = replace(event.driver, instant=instant, scan=None if scan is None else bind_params(scan, known))
    return Event(driver, bind_params(event.relation, known))


def ready(event: Event, whole: bool, leading: tuple[Output, ...] = (), suffix: str = "") -> Branch:
    """Return the executable branch of an event.  With ``whole``, the branch reads whole tables.

    ``suffix`` ends the names of the views that the SQL reads.
    """
    local = without_clashes(localize(event), keep=(PARAMETERS,))
    paths = whole_tables(local) if whole else access_paths(local)
    views = {alias: path.view + suffix for alias, path in paths.items()}
    return Branch(local, paths, branch_sql(local, views, leading), leading)


def is_time_driven(event: Event) -> bool:
    """Return whether time alone can make the branch yield a row."""
    scan = event.driver.scan
    if scan is not None and isinstance(scan.table, StateSchema):
        return depends_on_time(scan.table)
    return event.driver.kind in ("now_from", "now_before")


def hash_in_duckdb(texts: Sequence[str], types: Sequence[DataType]) -> str:
    """Return DuckDB's SQL for the hash of an answer, from SQL for the texts of its values.

    The hash is that of Spark (``execution.answers``).
    """
    parts = []
    for text, kind in zip(texts, types, strict=True):
        parts.append(f"COALESCE('{kind}:' || LENGTH({text}) || ':' || {text}, '{kind}:N')")
    return f"UNHEX(LEFT(SHA256(CONCAT('{IDENTITY_VERSION};', {', '.join(parts)})), 32))"


def encoded(value: Scalar) -> str:
    """Return SQL that encodes a value of any type as a string without loss.  ``storage.ledger`` decodes the string."""
    text = render.scalar(value)
    match value.type.name:
        case "STRING":
            return text
        case "TIMESTAMP":
            return f"CAST(UNIX_MICROS({text}) AS STRING)"
        case "DATE":
            return f"CAST(UNIX_DATE({text}) AS STRING)"
        case "BINARY":
            return f"BASE64({text})"
        case _:
            return f"CAST(CAST({text} AS {value.type}) AS STRING)"


def encoded_in_duckdb(value: Scalar) -> str:
    """Return DuckDB's SQL for the text that ``encoded`` gives in Spark.

    DuckDB raises an error for -0.0 and for doubles to which versions of Java give different texts (``JAVA_TEXT``).
    """
    return f"{JAVA_TEXT}({render.scalar(value)})" if value.type == DOUBLE else encoded(value)


def columns_of(query: Query) -> tuple[tuple[str, DataType], ...]:
    """Return the names and types of the answer's columns."""
    return tuple((output.name, output.value.type) for output in query.outputs)


IDENTITY_VERSION: Final = "1"
"""Version of the hash of an answer's values. With a new version, a tick would deliver every old answer again."""


def identity(value: ColumnRef) -> str:
    """Return SQL for the form of a value that identifies an answer.  -0.0 and 0.0 have the same form."""
    text = encoded(value)
    return f"IF({render.scalar(value)} = 0, '0.0', {text})" if value.type.name in ("DOUBLE", "FLOAT") else text


def columns_read(branches: Iterable[Branch]) -> dict[str, set[str]]:
    """Return the names of the columns that branches read, by table."""
    columns: dict[str, set[str]] = {}
    for branch in branches:
        for table, names in _columns_read(branch.event, branch.leading).items():
            columns.setdefault(table, set()).update(names)
    return columns


@remembered
def _columns_read(event: Event, leading: tuple[Output, ...]) -> dict[str, set[str]]:
    refs = mentioned(event.projection).union(*(mentioned(output.value) for output in leading))
    return columns_of_scans(scans(event.projection), refs)


def columns_of_scans(read: Iterable[Scan], refs: Iterable[ColumnRef]) -> dict[str, set[str]]:
    """Return the names of those columns among ``refs`` that belong to the scans, by table."""
    by_alias: dict[str, set[str]] = {}
    for ref in refs:
        by_alias.setdefault(ref.scan, set()).add(ref.column)
    columns: dict[str, set[str]] = {}
    for scan in read:
        columns.setdefault(scan.table.name, set()).update(by_alias.get(scan.alias, ()))
    return columns
