"""Store standing queries and the plans that they share (design section 5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    union_all,
    update,
)

from weft.algebra.schema import DataType
from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.grants import forget_grants
from weft.catalog.naming import folded, not_found, query_name
from weft.catalog.query_conditions import STATES, TAU, is_chosen, is_readable, is_seen_by, parts, seen_parts
from weft.catalog.records import Choice, DuePlan, Parameter, PlanRecord, QueryDefinition, QueryRecord, QueryState
from weft.catalog.reservations import advance_watermark
from weft.catalog.sharing import OWN, SHARED, leave
from weft.catalog.tables import record_version
from weft.errors import ClockError, Conflict, NotFound, StorageError
from weft.instants import MIN_INSTANT, format_instant

_READING: Final = text(f"{ddl.queries.name}.{ddl.READING}")
PURGING: Final = "purging"
"""The ``reason`` of a removed query during the purge of its answers."""
PURGING_NOW: Final = "purging with its files"
"""As ``PURGING``, if the files are to be deleted at once."""
_PURGED: Final = "its answers were purged"
"""The ``reason`` of a removed query whose answers are no longer in the ledger. Removed files may still contain them."""
_DELETED: Final = "its answers were purged and their files deleted"

QUERY: Final = tuple(TAU if field.name == "tau" else ddl.queries.c[field.name] for field in fields(QueryRecord))
"""The columns of a ``QueryRecord``."""
_OF_SHARING: Final = frozenset(("state", "tau", "plan_id", "every_us"))
"""The columns that the queries which share a ``tau`` have in common."""

OF_ONE_QUERY: Final = ("file:", "feed:")
"""The kinds of channels that belong to one query each."""
_NAMES: Final = 5_000


class Queries:
    """The standing queries of a home.  IDs of queries are never reused."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def install(self, query: QueryDefinition, at: int) -> QueryRecord:
        """Install a query with its subscriptions.  Queries with the same plan signature share a plan.

        If ``from_instant`` is set, the watermark advances to ``from_instant``.  The query therefore misses no row that
        affects its answers.

        Raise Conflict if a live query has the same name or writes to the same file.  Raise NotFound if a query in
        ``reads`` does not exist.  Raise ClockError if a load has reserved earlier instants.
        """
        return self.install_all([query], at)[0]

    def install_all(self, queries: Sequence[QueryDefinition], at: int) -> tuple[QueryRecord, ...]:
        """Install several queries in one transaction, as ``install`` does.  Return the records in the same order."""
        with self._database.changing_under_lease() as connection:
            keys = insert_queries(connection, queries, at)
            installed = {query.query_id: query for query in _by_ids(connection, keys)}
            return tuple(installed[key] for key in keys)

    def all(
        self,
        include_removed: bool = False,
        *,
        after: int = 0,
        limit: int | None = None,
        seen_by: tuple[str | None, Collection[int]] | None = None,
    ) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` installed queries with an ID above ``after``, ordered by ID.

        ``seen_by`` is an owner, and the IDs of queries of others: return only these queries.
        """
        queries = ddl.queries.c
        wanted = select(*QUERY).where(queries.query_id > after).order_by(queries.query_id).limit(limit)
        if not include_removed:
            wanted = wanted.where(ddl.LIVE)
        wanted = wanted if seen_by is None else wanted.where(is_seen_by(*seen_by))
        return tuple(query_record(row) for row in self._database.rows(wanted))

    def ids_read_by(self, owner: str | None, others: Collection[int]) -> frozenset[int]:
        """Return the IDs of the queries with answers that an owner may read: her own, and those of ``others``."""
        queries = ddl.queries.c
        readable = select(queries.query_id).where(is_readable(), queries.last_first_at.is_not(None))
        ids = union_all(*(readable.where(part) for part in seen_parts(owner, others))).subquery().c.query_id
        # One text: for each row, Python would give the interpreter to other threads.
        found: str | None = self._database.value(select(func.aggregate_strings(cast(ids, ddl.Text), ",")))
        return frozenset(map(int, found.split(","))) if found else frozenset()

    def count_of(self, user: str) -> int:
        """Return the number of installed queries of an owner."""
        wanted = select(func.count()).where(ddl.queries.c.user == user, ddl.LIVE)
        return int(self._database.value(wanted))

    def count(self, plan_id: int | None = None) -> int:
        """Return the number of installed queries.  With ``plan_id``, count only the queries of this plan."""
        queries = ddl.queries.c
        wanted = select(func.count()).select_from(ddl.queries).where(ddl.LIVE)
        if plan_id is not None:
            wanted = wanted.where(queries.plan_id == plan_id)
        return int(self._database.value(wanted))

    def next_wake(self, pace_us: int) -> int | None:
        """Return the instant by which the next tick must run, or None if no query is active.

        Return MIN_INSTANT if an active query has never run.  ``pace_us`` is the default interval in microseconds.
        """
        queries = ddl.queries.c
        at_each_tick = case((queries.next_run.is_(None), func.coalesce(queries.tau, MIN_INSTANT)))
        with self._database.reading() as connection:
            run, own = connection.execute(
                select(func.min(queries.next_run), func.min(at_each_tick)).where(queries.state == "active", OWN)
            ).one()
            shared = connection.execute(select(func.min(ddl.plans.c.tau)).where(SHARED)).scalar_one()
        ticked = min((each for each in (own, shared) if each is not None), default=None)
        if ticked is not None:
            ticked = ticked if ticked == MIN_INSTANT else ticked + pace_us
        return min((each for each in (run, ticked) if each is not None), default=None)

    def counts(self) -> dict[QueryState, int]:
        """Return the number of queries in each state except ``removed``."""
        state = ddl.queries.c.state
        wanted = select(state, func.count()).where(ddl.LIVE, state.in_(STATES)).group_by(state)
        return {row[0]: row[1] for row in self._database.rows(wanted)}

    def waiting_since(self, at: int) -> tuple[int | None, int | None]:
        """Return the instant at which the first active query became ready to run, and the earliest due instant up to
        ``at``.

        At a due instant, a query gets an answer from the passage of time alone.  A missing instant is None.
        """
        queries = ddl.queries.c
        ready = func.coalesce(queries.next_run, queries.tau, queries.replaced_at, queries.installed_at)
        due = case((queries.next_due <= at, queries.next_due))
        with self._database.reading() as connection:
            active = (queries.state == "active", OWN)
            own, first_due = connection.execute(select(func.min(ready), func.min(due)).where(*active)).one()
            shared = connection.execute(select(func.min(ddl.plans.c.tau)).where(SHARED)).scalar_one()
        return min((each for each in (own, shared) if each is not None), default=None), first_due

    def due_plans(self, at: int) -> tuple[DuePlan, ...]:
        """Return the queries that must run at ``at`` and have no tick at or after ``at``, grouped by plan."""
        queries = ddl.queries.c
        begin = func.coalesce(queries.tau, queries.from_instant)
        undated = begin.is_not(None) & queries.next_due.is_(None)
        wanted = (
            select(
                queries.plan_id,
                func.sum(case((begin.is_(None), 1), else_=0)).label("unbounded"),
                func.min(begin).label("since"),
                func.sum(case((undated, 1), else_=0)).label("undated"),
                func.min(queries.next_due).label("next_due"),
            )
            .where(is_chosen(Choice(due_at=at)), OWN, or_(begin.is_(None), begin < at))
            .group_by(queries.plan_id)
            .order_by(queries.plan_id)
        )
        plans = ddl.plans.c
        shared = select(plans.plan_id, plans.tau).where(SHARED, plans.tau < at)
        with self._database.reading() as connection:
            due = {row.plan_id: DuePlan(**row._mapping) for row in connection.execute(wanted)}
            for plan_id, tau in connection.execute(shared):
                own = due.get(plan_id, DuePlan(plan_id, 0, tau, 0, None))
                since = tau if own.since is None else min(own.since, tau)
                due[plan_id] = replace(own, since=since, undated=own.undated + 1)
        return tuple(due[plan_id] for plan_id in sorted(due))

    def named(self, name: str) -> QueryRecord:
        """Return the live query with this case-insensitive name.  Raise NotFound for an unknown name."""
        return self._database.read(query_named, name)

    def among(self, names: Iterable[str]) -> tuple[QueryRecord, ...]:
        """Return the live queries with these case-insensitive names.  Ignore unknown names."""
        return self._database.read(_among, tuple(sorted({folded(name) for name in names})))

    def by_ids(self, ids: Iterable[int]) -> tuple[QueryRecord, ...]:
        """Return the queries with these IDs, including removed queries, ordered by ID."""
        return self._database.read(_by_ids, tuple(ids))

    def read_by_plans(self, plan_ids: Collection[int]) -> tuple[QueryRecord, ...]:
        """Return the queries whose results the live queries of these plans read, directly or indirectly."""
        return self._database.read(read_below, ddl.queries.c.plan_id.in_(list(plan_ids)))

    def readers(self, query_id: int) -> tuple[QueryRecord, ...]:
        """Return the live queries that read the query's results."""
        return self._database.read(_readers, query_id)

    def by_id(self, query_id: int) -> QueryRecord:
        """Return the query with this ID, even if the query is removed.  Raise NotFound for an unknown ID."""
        return self._database.read(read_query, query_id)

    @contextmanager
    def purge_reported(self, query_id: int) -> Iterator[None]:
        """Raise NotFound in place of StorageError if the query's answers were purged during the ``with`` block."""
        try:
            yield
        except StorageError:
            self._database.end_state()
            query = self.by_id(query_id)
            if query.state == "removed" and query.reason in (PURGING, PURGING_NOW, _PURGED, _DELETED):
                raise NotFound(
                    f"the query {query.name} was removed with its answers",
                    hint="List the installed queries with `weft queries`.",
                ) from None
            raise

    def plan(self, plan_id: int) -> PlanRecord:
        """Return the plan with this ID.  Raise NotFound for an unknown ID."""
        return self._database.read(_plan, plan_id)

    def plans(self, plan_ids: Collection[int] | None = None) -> tuple[PlanRecord, ...]:
        """Return the plans with these IDs, ordered by ID.  With None, return the plans of live queries."""
        plan, queries = ddl.plans.c, ddl.queries.c
        conditions: list[ColumnElement[bool]]
        conditions = [exists().where(queries.plan_id == plan.plan_id, queries.state != "removed")]
        if plan_ids is not None:
            conditions = [plan.plan_id.in_(some) for some in parts(sorted(plan_ids))]
        each = (self._database.rows(select(ddl.plans).where(one).order_by(plan.plan_id)) for one in conditions)
        return tuple(PlanRecord(row.plan_id, row.signature, row.body) for rows in each for row in rows)

    def of_synopses(self) -> tuple[tuple[QueryRecord, PlanRecord], ...]:
        """Return (query, plan), ordered by ID, for each live query that is maintained as a synopsis."""
        plan, queries = ddl.plans.c, ddl.queries.c
        wanted = (
            select(*QUERY, plan.signature, plan.body)
            .join_from(ddl.queries, ddl.plans)
            .where(ddl.LIVE, ddl.SYNOPSIS)
            .order_by(queries.query_id)
        )
        rows = self._database.rows(wanted)
        records = ((query_record(row), row) for row in rows)
        return tuple((query, PlanRecord(query.plan_id, row.signature, row.body)) for query, row in records)

    def reading(self, table_id: int) -> tuple[tuple[QueryRecord, str], ...]:
        """Return (query, stored plan) for each live query that reads the table."""
        plan, queries = ddl.plans.c, ddl.queries.c
        named = plan.body.contains(f'["table",{table_id}]', autoescape=True)
        wanted = select(*QUERY, plan.body).join_from(ddl.queries, ddl.plans).where(queries.state != "removed", named)
        return tuple((query_record(row), row.body) for row in self._database.rows(wanted.order_by(queries.query_id)))

    def set_state(self, name: str, state: QueryState, reason: str | None = None) -> QueryRecord:
        """Set the state of a live query and store ``reason``.  If ``reason`` is None, delete the stored reason."""
        with self._database.changing_under_lease() as connection:
            query = query_named(connection, name)
            return change_query(connection, query.query_id, state=state, reason=reason)

    def remove(self, name: str, at: int, *, purge: bool = False, now: bool = False) -> QueryRecord:
        """Remove a live query.  Raise Conflict if other queries read its results.

        The name of the query becomes free, and its answers stay in the ledger.  With ``purge``, the caller must purge
        the answers and then call ``purged``.  With ``now``, the caller must also delete the files of the answers.
        """
        with self._database.changing_under_lease() as connection:
            query = query_named(connection, name)
            _refuse_read(connection, query)
            reason = (PURGING_NOW if now else PURGING) if purge else None
            forget_grants(connection, "query", query.query_id)
            connection.execute(delete(ddl.secrets).where(ddl.secrets.c.query_id == query.query_id))
            of_this = update(ddl.subscriptions).where(ddl.subscriptions.c.query_id == query.query_id)
            connection.execute(of_this.values(behind=0))
            return change_query(connection, query.query_id, state="removed", removed_at=at, reason=reason)

    def purging(self) -> tuple[QueryRecord, ...]:
        """Return the removed queries whose answers must be purged.  A part of the answers may already be purged."""
        queries = ddl.queries.c
        wanted = select(*QUERY).where(queries.state == "removed", OWN, queries.reason.in_((PURGING, PURGING_NOW)))
        return tuple(query_record(row) for row in self._database.rows(wanted.order_by(queries.query_id)))

    def purged(self, query_ids: Iterable[int], stored: tuple[str, int, int] | None, at: int) -> None:
        """Record a purge of the queries' answers at the wall-clock time ``at`` (µs).

        ``stored`` is the ledger's new (path, version, number of rows), or None if there is no ledger.
        """
        reason = _DELETED if stored is None else _PURGED
        with self._database.changing_under_lease() as connection:
            for query_id in query_ids:
                change_query(connection, query_id, reason=reason, removed_at=at)
            if stored is not None:
                record_version(connection, *stored)

    def last_purge(self) -> int | None:
        """Return the wall-clock time (µs) of the last purge whose files still exist, or None."""
        queries = ddl.queries.c
        last: int | None = self._database.value(
            select(func.max(queries.removed_at)).where(queries.state == "removed", OWN, queries.reason == _PURGED)
        )
        return last

    def purged_files_deleted(self, before: int) -> None:
        """Record that the files of all purges up to the wall-clock time ``before`` (µs) are deleted."""
        queries = ddl.queries
        own = (queries.c.state == "removed", queries.c.reason == _PURGED, queries.c.removed_at <= before)
        with self._database.changing_under_lease() as connection:
            connection.execute(update(queries).where(*own).values(reason=_DELETED))

    def skip_to(self, name: str, instant: int, signature: str, plan_body: str) -> QueryRecord:
        """Continue the query from ``instant`` with the plan of this signature.  Create the plan if it does not exist.

        The plan must be the query's plan for ``--from now``, which skips earlier answers.  The watermark advances to
        ``instant``.  Raise ClockError if ``instant`` is before the query's tau, or if a load has reserved earlier
        instants.
        """
        with self._database.changing_under_lease() as connection:
            query = query_named(connection, name)
            advance_watermark(connection, instant)
            if query.tau is not None and instant < query.tau:
                tau, wanted = format_instant(query.tau), format_instant(instant)
                raise ClockError(f"{query.name} was ticked up to {tau} and cannot go back to {wanted}")
            plan_id = plan_of(connection, signature, plan_body)
            run = None if query.every_us is None else instant + query.every_us
            begin = {"from_mode": "now", "from_instant": instant, "tau": instant}
            return change_query(connection, query.query_id, plan_id=plan_id, next_due=None, next_run=run, **begin)


def read_query(connection: Connection, query_id: int) -> QueryRecord:
    """Return the query with this ID in the caller's transaction.  Raise NotFound for an unknown ID."""
    row = connection.execute(select(*QUERY).where(ddl.queries.c.query_id == query_id)).first()
    if row is None:
        raise NotFound(f"there is no query #{query_id}")
    return query_record(row)


def change_query(connection: Connection, query_id: int, **values: Any) -> QueryRecord:
    """Update columns of a query and return the changed record."""
    if not _OF_SHARING.isdisjoint(values):
        leave(connection, ddl.queries.c.query_id == query_id)
    connection.execute(update(ddl.queries).where(ddl.queries.c.query_id == query_id).values(**values))
    return read_query(connection, query_id)


def query_named(connection: Connection, name: str) -> QueryRecord:
    """Return the live query with this case-insensitive name.  Raise NotFound for an unknown name."""
    queries = ddl.queries.c
    row = connection.execute(select(*QUERY).where(queries.folded == folded(name), queries.state != "removed")).first()
    if row is None:
        names = connection.execute(select(queries.name).where(queries.state != "removed").limit(_NAMES)).scalars()
        raise not_found("query", name, names)
    return query_record(row)


def _readers(connection: Connection, query_id: int) -> tuple[QueryRecord, ...]:
    return tuple(query for query in live_readers(connection).values() if query_id in query.reads)


def read_below(connection: Connection, start: ColumnElement[bool]) -> tuple[QueryRecord, ...]:
    """Return the queries whose results are read, directly or indirectly, by live queries that satisfy ``start``."""
    readers = live_readers(connection)
    if not readers:
        return ()
    waiting = list(connection.execute(select(ddl.queries.c.query_id).where(_READING, start)).scalars())
    below: set[int] = set()
    while waiting:
        reader = readers.get(waiting.pop())
        new = set(reader.reads) - below if reader is not None else set()
        below |= new
        waiting += new
    return _by_ids(connection, below)


def live_readers(connection: Connection) -> dict[int, QueryRecord]:
    """Return a mapping from IDs to live queries that read the results of other queries."""
    queries = ddl.queries.c
    wanted = select(*QUERY).where(_READING, queries.state != "removed").order_by(queries.query_id)
    return {row.query_id: query_record(row) for row in connection.execute(wanted)}


def _among(connection: Connection, names: tuple[str, ...]) -> tuple[QueryRecord, ...]:
    records: list[QueryRecord] = []
    for some in parts(names):
        records += [query_record(row) for row in connection.execute(_AMONG, {"names": list(some)})]
    return tuple(sorted(records, key=lambda query: query.query_id))


def _plan(connection: Connection, plan_id: int) -> PlanRecord:
    row = connection.execute(_PLAN, {"plan_id": plan_id}).first()
    if row is None:
        raise NotFound(f"there is no plan {plan_id}")
    return PlanRecord(row.plan_id, row.signature, row.body)


_PLAN: Final = select(ddl.plans).where(ddl.plans.c.plan_id == bindparam("plan_id"))


def _by_ids(connection: Connection, ids: Iterable[int]) -> tuple[QueryRecord, ...]:
    some = parts(sorted(set(ids)))
    return tuple(query_record(row) for each in some for row in connection.execute(_BY_IDS, {"ids": list(each)}))


_NAMED: Final = ddl.queries.c.folded.in_(bindparam("names", expanding=True))
_AMONG: Final = select(*QUERY).where(_NAMED, ddl.queries.c.state != "removed")
_LISTED: Final = ddl.queries.c.query_id.in_(bindparam("ids", expanding=True))
_BY_IDS: Final = select(*QUERY).where(_LISTED).order_by(ddl.queries.c.query_id)
"""Statements that most pages run.  To make one takes longer than to run it."""


def _refuse_read(connection: Connection, query: QueryRecord) -> None:
    readers = _readers(connection, query.query_id)
    if readers:
        names = ", ".join(reader.name for reader in readers)
        raise Conflict(f"{query.name} is read by {names}", hint="Remove the queries and views that read it first.")


def query_record(row: Sequence[Any]) -> QueryRecord:
    """Return the QueryRecord of a row that starts with the columns ``QUERY``.

    Access to the columns by name would be too slow for each tick.
    """
    values = list(row[: len(QUERY)])
    for place, parsed in _PARSED.items():
        values[place] = parsed(values[place])
    return QueryRecord(*values)


@lru_cache(maxsize=200_000)
def parameters(stored: str) -> tuple[Parameter, ...]:
    """Return the constants of a query from their stored text."""
    return tuple((type_, value) for type_, value in _parsed(stored)[0])


@lru_cache(maxsize=1_000)
def _columns(stored: str) -> tuple[tuple[str, DataType], ...]:
    """The cache is effective because most queries of a plan store the same text."""
    return tuple((name, DataType.of_column(type_)) for name, type_ in json.loads(stored))


@lru_cache(maxsize=1_000)
def _listed(stored: str) -> tuple[Any, ...]:
    return tuple(json.loads(stored))


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "parameters": parameters,
    "columns": _columns,
    "names": _listed,
    "reads": _listed,
    "definitions": _listed,
    "needs": _listed,
}
_PLACES: Final = [field.name for field in fields(QueryRecord)]
_parsed: Final = json.JSONDecoder().raw_decode

_PARSED: Final = {_PLACES.index(name): parsed for name, parsed in _PARSERS.items()}


def insert_queries(connection: Connection, queries: Sequence[QueryDefinition], at: int) -> tuple[int, ...]:
    """Store the queries with their subscriptions and plans.  Return the IDs in the order of ``queries``."""
    if not queries:
        return ()
    starts = [query.from_instant for query in queries if query.from_instant is not None]
    if starts:
        advance_watermark(connection, max(starts))
    _refuse_taken(connection, queries)
    plans = {each.signature: each.plan_body for each in queries}
    ids = {signature: plan_of(connection, signature, body) for signature, body in plans.items()}
    strata = {reads: stratum_of(connection, reads) for reads in {query.reads for query in queries}}
    rows = [_row(query, ids[query.signature], strata[query.reads], at) for query in queries]
    connection.execute(insert(ddl.queries), rows)
    keys = _ids(connection, [str(row["folded"]) for row in rows])
    subscriptions = [
        {
            "query_id": key,
            "channel": channel,
            "delivered": 0,
            "state": "active",
            "attempts": 0,
            "digest": query.digest,
            "zone": query.zone,
        }
        for key, query in zip(keys, queries, strict=True)
        for channel in dict.fromkeys(query.channels)
    ]
    if subscriptions:
        connection.execute(insert(ddl.subscriptions), subscriptions)
    return keys


def plan_of(connection: Connection, signature: str, body: str) -> int:
    """Return the ID of the plan with this signature.  Create the plan if it does not exist."""
    plan_id = connection.execute(
        select(ddl.plans.c.plan_id).where(ddl.plans.c.signature == signature)
    ).scalar_one_or_none()
    if plan_id is not None:
        return int(plan_id)
    return inserted_id(connection, insert(ddl.plans).values(signature=signature, body=body))


def _row(query: QueryDefinition, plan_id: int, stratum: int, at: int) -> dict[str, Any]:
    return {
        "name": query.name,
        "folded": folded(query_name(query.name)),
        "user": query.user,
        "sql": query.sql,
        "plan_id": plan_id,
        "parameters": json.dumps([list(each) for each in query.parameters]),
        "columns": json.dumps([[column, type_.declared] for column, type_ in query.columns]),
        "names": json.dumps(query.names),
        "every_us": query.every_us,
        "from_mode": "start" if query.from_instant is None else "now",
        "from_instant": query.from_instant,
        "next_ordinal": 1,
        "state": "active",
        "installed_at": at,
        "reads": json.dumps(sorted(set(query.reads))),
        "stratum": stratum,
        "definitions": json.dumps(query.definitions),
        "needs": json.dumps(sorted(set(query.needs))),
        "saved_id": query.saved_id,
    }


def _ids(connection: Connection, names: Sequence[str]) -> tuple[int, ...]:
    queries = ddl.queries.c
    ids: dict[str, int] = {}
    for some in parts(names):
        live = select(queries.folded, queries.query_id).where(queries.folded.in_(some), queries.state != "removed")
        ids.update((row.folded, row.query_id) for row in connection.execute(live))
    return tuple(ids[name] for name in names)


def _refuse_taken(connection: Connection, queries: Sequence[QueryDefinition]) -> None:
    names = {folded(query_name(query.name)): query.name for query in queries}
    columns = ddl.queries.c
    for some in parts(list(names)):
        live = select(columns.folded).where(columns.folded.in_(some), columns.state != "removed")
        taken = connection.execute(live.limit(1)).scalar_one_or_none()
        if taken is not None:
            hint = "Choose another name, replace the text of the query (weft install --replace), or remove the query."
            raise Conflict(f"there is already a query {names[taken]!r}", hint=hint)
    _refuse_twice((folded(query.name) for query in queries), "two of the queries are named {!r}", "another name")
    files = [c for query in queries for c in dict.fromkeys(query.channels) if c.startswith(OF_ONE_QUERY)]
    refuse_taken_files(connection, files)
    _refuse_twice(files, "two of the queries write to {}", "a file of its own")


def refuse_taken_files(connection: Connection, files: Sequence[str]) -> None:
    """Raise Conflict if a live query writes to one of ``files`` (channels ``OF_ONE_QUERY``).

    After a crash, Weft truncates a file to remove an incomplete message.  Only one query can therefore write to a file.
    A feed has the rights of its query.
    """
    queries, subscribed = ddl.queries.c, ddl.subscriptions.c
    for some in parts(files):
        owner = connection.execute(
            select(queries.name, subscribed.channel)
            .join_from(ddl.subscriptions, ddl.queries)
            .where(subscribed.channel.in_(some), subscribed.state != "ended", queries.state != "removed")
        ).first()
        if owner is not None:
            raise Conflict(f"{owner.name!r} already writes to {owner.channel}", hint="Give each query its own file.")


def _refuse_twice(names: Iterable[str], message: str, remedy: str) -> None:
    for each, times in Counter(names).items():
        if times > 1:
            raise Conflict(message.format(each), hint=f"Give each query {remedy}.")


def stratum_of(connection: Connection, reads: Iterable[int]) -> int:
    """Return the stratum of a query that reads these queries.  Raise NotFound if one of the queries is missing."""
    queries, stratum = ddl.queries.c, 0
    for query_id in reads:
        row = connection.execute(
            select(queries.name, queries.state, queries.stratum).where(queries.query_id == query_id)
        ).first()
        if row is None:
            raise NotFound(f"there is no query #{query_id}")
        if row.state == "removed":
            raise NotFound(
                f"the query {row.name} was removed",
                hint=(
                    "Read a table or the results of another query: a new query cannot read the results of a "
                    "removed query."
                ),
            )
        stratum = max(stratum, row.stratum + 1)
    return stratum
