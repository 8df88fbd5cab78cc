"""Asking once, explaining, installing, and what stands."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.api.explaining import Known, explained
from weft.api.opened import Instant, Opened, micros
from weft.catalog.records import FromMode, PlanRecord, QueryDefinition, QueryRecord, Subscription, TickQuery
from weft.errors import Conflict
from weft.instants import parse_interval
from weft.planning.explain import Explanation
from weft.planning.plan import columns_of, plan

if TYPE_CHECKING:
    from weft.execution.ad_hoc import Answer
    from weft.storage.ledger import ResultRow


@dataclass(frozen=True)
class Shown:
    """A query with its plan (and how many queries share it), where its answers go, and what its last ticks did."""

    query: QueryRecord
    plan: PlanRecord
    sharing: int
    subscriptions: tuple[Subscription, ...]
    ticks: tuple[TickQuery, ...]


class Standing(Opened):
    """Queries."""

    def try_query(self, sql: str, *, now: Instant | None = None, limit: int | None = 20) -> Answer:
        """Q(now): the answer as if the database were fixed, at most ``limit`` of its rows; now None: the home's clock.

        Raises SqlError for what cannot stand, ExecutionError, StorageError.
        """
        compiled = plan(sql, self.schemas())
        at = self.now() if now is None else micros(now)
        from weft.execution.ad_hoc import ask

        tables = {table.name: table for table in self.catalog.tables.all()}
        return ask(self.session(), self.home, tables, compiled.query, at, limit)

    def explain(self, sql: str, *, start: FromMode = "start") -> Explanation:
        """What the query would do when installed; starts no Spark.  Raises SqlError."""
        return explained(sql, Known(self.schemas(), None), from_now=start == "now")

    def install(
        self,
        name: str,
        sql: str,
        *,
        user: str | None = None,
        every: str | int | None = None,
        start: FromMode = "start",
        to: Sequence[str] = (),
    ) -> QueryRecord:
        """Leaves a query standing.  ``every`` is text such as ``10m``, or microseconds; ``to`` are channels.

        From ``start`` it delivers the whole history's answers first, from ``now`` only rows that enter the answer from
        the home's present instant on.  Raises SqlError, Conflict, Refused for channels or lengths that cannot be.
        """
        from weft.delivery.registry import canonical
        from weft.planning.form import stored_form

        every_us = parse_interval(every) if isinstance(every, str) else every
        channels = [canonical(channel, self.home) for channel in to]
        with self.writing(f"install {name}") as writer:
            schemas = self.schemas()
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
                from_instant=self.open_instant() if start == "now" else None,
                channels=tuple(channel for channel in channels if channel != "cursor"),
            )
            return writer.queries.install(definition, self.clock())

    def queries(self) -> tuple[QueryRecord, ...]:
        """The installed queries, in the order of their ids."""
        return self.catalog.queries.all()

    def show(self, name: str, ticks: int = 5) -> Shown:
        """One query in full; raises NotFound."""
        query = self.catalog.queries.named(name)
        same = [other for other in self.catalog.queries.all() if other.plan_id == query.plan_id]
        return Shown(
            query,
            self.catalog.queries.plan(query.plan_id),
            len(same),
            self.catalog.subscriptions.all(query.query_id),
            self.catalog.ticks.of_query(query.query_id, ticks),
        )

    def results(self, name: str, *, after: int = 0, limit: int | None = None) -> Iterator[ResultRow]:
        """The query's answers of an ordinal above ``after``, in order, without Spark; raises NotFound, StorageError."""
        from weft.storage.ledger import read_rows

        return read_rows(self.home, self.catalog.queries.named(name), after, limit)

    def pause(self, name: str) -> QueryRecord:
        """Leaves a query out of ticks until it is resumed; raises NotFound, Conflict where it is not active."""
        with self.writing(f"pause {name}") as writer:
            query = self.catalog.queries.named(name)
            if query.state != "active":
                raise Conflict(
                    f"{query.name} is {query.state} already", hint=f"`weft resume {query.name}` lets it go on."
                )
            return writer.queries.set_state(name, "paused")

    def resume(self, name: str, *, skip: bool = False) -> QueryRecord:
        """Lets a query that was paused or failed go on, and has its channels that failed tried again at once.

        It goes on where it stopped; with ``skip`` at the home's present instant, answers that appeared in between being
        left out.  Raises NotFound, Conflict where nothing of it was stopped.
        """
        with self.writing(f"resume {name}") as writer:
            query = self.catalog.queries.named(name)
            failing = [s for s in writer.subscriptions.all(query.query_id) if s.last_error is not None]
            if query.state == "active" and not failing:
                raise Conflict(f"{query.name} is active already", hint=f"See `weft show {query.name}`.")
            for subscription in failing:
                writer.subscriptions.resume(subscription.sub_id)
            if skip and query.state != "active":
                writer.queries.skip_to(name, max(self.open_instant(), query.tau or 0))
            return writer.queries.set_state(name, "active")

    def remove(self, name: str, *, purge: bool = False) -> QueryRecord:
        """Removes a query, its name being free again; with ``purge`` its answers, too.  Raises NotFound."""
        with self.writing(f"remove {name}") as writer:
            query = writer.queries.remove(name, self.clock(), purge=purge)
            going = [each.query_id for each in self.catalog.queries.purging()]
            if going:
                from weft.storage.purge import purge as take_out

                writer.queries.purged(going, take_out(self.home, going))
            return query


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no name for this user id
        return "user"
