"""Explain an installed query: its plan, its state and its number of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import Final

from weft.algebra.relation import Output, Query
from weft.algebra.schema import TableSchema
from weft.algebra.traverse import rename
from weft.api.explaining import extents, rows_of, with_order
from weft.catalog.records import QueryRecord, TickQuery
from weft.execution.groups import Member, Shape, shape_of, window_start
from weft.execution.home import OpenHome
from weft.execution.relations import Relation, relations
from weft.execution.ticks import due
from weft.execution.windows import NEVER
from weft.instants import format_instant, format_interval
from weft.planning.explain import Explanation, explain
from weft.planning.plan import Plan
from weft.planning.plan_tree import PlanNode, plan_tree
from weft.planning.synopsis_words import SynopsisExplanation, explain_synopsis

_DAY: Final = 86_400_000_000
_TICKS: Final = 100


def explain_installed(home: OpenHome, name: str) -> Explanation | SynopsisExplanation:
    """Explain a standing query.  Raise NotFound.  Raise PlanMismatch if the query no longer fits its tables."""
    query, tables, shape = _planned(home, name)
    explanation: Explanation | SynopsisExplanation
    if isinstance(shape, Plan):
        by_id = {table.schema.id: table.schema for table in tables.values() if table.schema.source == "table"}
        defined = tuple(by_id[key] for key in query.definitions)
        sizes = rows_of(extents(home.catalog, {table.schema.name: table.schema for table in tables.values()}))
        explained = _explained(own_plan(query, shape), defined).sized(sizes)
        # A stored plan lacks the types of intervals and of JSON text.
        explanation = with_order(replace(explained, columns=query.columns), query.sql)
    else:
        explanation = explain_synopsis(shape)
    return replace(
        explanation, name=query.name, how_many=_answers(home, query), next_due=_next_due(home, query, shape, tables)
    )


@lru_cache(maxsize=100)
def _explained(own: Plan, definitions: tuple[TableSchema, ...]) -> Explanation:
    """Explain a plan once, because the derivation takes longer than all reads of a query's page."""
    return explain(replace(own, definitions=definitions))


def tree_of(home: OpenHome, name: str) -> PlanNode:
    """Implement ``Weft.plan_tree``."""
    query, _, shape = _planned(home, name)
    if isinstance(shape, Plan):
        return plan_tree(own_plan(query, shape).query)
    found = explain_synopsis(shape)
    states = tuple(PlanNode("rows of the table", f"{each.table} AS e") for each in found.predicates)
    kept = tuple(PlanNode(f"stored as {each.name}", each.formula) for each in found.relations)
    return PlanNode("a state satisfies", " or ".join(found.formulas), (*states, *kept))


def _planned(home: OpenHome, name: str) -> tuple[QueryRecord, Mapping[str, Relation], Shape]:
    query = home.catalog.queries.named(name)
    tables = relations(home.catalog, query.reads)
    record = home.catalog.queries.plan(query.plan_id)
    return query, tables, shape_of(record, {key: table.schema for key, table in tables.items()})


def own_plan(query: QueryRecord, shape: Plan) -> Plan:
    """Return the plan of a query with the constants and names from the query's text."""
    names = {f"t{number}": alias for number, alias in enumerate(query.names, 1)}
    renamed = rename(shape.lifted, names)
    outputs = zip(query.columns, renamed.outputs, strict=True)
    lifted = Query(renamed.input, tuple(Output(label, output.value) for (label, _), output in outputs))
    return Plan(lifted, Member(query, None, 0).values, shape.from_now)


def _answers(home: OpenHome, query: QueryRecord) -> str:
    if not query.rows or query.last_first_at is None:
        return "Answers so far: none."
    answers = f"Answers so far: {query.rows:,}, the last at {format_instant(query.last_first_at)}"
    daily = None if query.tau is None else rate(home.catalog.ticks.of_query(query.query_id, _TICKS))
    return f"{answers}; {daily}." if daily else f"{answers}."


def rate(ticks: Sequence[TickQuery]) -> str | None:
    """Return the average rate of answers over ``ticks``, which are sorted from new to old.  Return None if the ticks
    cover less than a day.

    The function counts only the ticks after the last tick that read the whole history.  Earlier ticks may belong to an
    earlier text of the query.

    >>> day = 86_400_000_000
    >>> of = lambda t, tau, rows: TickQuery(1, 1, t * day, None if tau is None else tau * day, "committed", rows, None)
    >>> rate([of(9, 8, 3), of(8, 6, 4), of(6, None, 700), of(6, 5, 90)])
    '7 in the 3 days of the last ticks'
    """
    since = takewhile(lambda tick: tick.tau is not None, ticks)
    ticked = [tick for tick in since if tick.rows is not None]
    length = sum(tick.t - tick.tau for tick in ticked if tick.tau is not None)
    if length < _DAY:
        return None
    rows = sum(tick.rows or 0 for tick in ticked)
    days = length / _DAY
    return f"{rows:,} in the {days:,.0f} day{'s' * (round(days) != 1)} of the last ticks"


def _next_due(home: OpenHome, query: QueryRecord, shape: Shape, tables: Mapping[str, Relation]) -> str:
    if query.state != "active":
        return f"Next due: never while the query is {query.state}; resume the query with `weft resume {query.name}`."
    every = "" if query.every_us is None else f" (the query runs every {format_interval(query.every_us)})"
    return f"Next due: {_due(home, query, shape, tables)}{every}."


def _due(home: OpenHome, query: QueryRecord, shape: Shape, tables: Mapping[str, Relation]) -> str:
    tau = window_start(query, query.tau)
    if query.tau is None:
        since = "the whole history again" if tau is None else f"the history from {format_instant(tau)} on"
        again = any(tick.rows is not None for tick in home.catalog.ticks.of_query(query.query_id, _TICKS))
        return f"the next tick, which {f'reads {since}' if again else 'is its first'}"
    arriving = " or ".join(schema.name for schema in shape.tables)
    if due.arrived(Member(query, tau, query.tau), shape, tables):
        return f"the next tick, since rows have arrived in {arriving}"
    later = f"when rows arrive in {arriving}"
    if not (query.reads or shape.time_driven):
        return later
    if query.next_due is None:
        return "the next tick, which checks whether time has made answers appear"
    if query.next_due >= NEVER:
        return f"{later}; time alone makes no more answers from the present rows"
    makes = "can make" if query.reads else "makes"
    return f"at {format_instant(query.next_due)}, when time alone {makes} an answer appear, or {later}"
