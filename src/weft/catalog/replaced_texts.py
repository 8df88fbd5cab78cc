"""Replace the text of a standing query.

The query keeps its answers, its channels and their progress.  The new text applies from the query's start on, but the
ledger does not repeat answers of earlier texts.  The catalog stores the earlier texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, insert, select

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.home_record import read_home
from weft.catalog.queries import change_query, live_readers, plan_of, query_named, stratum_of
from weft.catalog.records import QueryDefinition, QueryRecord
from weft.catalog.reservations import advance_watermark
from weft.catalog.users import rights_changed
from weft.errors import Conflict


@dataclass(frozen=True)
class ReplacedText:
    """An earlier text of a query, which applied from ``since`` to ``until``.

    ``tau`` is the query's tau at the replacement (µs UTC).  If the query had to evaluate all instants, ``tau`` is None.
    ``from_instant`` has the same meaning as in ``QueryRecord``.  ``rows`` is the number of answers of this text and all
    earlier texts.
    """

    sql: str
    from_instant: int | None
    since: int
    until: int
    tau: int | None
    rows: int


_COLUMNS: Final = tuple(ddl.replaced.c[name] for name in ReplacedText.__dataclass_fields__)


class Replacements:
    """The earlier texts of queries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, query: QueryDefinition, at: int, *, past: bool) -> QueryRecord:
        """Replace the text, plan, owner, timeliness and start of the live query that ``query`` names.

        The next tick evaluates all instants from the query's start on.  With ``past``, the new text may add answers
        with earlier start times.  All direct and indirect readers of the query then also evaluate all instants.  A
        failed query becomes active, and a paused query stays paused.  If text, plan and start are the same, only owner,
        origin and timeliness change.  Another owner counts as a change of rights.  The caller must ensure that no tick
        is planned.

        Raise NotFound if the query does not exist.  Raise Conflict if the query would read its own results.  Raise
        ClockError if a load has reserved an instant before the query's start.
        """
        with self._database.changing_under_lease() as connection:
            old = query_named(connection, query.name)
            if old.user != query.user:
                rights_changed(connection)
            above = _refuse_circle(connection, query, old)
            if _is_same_text(connection, query, old):
                run = None if query.every_us is None or old.tau is None else old.tau + query.every_us
                same = {"user": query.user, "every_us": query.every_us, "saved_id": query.saved_id}
                return change_query(connection, old.query_id, **same, next_run=run)
            if query.from_instant is not None:
                advance_watermark(connection, query.from_instant)
            stratum = stratum_of(connection, query.reads)
            _store_text(connection, old, at)
            changed = change_query(
                connection,
                old.query_id,
                sql=query.sql,
                user=query.user,
                plan_id=plan_of(connection, query.signature, query.plan_body),
                parameters=json.dumps([list(each) for each in query.parameters]),
                names=json.dumps(query.names),
                every_us=query.every_us,
                from_mode="start" if query.from_instant is None else "now",
                from_instant=query.from_instant,
                tau=None,
                state="active" if old.state == "failed" else old.state,
                reason=old.reason if old.state == "paused" else None,
                next_due=None,
                next_run=None,
                reads=json.dumps(sorted(set(query.reads))),
                stratum=stratum,
                definitions=json.dumps(query.definitions),
                needs=json.dumps(sorted(set(query.needs))),
                saved_id=query.saved_id,
                replaced_at=at,
            )
            _move_readers(connection, above.values(), at, past=past)
            return changed

    def require_no_circle(self, query: QueryDefinition) -> None:
        """Raise Conflict if the new text would make the query read its own results, directly or indirectly."""
        with self._database.reading() as connection:
            _refuse_circle(connection, query, query_named(connection, query.name))

    def of_query(self, query_id: int) -> tuple[ReplacedText, ...]:
        """Return the earlier texts of a query, the oldest first."""
        replaced = ddl.replaced.c
        wanted = select(*_COLUMNS).where(replaced.query_id == query_id).order_by(replaced.number)
        return tuple(ReplacedText(*row) for row in self._database.rows(wanted))


def _is_same_text(connection: Connection, query: QueryDefinition, old: QueryRecord) -> bool:
    plan, old_text = plan_of(connection, query.signature, query.plan_body), (old.sql, old.parameters, old.from_instant)
    return plan == old.plan_id and old_text == (query.sql, query.parameters, query.from_instant)


def _move_readers(connection: Connection, above: Iterable[QueryRecord], at: int, *, past: bool) -> None:
    """With ``past``, the readers evaluate all instants."""
    # The timeliness counts from now, not from the installation.  A replay home does not use the wall clock.
    run = at if read_home(connection).clock == "wall" else None
    for reader in sorted(above, key=lambda each: each.stratum):  # a query comes after those that it reads
        change_query(connection, reader.query_id, stratum=stratum_of(connection, reader.reads))
        if past:
            change_query(connection, reader.query_id, tau=None, next_due=None, next_run=run)


def _above(readers: Mapping[int, QueryRecord], query_id: int) -> dict[int, QueryRecord]:
    above: dict[int, QueryRecord] = {}
    read = {query_id}
    while more := {key: each for key, each in readers.items() if key not in above and not read.isdisjoint(each.reads)}:
        above |= more
        read |= more.keys()
    return above


def _refuse_circle(connection: Connection, query: QueryDefinition, old: QueryRecord) -> dict[int, QueryRecord]:
    """Return the query's direct and indirect readers.  Raise Conflict if the query would read its own results."""
    above = _above(live_readers(connection), old.query_id)
    for key in query.reads:
        if key == old.query_id or key in above:
            results = (
                "its own results"
                if key == old.query_id
                else f"the results of {above[key].name}, which depend on its own"
            )
            raise Conflict(
                f"{old.name} would read {results}",
                hint="Install the new text under another name: a query cannot depend on its own results.",
            )
    return above


def _store_text(connection: Connection, old: QueryRecord, at: int) -> None:
    replaced = ddl.replaced.c
    known = connection.execute(select(func.count()).where(replaced.query_id == old.query_id)).scalar_one()
    connection.execute(
        insert(ddl.replaced).values(
            query_id=old.query_id,
            number=known + 1,
            sql=old.sql,
            from_instant=old.from_instant,
            since=old.installed_at if old.replaced_at is None else old.replaced_at,
            until=at,
            tau=old.tau,
            rows=old.rows,
        )
    )
