"""List the installed queries page by page, with a filter and with the state of their channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, union, union_all

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.name_order import in_any_case
from weft.catalog.naming import folded
from weft.catalog.queries import QUERY, query_record
from weft.catalog.query_conditions import STATES, seen_parts
from weft.catalog.records import QueryRecord, QueryState
from weft.printable import Brief


@dataclass(frozen=True)
class QueryFilter:
    """A choice of installed queries.  A field that is None or False excludes no query.

    ``text`` is a part of the name, the text or the owner, in any case.  With ``troubled``, only queries remain that
    failed, that are paused because their owner has lost a right, or that have a failing channel.  With ``synopsis``,
    only queries that are maintained as synopses remain.  With ``seen_by``, only the queries of this owner and those
    with these IDs remain.
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
        name = ddl.queries.c.folded
        beyond = [] if after is None else [name > folded(after)]
        with self._database.reading() as connection:
            found = _first(connection, wanted, beyond, (name,), limit)
            channels = _channels(connection, [query.query_id for query in found])
        return tuple(_listed(query, *channels.get(query.query_id, (0, 0, None))) for query in found)

    def latest(self, wanted: QueryFilter, before: tuple[int, int] | None, limit: int) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` of the wanted queries that have answers, those with the newest answers first.

        ``before`` is the pair (first instant of the last answer, ID) of the last query that is known.
        """
        queries = ddl.queries.c
        beyond: list[ColumnElement[bool]] = [queries.last_first_at.is_not(None)]
        if before is not None:
            at, key = before
            later = and_(queries.last_first_at == at, queries.query_id < key)
            beyond.append(or_(queries.last_first_at < at, later))
        order = (queries.last_first_at.desc(), queries.query_id.desc())
        with self._database.reading() as connection:
            return _first(connection, wanted, beyond, order, limit)

    def counts(self, wanted: QueryFilter) -> dict[str, int]:
        """Return the number of the wanted queries in each state.

        As ``troubled``, return the number of those that ``QueryFilter.troubled`` selects.
        """
        state, found = ddl.queries.c.state, Counter[str]()
        with self._database.reading() as connection:
            for part in _parts(wanted):
                states = select(state, func.count()).where(*part, state.in_(STATES)).group_by(state)
                found.update({row[0]: int(row[1]) for row in connection.execute(states)})
            for part in _parts(replace(wanted, troubled=True)):
                number = select(func.count()).select_from(ddl.queries).where(*part)
                found["troubled"] += int(connection.execute(number).scalar_one())
        return dict(found)


def _first(
    connection: Connection,
    wanted: QueryFilter,
    beyond: Sequence[ColumnElement[bool]],
    order: Sequence[ColumnElement[Any]],
    limit: int,
) -> tuple[QueryRecord, ...]:
    """Return the first wanted queries that satisfy ``beyond``.

    An index finds the IDs of the first queries of each part.  Rows are read only for the first of all these IDs.
    """
    key = ddl.queries.c.query_id
    each = [
        select(select(key).where(*part, *beyond).order_by(*order).limit(limit).subquery().c.query_id)
        for part in _parts(wanted)
    ]
    rows = connection.execute(select(*QUERY).where(key.in_(union_all(*each))).order_by(*order).limit(limit))
    return tuple(query_record(row) for row in rows)


def _parts(wanted: QueryFilter) -> Iterator[list[ColumnElement[bool]]]:
    """Yield the conditions of parts that have each wanted query once."""
    conditions = _conditions(wanted)
    if wanted.seen_by is None:
        yield conditions
        return
    for part in seen_parts(*wanted.seen_by):
        yield [part, *conditions]


def _conditions(wanted: QueryFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of the filter except ``seen_by``."""
    queries = ddl.queries.c
    conditions: list[ColumnElement[bool]] = [ddl.LIVE]
    if wanted.text:
        named = queries.folded.contains(folded(wanted.text), autoescape=True)
        others = (in_any_case(each, wanted.text) for each in (queries.sql, queries.user))
        conditions.append(or_(named, *others))
    if wanted.state:
        conditions.append(queries.state == wanted.state)
    if wanted.user:
        conditions.append(queries.user == wanted.user)
    if wanted.troubled:
        failing = select(ddl.subscriptions.c.query_id).where(ddl.UNWELL, ddl.subscriptions.c.last_error.is_not(None))
        failed = select(queries.query_id).where(ddl.LIVE, queries.state == "failed")
        barred = select(queries.query_id).where(ddl.LIVE, queries.state == "paused", queries.reason.is_not(None))
        conditions.append(queries.query_id.in_(union(failed, barred, failing)))
    if wanted.synopsis:
        conditions.append(queries.plan_id.in_(select(ddl.plans.c.plan_id).where(ddl.SYNOPSIS)))
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
    elif query.is_barred:
        trouble = query.reason
    elif failing:
        first = (error or "").split("\n", 1)[0]
        trouble = first if channels == 1 else f"{failing} of {channels} channels fail: {first}"
    return ListedQuery(query, channels, trouble)
