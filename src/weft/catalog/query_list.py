"""List the installed queries page by page, with a filter and with the state of their channels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, union

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.naming import folded
from weft.catalog.queries import QUERY, query_record
from weft.catalog.query_conditions import is_seen_by
from weft.catalog.records import QueryRecord, QueryState
from weft.catalog.sharing import OWN
from weft.planning.stored_synopsis import MARK
from weft.printable import Brief


@dataclass(frozen=True)
class QueryFilter:
    """A choice of installed queries.  A field that is None or False excludes no query.

    ``text`` is a part of the name, the text or the owner, in any case.  With ``troubled``, only queries that failed or
    have a failing channel remain.  With ``synopsis``, only queries that are maintained as synopses remain.  With
    ``seen_by``, only the queries of this owner and those with these IDs remain.
    """

    text: str | None = None
    state: QueryState | None = None
    user: str | None = None
    troubled: bool = False
    synopsis: bool = False
    seen_by: tuple[str | None, Collection[int]] | None = None


@dataclass(frozen=True, repr=False)
class ListedQuery(Brief):
    """An installed query with its number of channels.

    ``trouble`` is one line with the reason why the query or a channel does not work, or None.
    """

    query: QueryRecord
    channels: int
    trouble: str | None

    def _brief(self) -> str:
        return self.query._brief() + (f"; {self.trouble}" if self.trouble else "")


class QueryList:
    """The installed queries of a home in the order of their names, without regard to case."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, wanted: QueryFilter, after: str | None, limit: int) -> tuple[ListedQuery, ...]:
        """Return at most ``limit`` queries whose names come after the name ``after``."""
        queries = ddl.queries.c
        statement = select(*QUERY).where(*_conditions(wanted)).order_by(queries.folded).limit(limit)
        if after is not None:
            statement = statement.where(queries.folded > folded(after))
        with self._database.reading() as connection:
            found = [query_record(row) for row in connection.execute(statement)]
            channels = _channels(connection, [query.query_id for query in found])
        return tuple(_listed(query, *channels.get(query.query_id, (0, 0, None))) for query in found)

    def latest(self, wanted: QueryFilter, before: tuple[int, int] | None, limit: int) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` of the wanted queries that have answers, those with the newest answers first.

        ``before`` is the pair (first instant of the last answer, ID) of the last query that is known.
        """
        queries = ddl.queries.c
        conditions = [*_conditions(wanted), queries.last_first_at.is_not(None)]
        if before is not None:
            at, key = before
            later = and_(queries.last_first_at == at, queries.query_id < key)
            conditions.append(or_(queries.last_first_at < at, later))
        order = (queries.last_first_at.desc(), queries.query_id.desc())
        rows = self._database.rows(select(*QUERY).where(*conditions).order_by(*order).limit(limit))
        return tuple(query_record(row) for row in rows)

    def counts(self, wanted: QueryFilter) -> dict[str, int]:
        """Return the number of the wanted queries in each state.

        As ``troubled``, return the number of those that failed or have a failing channel.
        """
        state = ddl.queries.c.state
        states = select(state, func.count()).where(*_conditions(wanted)).group_by(state)
        troubled = _conditions(replace(wanted, troubled=True))
        with self._database.reading() as connection:
            counts = {row[0]: int(row[1]) for row in connection.execute(states)}
            count = connection.execute(select(func.count()).select_from(ddl.queries).where(*troubled)).scalar_one()
            return counts | {"troubled": int(count)}


_LIVE: Final = ddl.queries.c.state != "removed"


def _conditions(wanted: QueryFilter) -> list[ColumnElement[bool]]:
    queries, subscribed = ddl.queries.c, ddl.subscriptions.c
    conditions: list[ColumnElement[bool]] = [_LIVE]
    if wanted.text:
        part = wanted.text.casefold()
        texts = (queries.folded, func.lower(queries.sql), func.lower(queries.user))
        conditions.append(or_(*(each.contains(part, autoescape=True) for each in texts)))
    if wanted.seen_by is not None:
        conditions.append(is_seen_by(*wanted.seen_by))
    if wanted.state:
        conditions.append(queries.state == wanted.state)
    if wanted.state not in (None, "active"):
        conditions.append(OWN)  # as all such queries are: the index has them by state
    if wanted.user:
        conditions.append(queries.user == wanted.user)
    if wanted.troubled:
        failing = select(subscribed.query_id).where(subscribed.last_error.is_not(None), subscribed.state != "ended")
        failed = select(queries.query_id).where(queries.state == "failed", OWN)
        conditions.append(queries.query_id.in_(union(failed, failing)))
    if wanted.synopsis:
        plans = select(ddl.plans.c.plan_id).where(ddl.plans.c.body.startswith(MARK, autoescape=True))
        conditions.append(queries.plan_id.in_(plans))
    return conditions


def _channels(connection: Connection, query_ids: list[int]) -> dict[int, tuple[int, int, str | None]]:
    """Return (number of channels, number of failing ones, an error) by query ID."""
    subscribed = ddl.subscriptions.c
    failing = subscribed.last_error.is_not(None)
    wanted = (
        select(
            subscribed.query_id, func.count(), func.sum(case((failing, 1), else_=0)), func.min(subscribed.last_error)
        )
        .where(subscribed.query_id.in_(query_ids), subscribed.state != "ended")
        .group_by(subscribed.query_id)
    )
    return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(wanted)} if query_ids else {}


def _listed(query: QueryRecord, channels: int, failing: int, error: str | None) -> ListedQuery:
    trouble = None
    if query.state == "failed":
        trouble = query.reason or "failed"
    elif failing:
        first = (error or "").split("\n", 1)[0]
        trouble = first if channels == 1 else f"{failing} of {channels} channels fail: {first}"
    return ListedQuery(query, channels, trouble)
