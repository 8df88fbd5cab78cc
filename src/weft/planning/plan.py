"""From a query's text to its plan: the whole of Weft's compiling, in one screen, pure.

    text -> bind (-> definitions of views) -> normalize -> canonical -> lift -> branches of Q^I, closed form of Q^M

A plan belongs to a shape: the query without its constants and names (design section 5).  ``for_one`` gives the SQL of a
branch for one query, its constants written in, ``for_many`` for many, joined with a table of their parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from weft.algebra.access import Access
from weft.algebra.event import Event
from weft.algebra.relation import Output, Query, Scan, block, condition, sources
from weft.algebra.scalar import Literal, Param, Scalar
from weft.algebra.schema import BIGINT, TIMESTAMP, Column, DataType, TableSchema
from weft.algebra.traverse import mentioned, params, range_variables, scans
from weft.derivation.access_paths import access_paths, whole_tables
from weft.derivation.canonical import canonical
from weft.derivation.incremental import incremental, snapshot
from weft.derivation.lift import bind_params, lift
from weft.derivation.localize import localize
from weft.derivation.monotone import ClosedFormVerdict, closed_form_verdict, minimum_bounding
from weft.derivation.normalize import normalize
from weft.derivation.size import size
from weft.errors import Reasons, SqlError
from weft.planning.names import apart, numbered, numbered_columns, renumbered
from weft.sql import render
from weft.sql.identifiers import quoted
from weft.sql.limits import within_limits
from weft.sql.lower import bind
from weft.sql.render import branch_sql, query_sql
from weft.sql.rewriting import viewed
from weft.sql.view_definitions import with_definitions

PARAMETERS: Final = "_p"
"""The range variable of the parameter table; no user's begins with _."""
MOST_SOURCES: Final = 1_000
"""Tables that all branches of a plan may name, subqueries' included: some 400 kB of SQL.  It is looked at twice: before
anything is derived, so that deriving cannot take long, and after, since far names bring domains with them."""
BEGINNING: Final = Literal(-(2**62), TIMESTAMP, fixed=True)
"""Where a window that is open at its beginning begins, where a branch asks for it."""


@dataclass(frozen=True)
class Branch:
    """One branch ready to run: its event, how it reaches its tables, and its SQL."""

    event: Event
    paths: Mapping[str, Access]
    sql: str
    leading: tuple[Output, ...] = ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns that it gives, before the instant."""
        return (*self.leading, *self.event.outputs)


@dataclass(frozen=True)
class Plan:
    """A query's shape, and one query's constants.

    ``from_now`` marks a query that delivers only rows that were not in the answer just before (``--from now``).
    ``definitions`` are the views whose definitions are part of the query; no stored plan has them.
    """

    lifted: Query
    values: tuple[Literal, ...] = ()
    from_now: bool = False
    definitions: tuple[TableSchema, ...] = field(default=(), compare=False)

    @cached_property
    def query(self) -> Query:
        """The query with its constants."""
        return bind_params(self.lifted, {f"p{number}": value for number, value in enumerate(self.values, 1)})

    @cached_property
    def branches(self) -> tuple[Event, ...]:
        """The branches of Q^I, over parameters."""
        return incremental(self.lifted, from_now=self.from_now)

    @cached_property
    def verdict(self) -> ClosedFormVerdict:
        """Whether Q^M has the closed form."""
        return closed_form_verdict(self.lifted)

    @cached_property
    def first(self) -> tuple[Event, ...]:
        """Q^M over parameters: what the first tick of a query from the start runs."""
        return minimum_bounding(self.lifted) if self.verdict.closed and not self.from_now else self.branches

    @cached_property
    def time_driven(self) -> bool:
        """Whether rows can appear with no new data."""
        return any(event.driver.kind in ("now_from", "now_before") for event in self.branches)

    @cached_property
    def has_constants(self) -> bool:
        """Whether rows can appear when time begins, out of constant relations."""
        return any(event.driver.kind == "beginning" for event in self.branches)

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables read."""
        return tuple({(scan.table.source, scan.table.id): scan.table for scan in scans(self.lifted)}.values())

    @property
    def reads(self) -> tuple[int, ...]:
        """The ids of the queries whose results are read."""
        return tuple(table.id for table in self.tables if table.source == "results")

    @cached_property
    def parameters(self) -> tuple[Param, ...]:
        """The parameters by number."""
        return tuple(sorted(params(self.lifted), key=lambda p: int(p.name[1:])))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The range variables as the query's own text names them, in the order of ``shape``'s t1, t2 …"""
        return range_variables(self.lifted)

    @cached_property
    def shape(self) -> Plan:
        """The plan that queries share, which is of no query's text: names are t1, t2 …, columns c1, c2 …"""
        return Plan(numbered(self.lifted), (), self.from_now)

    @cached_property
    def with_numbered_columns(self) -> Plan:
        """The plan with its columns under the names that they have in a tick, which no user chose: c1, c2 …"""
        return replace(self, lifted=numbered_columns(self.lifted))

    @property
    def text(self) -> str:
        """The normalized query as SQL."""
        return query_sql(self.query)


def plan(text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Plan:
    """Compiles a text that is asked once, over ``tables`` (by name).  Raises SqlError for what cannot be asked."""
    return planned(bind(text, tables), from_now=from_now)


def standing_plan(text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Plan:
    """Compiles the text of a query that is to stand.  Raises SqlError for what cannot stand, or is too large."""
    query, definitions = bind_standing(text, tables)
    return planned(query, from_now=from_now, definitions=definitions)


def planned(query: Query, *, from_now: bool = False, definitions: tuple[TableSchema, ...] = ()) -> Plan:
    """The plan of a bound query; raises SqlError for one that is too large."""
    lifted = lift(canonical(normalize(query)))
    _within(size(lifted.query).sources)
    found = Plan(lifted.query, lifted.values, from_now, definitions)
    _within(sum(1 for event in found.branches for _ in scans(localize(event).relation)))
    return found


def bind_standing(text: str, tables: Mapping[str, TableSchema]) -> tuple[Query, tuple[TableSchema, ...]]:
    """A query that is to stand, with the definitions of the views that depend on NOW; and those views.

    Raises SqlError for what is no query, and where it speaks of the past or of the ends of rows.  At every instant at
    which a row is in a table it has not ended yet: its end is recorded later, and an answer that was given by then
    cannot depend on it (laws 1 and 2).
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
        f"a standing query cannot speak of {column}: while a row is in {name}, its end is not known",
        hint=f"Rows that have ended are not in the answer anyway. A view has what ended: {ended}, then weft try "
        '"SELECT * FROM NAME". A standing query over it cannot be asked today.',
    )


def _refuse_history(query: Query) -> None:
    """Raises SqlError where a query that is to stand reads a table as of an instant of its own."""
    reasons = Reasons()
    for name in sorted({scan.table.name for scan in scans(query) if scan.whole}):
        refused = SqlError(
            f"a standing query cannot read {name} FOR SYSTEM_TIME: it is asked at every instant, over the rows that "
            "hold then, and what held at one instant is no news",
            hint=f"Ask it once with `weft try`; or leave FOR SYSTEM_TIME out to be told of the rows of {name} as they "
            "begin. `weft try` over a view shows what held for how long: PERIOD_START(e), PERIOD_LENGTH(e).",
        )
        reasons.add(refused)
    reasons.check()


def _within(sources: int) -> None:
    if sources > MOST_SOURCES:
        raise SqlError(
            f"what the query comes to names {sources:,} tables, more than {MOST_SOURCES:,}: each table and comparison "
            "with NOW() is a branch, in which all others are judged, and a NOT EXISTS grows with each level of nesting",
            hint="Take it apart into several queries: one may read another's answers, FROM results.NAME.",
        )


def for_one(
    event: Event,
    values: Sequence[Literal],
    window: Mapping[str, Scalar],
    whole: bool,
    names: Sequence[str] | None = None,
) -> Branch:
    """A branch for one query: its constants written in, its own names for range variables where they are given.

    ``window`` gives tau, t and t0 (what is left out is kept as :tau, :t, :t0).
    """
    known = {f"p{number}": value for number, value in enumerate(values, 1)} | dict(window)
    return _ready(_bound(event if names is None else renumbered(event, names), known), whole)


def parameter_table(plan_id: int, shape: Plan) -> TableSchema:
    """The schema of a plan's parameter table: query_id, tau, p1 …"""
    fields = [("query_id", BIGINT), ("tau", TIMESTAMP), *((p.name, p.type) for p in shape.parameters)]
    return TableSchema(
        0, f"parameters__{plan_id}", tuple(Column(n, label, type) for n, (label, type) in enumerate(fields, 1)), "tau"
    )


def for_many(event: Event, table: TableSchema, window: Mapping[str, Scalar], whole: bool) -> Branch:
    """A branch for all queries of a plan: joined with the table of their parameters (NiagaraCQ; design section 5)."""
    scan = Scan(table, PARAMETERS)
    known: dict[str, Scalar] = {column.name: scan.ref(column.name) for column in table.columns} | dict(window)
    joined = event.with_block(block((*sources(event.block), scan), condition(event.block)))
    return _ready(_bound(joined, known), whole, (Output("_query_id", scan.ref("query_id")),))


def at_instant(query: Query, s: Scalar) -> tuple[Branch, ...]:
    """Q(s) as SELECTs whose rows, united, are the answer (``weft try``)."""
    return tuple(_ready(event, whole=True) for event in snapshot(query, s))


def with_constants(event: Event, values: Sequence[Literal]) -> Event:
    """A branch of a plan with the constants of one query."""
    return _bound(event, {f"p{number}": value for number, value in enumerate(values, 1)})


def _bound(event: Event, known: Mapping[str, Scalar]) -> Event:
    driver = replace(event.driver, instant=bind_params(event.driver.instant, known))
    return Event(driver, bind_params(event.relation, known))


def _ready(event: Event, whole: bool, leading: tuple[Output, ...] = ()) -> Branch:
    local = apart(localize(event), keep=(PARAMETERS,))
    paths = whole_tables(local) if whole else access_paths(local)
    views = {alias: path.view for alias, path in paths.items()}
    return Branch(local, paths, branch_sql(local, views, leading), leading)


def encoded(value: Scalar) -> str:
    """SQL of a value's stored form, a string, lossless for every type (``storage.ledger.decode`` is its inverse)."""
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


def columns_of(query: Query) -> tuple[tuple[str, DataType], ...]:
    """The answer's columns."""
    return tuple((output.name, output.value.type) for output in query.outputs)


def columns_read(branch: Branch) -> dict[str, set[str]]:
    """By table, the names of the columns that a branch reads."""
    refs = mentioned(branch.event.projection).union(*(mentioned(output.value) for output in branch.leading))
    read: dict[str, set[str]] = {}
    for scan in scans(branch.event.projection):
        read.setdefault(scan.table.name, set()).update(ref.column for ref in refs if ref.scan == scan.alias)
    return read
