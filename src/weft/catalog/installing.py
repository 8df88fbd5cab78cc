"""Store new queries, any number at once; the number of statements does not grow with the number of queries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, insert, select

from weft.catalog import ddl
from weft.catalog.database import inserted_id
from weft.catalog.naming import folded, query_name
from weft.catalog.records import QueryDefinition
from weft.catalog.reservations import advance_watermark
from weft.errors import Conflict, NotFound

AT_ONCE: Final = 500
"""The number of names or ids in one statement: databases limit a statement's parameters."""

Item = TypeVar("Item")


def insert_queries(connection: Connection, queries: Sequence[QueryDefinition], at: int) -> tuple[int, ...]:
    """Store the queries with their subscriptions and plans and return their ids, in the same order.

    Raises as ``Queries.install`` does.
    """
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
    """Return the id of the plan with that signature, created if it does not exist."""
    plan_id = connection.execute(
        select(ddl.plans.c.plan_id).where(ddl.plans.c.signature == signature)
    ).scalar_one_or_none()
    if plan_id is not None:
        return int(plan_id)
    return inserted_id(connection, insert(ddl.plans).values(signature=signature, body=body))


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in batches of the size that one statement takes."""
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))


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
    }


def _ids(connection: Connection, names: Sequence[str]) -> tuple[int, ...]:
    queries = ddl.queries.c
    ids: dict[str, int] = {}
    for some in parts(names):
        live = select(queries.folded, queries.query_id).where(queries.folded.in_(some), queries.state != "removed")
        ids.update((row.folded, row.query_id) for row in connection.execute(live))
    return tuple(ids[name] for name in names)


def _refuse_taken(connection: Connection, queries: Sequence[QueryDefinition]) -> None:
    """Raise Conflict if a live query or another of these queries has the same name or writes to the same file."""
    names = {folded(query_name(query.name)): query.name for query in queries}
    columns = ddl.queries.c
    for some in parts(list(names)):
        live = select(columns.folded).where(columns.folded.in_(some), columns.state != "removed")
        taken = connection.execute(live.limit(1)).scalar_one_or_none()
        if taken is not None:
            hint = "Choose another name, replace its text (weft install --replace), or remove it."
            raise Conflict(f"there is a query {names[taken]!r} already", hint=hint)
    _refuse_twice((folded(query.name) for query in queries), "two of the queries are named {!r}", "another name")
    files = [c for query in queries for c in dict.fromkeys(query.channels) if c.startswith("file:")]
    refuse_taken_files(connection, files)
    _refuse_twice(files, "two of the queries write to {}", "a file of its own")


def refuse_taken_files(connection: Connection, files: Sequence[str]) -> None:
    """Raise Conflict if a live query writes to one of these file channels.

    A delivery that died is undone by truncating its file to where the message began, so a file belongs to one query.
    """
    queries, subscribed = ddl.queries.c, ddl.subscriptions.c
    for some in parts(files):
        owner = connection.execute(
            select(queries.name, subscribed.channel)
            .join_from(ddl.subscriptions, ddl.queries)
            .where(subscribed.channel.in_(some), subscribed.state != "ended", queries.state != "removed")
        ).first()
        if owner is not None:
            raise Conflict(
                f"{owner.name!r} writes to {owner.channel} already", hint="Give each query a file of its own."
            )


def _refuse_twice(names: Iterable[str], message: str, remedy: str) -> None:
    for each, times in Counter(names).items():
        if times > 1:
            raise Conflict(message.format(each), hint=f"Give each query {remedy}.")


def stratum_of(connection: Connection, reads: Iterable[int]) -> int:
    """Return one more than the greatest stratum of the queries read; raise NotFound if one of them is gone."""
    queries, stratum = ddl.queries.c, 0
    for query_id in reads:
        row = connection.execute(
            select(queries.name, queries.state, queries.stratum).where(queries.query_id == query_id)
        ).first()
        if row is None:
            raise NotFound(f"there is no query #{query_id}")
        if row.state == "removed":
            raise NotFound(f"the query {row.name} was removed", hint="Its results can no longer be read.")
        stratum = max(stratum, row.stratum + 1)
    return stratum
