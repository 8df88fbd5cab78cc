"""Queries left standing, and what may happen to them: install, show, pause, resume, remove."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass

from weft.catalog.records import FromMode, PlanRecord, QueryDefinition, QueryRecord, Subscription, TickQuery
from weft.errors import Conflict
from weft.execution.home import Home, finish_purges
from weft.instants import parse_interval
from weft.planning.plan import columns_of, plan


@dataclass(frozen=True)
class Shown:
    """A query with its plan (and how many queries share it), where its answers go, what its last ticks did.

    ``reads`` and ``read_by`` are the names of the queries whose results it reads, and of those that read its.
    """

    query: QueryRecord
    plan: PlanRecord
    sharing: int
    subscriptions: tuple[Subscription, ...]
    ticks: tuple[TickQuery, ...]
    reads: tuple[str, ...]
    read_by: tuple[str, ...]


def install(
    home: Home,
    name: str,
    sql: str,
    *,
    user: str | None,
    every: str | int | None,
    start: FromMode,
    to: Sequence[str],
) -> QueryRecord:
    """See ``Weft.install``."""
    from weft.delivery.registry import canonical
    from weft.planning.form import stored_form

    every_us = parse_interval(every) if isinstance(every, str) else every
    channels = [canonical(channel, home.folder) for channel in to]
    with home.writing(f"install {name}") as writer:
        schemas = home.schemas(sql)
        compiled = plan(sql, schemas, from_now=start == "now")  # refusals name places in the text as it was given
        form = stored_form(compiled)
        definition = QueryDefinition(
            name=name,
            user=user or _user(),
            sql=sql.strip(),
            signature=form.signature,
            plan_body=form.body,
            parameters=form.parameters,
            names=form.names,
            columns=columns_of(compiled.query),
            every_us=every_us,
            from_instant=home.open_instant() if start == "now" else None,
            channels=tuple(channel for channel in channels if channel != "cursor"),
            reads=compiled.reads,
        )
        return writer.queries.install(definition, home.clock())


def show(home: Home, name: str, ticks: int) -> Shown:
    """See ``Weft.show``."""
    catalog = home.catalog
    query = catalog.queries.named(name)
    return Shown(
        query,
        catalog.queries.plan(query.plan_id),
        catalog.queries.count(query.plan_id),
        catalog.subscriptions.all(query.query_id),
        catalog.ticks.of_query(query.query_id, ticks),
        tuple(lower.name for lower in catalog.queries.by_ids(query.reads)),
        tuple(reader.name for reader in catalog.queries.readers(query.query_id)),
    )


def pause(home: Home, name: str) -> QueryRecord:
    """See ``Weft.pause``."""
    with home.writing(f"pause {name}") as writer:
        query = writer.queries.named(name)
        if query.state != "active":
            raise Conflict(f"{query.name} is {query.state} already", hint=f"`weft resume {query.name}` lets it go on.")
        return writer.queries.set_state(name, "paused")


def resume(home: Home, name: str, *, skip: bool) -> QueryRecord:
    """See ``Weft.resume``."""
    from weft.execution.groups import from_now_form
    from weft.execution.relations import relations

    with home.writing(f"resume {name}") as writer:
        query = writer.queries.named(name)
        failing = [s for s in writer.subscriptions.all(query.query_id) if s.last_error is not None]
        if query.state == "active" and not failing:
            raise Conflict(f"{query.name} is active already", hint=f"See `weft show {query.name}`.")
        if skip and query.state != "active":
            # As one installed now with --from now: what is an answer already, or was one meanwhile, is no news.
            schemas = {label: table.schema for label, table in relations(writer, query.reads).items()}
            form = from_now_form(writer.queries.plan(query.plan_id), schemas)
            writer.queries.skip_to(name, max(home.open_instant(), query.tau or 0), form.signature, form.body)
        for subscription in failing:
            writer.subscriptions.resume(subscription.sub_id)
        return writer.queries.set_state(name, "active")


def remove(home: Home, name: str, *, purge: bool) -> QueryRecord:
    """See ``Weft.remove``."""
    with home.writing(f"remove {name}") as writer:
        query = writer.queries.remove(name, home.clock(), purge=purge)
        finish_purges(writer, home.clock())
        return query


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no name for this user id
        return "user"
