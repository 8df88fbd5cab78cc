"""Explain why an answer of a standing query appeared."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.api.acting import own_limits
from weft.api.explaining_installed import own_plan
from weft.catalog.definitions import schemas
from weft.catalog.records import QueryRecord
from weft.errors import NotFound, PlanMismatch, Refused, WeftError
from weft.execution.groups import shape_of
from weft.execution.home import OpenHome
from weft.execution.relations import Relation, relations
from weft.execution.why import Combination, StoredAnswer, Why, Witness, combinations
from weft.planning.form import signature
from weft.planning.plan import Plan, standing_plan
from weft.printable import counted
from weft.storage.ledger import read_stored
from weft.storage.values import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def why(home: OpenHome, session: Callable[[], SparkSession], name: str, ordinal: int) -> Why:
    """Implement ``Weft.why``."""
    query = home.seen().query(name)
    if not 1 <= ordinal <= query.rows:
        raise NotFound(
            f"{query.name} has no answer {ordinal}",
            hint=f"It has {counted(query.rows, 'answer')}. List them: weft results {query.name}",
        )
    first_at, tick, row = read_stored(home.catalog.data, query, ordinal, home.catalog.ticks.with_answers)
    tables = relations(home.catalog, query.reads)
    plan = _plan_of(home, query, ordinal, tables)
    answer = StoredAnswer(first_at, tuple(row))
    t0, allowed = home.catalog.home().t0, own_limits(home)
    found, more = combinations(session, home.catalog, tables, plan, answer, t0, allowed=allowed)
    hidden = {each.name for each in plan.tables} - home.seen().readable(plan.tables)
    shown = _shown(found, hidden) if hidden else found
    values = decode(row, query.types)
    return Why(query.name, ordinal, first_at, tick, query.columns, values, shown, more, hides=bool(hidden))


def _shown(found: tuple[Combination, ...], hidden: Collection[str]) -> tuple[Combination, ...]:
    """Hide the rows of the tables ``hidden``, which the principal may not read.

    Hide also the rows of aggregates, and the absent conditions, which contain values of the rows.
    """

    def shown(each: Witness) -> Witness:
        return each.hidden if each.table is None or each.table in hidden else each

    return tuple(replace(one, witnesses=tuple(map(shown, one.witnesses)), absent=()) for one in found)


def _plan_of(home: OpenHome, query: QueryRecord, ordinal: int, tables: dict[str, Relation]) -> Plan:
    """Return the plan of the text that gave the answer, which may be an earlier text of the query."""
    for text in home.catalog.replacements.of_query(query.query_id):
        if ordinal <= text.rows:
            return standing_plan(text.sql, schemas(home.catalog, text.sql))
    shape = shape_of(home.catalog.queries.plan(query.plan_id), {key: each.schema for key, each in tables.items()})
    if isinstance(shape, Plan):
        return _typed(home, query, own_plan(query, shape))
    try:
        return standing_plan(query.sql, schemas(home.catalog, query.sql))
    except Refused:
        raise PlanMismatch(
            f"{query.name} is a formula, whose answers come from a synopsis",
            hint="Weft explains the answers of SQL. `weft explain` prints what the formula means.",
        ) from None


def _typed(home: OpenHome, query: QueryRecord, plan: Plan) -> Plan:
    """Return the plan with the types of intervals and of JSON text, which a stored plan lacks.

    The plan of the query's text has these types.  Return ``plan`` if the text has another plan today.
    """
    try:
        written = standing_plan(query.sql, schemas(home.catalog, query.sql), from_now=plan.from_now)
    except WeftError:
        return plan
    return written if signature(written) == signature(plan) else plan
