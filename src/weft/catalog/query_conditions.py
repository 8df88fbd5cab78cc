"""Choose queries: the conditions of SQL that several statements share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeVar

from sqlalchemy import ColumnElement, and_, case, not_, or_, select

from weft.catalog import ddl
from weft.catalog.name_order import is_one_of
from weft.catalog.records import Choice, QueryState

Item = TypeVar("Item")

_AT_ONCE: Final = 500
"""The maximum number of names or IDs in one SQL statement, because databases limit the number of parameters."""
_plans = ddl.plans.alias("their_plans")
STATES: Final[tuple[QueryState, ...]] = ("active", "paused", "failed")
"""The states of installed queries."""
TAU: Final[ColumnElement[int | None]] = case(
    (ddl.queries.c.shared_since.is_(None), ddl.queries.c.tau),
    else_=select(_plans.c.tau)
    .where(_plans.c.plan_id == ddl.queries.c.plan_id)
    .correlate(ddl.queries)
    .scalar_subquery(),
).label("tau")
"""The ``tau`` of a query: its own, or that of its plan if it shares it (``sharing``)."""

IS_FIRST: Final[ColumnElement[bool]] = and_(
    ddl.queries.c.shared_since.is_(None), ddl.queries.c.tau.is_(None), ddl.queries.c.from_mode != "now"
)
"""The condition for queries whose next tick is a first delivery."""


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split the items into batches of at most ``_AT_ONCE``."""
    return (items[at : at + _AT_ONCE] for at in range(0, len(items), _AT_ONCE))


def is_seen_by(owner: str | None, others: Collection[int]) -> ColumnElement[bool]:
    """Return the condition for the queries of an owner, and those with the IDs ``others``."""
    return or_(*seen_parts(owner, others))


def seen_parts(owner: str | None, others: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    """Return conditions that together choose the queries of ``is_seen_by``, each query once.

    To sort a disjunction, a database reads all its rows.  It finds the first rows of each part by an index.
    """
    own = ddl.queries.c.user == owner
    if not others:
        return (own,)
    return own, and_(is_one_of(ddl.queries.c.query_id, others), not_(own))


def is_readable() -> ColumnElement[bool]:
    """Return the condition for the live queries whose owners have not lost a right."""
    queries = ddl.queries.c
    return and_(ddl.LIVE, not_(and_(queries.state == "paused", queries.reason.is_not(None))))


def is_chosen(choice: Choice) -> ColumnElement[bool]:
    """Return the SQL condition for the queries of a choice."""
    queries = ddl.queries.c
    conditions = [queries.state == "active"]
    if choice.query_ids is not None:
        conditions.append(queries.query_id.in_(choice.query_ids))
    if choice.due_at is not None:
        conditions.append(or_(queries.next_run.is_(None), queries.next_run <= choice.due_at))
    if choice.first_of is not None:
        conditions.append(and_(IS_FIRST, queries.plan_id.in_(choice.first_of)))
    if choice.but_first_of:
        conditions.append(not_(and_(IS_FIRST, queries.plan_id.in_(choice.but_first_of))))
    return and_(*conditions)
