"""Store temporal views with their definitions and their last refresh.

Only other views read an *auxiliary* view (``derivation.temporal.auxiliary``).  Weft deletes an auxiliary view that no
view reads any more.

A tracked table with the same name stores the periods of a view (``storage.periods``).  Before a refresh, the watermark
advances to the instant after the refresh.  All later rows therefore have a ``ts`` after the refresh.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, delete, insert, select, text, update

from weft.algebra.schema import DataType
from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id, record_of
from weft.catalog.home_record import effective_watermark, read_home, set_home
from weft.catalog.name_order import is_one_of
from weft.catalog.naming import folded, not_found, table_name
from weft.catalog.records import Reservation
from weft.catalog.reservations import advance_watermark
from weft.catalog.tables import create_table, forget_table
from weft.errors import ClockError, Conflict
from weft.instants import format_instant
from weft.printable import Brief

Mode = Literal["eager", "batched", "auxiliary"]
"""The time at which a view is refreshed.

An ``eager`` view is refreshed after each poll that changed a table in the view's query.  A ``batched`` view is
refreshed on each read and on request.  An ``auxiliary`` view is refreshed with the views that read it.
"""


@dataclass(frozen=True, repr=False)
class ViewRecord(Brief):
    """A temporal view.  The tracked table ``name`` stores the periods of the view.

    ``form`` is the view's query with resolved names (``planning.view_plan``).  ``reads`` maps each table and view in
    ``form`` to the IDs of its columns.  ``tau`` is the instant of the last refresh in µs UTC (None: never).
    ``trouble`` is the reason why the last refresh failed (None: it succeeded).
    """

    table_id: int
    name: str
    sql: str
    form: str
    reads: Mapping[int, tuple[int, ...]]
    mode: Mode
    added_at: int
    tau: int | None
    trouble: str | None

    @property
    def auxiliary(self) -> bool:
        """Whether only other views read this view."""
        return self.mode == "auxiliary"

    def _brief(self) -> str:
        until = "not yet refreshed" if self.tau is None else f"refreshed at {format_instant(self.tau)}"
        return f"view {self.name}, {self.mode}, {until}: {self.sql}"


def readers(views: Sequence[ViewRecord], table_id: int) -> list[ViewRecord]:
    """Return the views that read ``table_id``, directly or through an auxiliary view.  Omit auxiliary views."""
    ways = {table_id, *(view.table_id for view in views if view.auxiliary and table_id in view.reads)}
    return [view for view in views if not view.auxiliary and not ways.isdisjoint(view.reads)]


class Views:
    """The temporal views of a home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        name: str,
        columns: Sequence[tuple[str, DataType]],
        sql: str,
        form: str,
        reads: Mapping[int, Sequence[int]],
        mode: Mode,
        at: int,
        *,
        depends_on_now: bool,
    ) -> ViewRecord:
        """Create the table and the definition of a view.

        ``depends_on_now`` has the same meaning as in ``ViewSchema``.  For an auxiliary view, ``name`` is only
        the start of the name.  Raise Conflict if the name is taken.  Raise Refused for an invalid name or column.
        """
        listed = json.dumps({str(key): list(columns) for key, columns in sorted(reads.items())})
        with self._database.changing_under_lease() as connection:
            own = _free_name(connection, name) if mode == "auxiliary" else table_name(name)
            table_id = create_table(connection, own, columns, tracked=True).table_id
            values = {"table_id": table_id, "sql": sql, "form": form, "reads": listed, "mode": mode, "added_at": at}
            connection.execute(insert(ddl.views).values(**values, depends_on_now=int(depends_on_now)))
            return next(view for view in _read(connection) if view.table_id == table_id)

    def all(self) -> tuple[ViewRecord, ...]:
        """Return all views, including auxiliary views.  Each view comes after the views in its query."""
        return self._database.read(_read)

    def queried(self) -> tuple[ViewRecord, ...]:
        """Return the views that standing queries read."""
        with self._database.reading() as connection:
            return tuple(view for view in _read(connection) if queries_reading(connection, view.table_id))

    def known(self) -> tuple[ViewRecord, ...]:
        """Return the views that users can name.  Each view comes after the views in its query."""
        return tuple(view for view in self.all() if not view.auxiliary)

    def is_queried(self, table_id: int) -> bool:
        """Return whether a standing query reads the view."""
        with self._database.reading() as connection:
            return bool(queries_reading(connection, table_id))

    def named(self, name: str) -> ViewRecord:
        """Return the view with this case-insensitive name.  Raise NotFound for an unknown name."""
        found = self.find(name)
        if found is None:
            raise not_found("view", name, (view.name for view in self.known()))
        return found

    def find(self, name: str) -> ViewRecord | None:
        """Return the view with this case-insensitive name, or None."""
        with self._database.reading() as connection:
            row = connection.execute(_views().where(ddl.tables.c.folded == folded(name))).first()
        return None if row is None or row.mode == "auxiliary" else _record(row)

    def of_tables(self, table_ids: Collection[int]) -> dict[int, ViewRecord]:
        """Return the views among the tables with these IDs, by ID."""
        rows = self._database.rows(_views().where(is_one_of(ddl.views.c.table_id, table_ids)))
        return {row.table_id: _record(row) for row in rows}

    def begin(self, t: int) -> None:
        """Advance the watermark to the instant after ``t``.  Only a refresh at ``t`` can then add rows at ``t``.

        Raise ClockError if ``t`` is before the watermark, or if a load may still add rows at or before ``t``.  Also
        raise ClockError if a tick has already passed ``t``.
        """
        with self._database.changing_under_lease() as connection:
            watermark = effective_watermark(connection)
            if t < watermark - 1 or (t < watermark and _ticked_beyond(connection, t)):
                raise ClockError(
                    f"the watermark of this home is {format_instant(watermark)}, which is later than "
                    f"{format_instant(t)}",
                    hint="A clock never goes back: refresh the view at a later instant.",
                )
            advance_watermark(connection, t + 1)
            if read_home(connection).t0 is None:
                set_home(connection, t0=t)

    def present(self, clock: int) -> int:
        """Return the current instant of a home with a replay clock.  ``clock`` is the time of the clock (µs UTC).

        A refresh sets the clock to the next instant, but the instant of the refresh is current until a load or tick.
        """
        with self._database.reading() as connection:
            last = max((view.tau for view in _read(connection) if view.tau is not None), default=None)
            if last is None or clock != last + 1 or read_home(connection).last_ts > last:
                return clock
            return clock if _ticked_beyond(connection, last) else last

    def reserve(self, table_id: int, load_id: int, t: int) -> Reservation:
        """Reserve the instant ``t`` for a change of a view.  The caller must call ``begin`` first."""
        with self._database.changing_under_lease() as connection:
            if effective_watermark(connection) != t + 1:
                raise ClockError(
                    f"the watermark of this home passed {format_instant(t)} in the meantime",
                    hint="Run the command again.",
                )
            values: dict[str, Any] = {
                "table_id": table_id,
                "load_id": load_id,
                "floor": t,
                "token": self._database.token,
            }
            key = inserted_id(connection, insert(ddl.reservations).values(state="open", **values))
            intended = update(ddl.views).where(ddl.views.c.table_id == table_id)
            connection.execute(intended.values(reservation_id=key, next_tau=t))
            return Reservation(reservation_id=key, state="open", **values)

    def settle(self, table_ids: Iterable[int] | None = None) -> None:
        """Record the refresh of the views whose reservations are committed.  No reservation may be open."""
        views, reservations = ddl.views, ddl.reservations
        with self._database.changing_under_lease() as connection:
            wanted = select(views.c.table_id, views.c.next_tau, reservations.c.state).join(
                reservations, reservations.c.reservation_id == views.c.reservation_id
            )
            if table_ids is not None:
                wanted = wanted.where(views.c.table_id.in_(tuple(table_ids)))
            for row in connection.execute(wanted).all():
                values: dict[str, Any] = {"reservation_id": None, "next_tau": None}
                if row.state == "committed":
                    values |= {"tau": row.next_tau, "trouble": None}
                connection.execute(update(views).where(views.c.table_id == row.table_id).values(**values))

    def unchanged(self, table_id: int, t: int) -> None:
        """Record a refresh at ``t`` that did not change the view."""
        with self._database.changing_under_lease() as connection:
            values = {"tau": t, "trouble": None}
            connection.execute(update(ddl.views).where(ddl.views.c.table_id == table_id).values(**values))

    def troubled(self, table_id: int, trouble: str) -> None:
        """Record a failed refresh and its reason."""
        with self._database.changing() as connection:
            connection.execute(update(ddl.views).where(ddl.views.c.table_id == table_id).values(trouble=trouble))

    def remove(self, table_id: int) -> tuple[str, ...]:
        """Delete a view, and the auxiliary views that no other view reads.  Return the paths of the deleted tables.

        Raise Conflict if another view or a standing query reads the view.
        """
        with self._database.changing_under_lease() as connection:
            reading = views_reading(connection, table_id)
            reading += queries_reading(connection, table_id) + queries_defined_over(connection, table_id)
            if reading:
                kept_as = select(ddl.tables.c.name).where(ddl.tables.c.table_id == table_id)
                name = connection.execute(kept_as).scalar_one()
                raise Conflict(
                    f"{name} is read by {', '.join(reading)}", hint="Remove the queries and views that read it first."
                )
            return (_forget(connection, table_id), *_forget_unread(connection))

    def forget_unread(self) -> tuple[str, ...]:
        """Delete the auxiliary views that no view reads.  Return the paths of the deleted tables."""
        with self._database.changing_under_lease() as connection:
            return tuple(_forget_unread(connection))


def _forget_unread(connection: Connection) -> list[str]:
    views = _read(connection)
    read = {key for view in views if not view.auxiliary for key in view.reads}
    return [_forget(connection, view.table_id) for view in views if view.auxiliary and view.table_id not in read]


def _forget(connection: Connection, table_id: int) -> str:
    connection.execute(delete(ddl.views).where(ddl.views.c.table_id == table_id))
    return forget_table(connection, table_id)


def views_reading(connection: Connection, table_id: int) -> list[str]:
    """Return the names of the non-auxiliary views that read ``table_id``, directly or through an auxiliary view."""
    return [view.name for view in readers(_read(connection), table_id)]


def _free_name(connection: Connection, begin: str) -> str:
    """The ``__`` in the name prevents a conflict with names from users."""
    taken = set(connection.execute(select(ddl.tables.c.folded)).scalars())
    names = (f"{begin}__part{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if folded(name) not in taken)


def _ticked_beyond(connection: Connection, t: int) -> bool:
    ticks = ddl.ticks.c
    beyond = select(ticks.tick_id).where(ticks.state != "abandoned", ticks.t > t).limit(1)
    return connection.execute(beyond).first() is not None


def queries_reading(connection: Connection, table_id: int) -> list[str]:
    """Return the names of at most 8 standing queries that read a table."""
    live = select(ddl.queries.c.name).join(ddl.plans, ddl.plans.c.plan_id == ddl.queries.c.plan_id)
    named = ddl.plans.c.body.contains(f'["table",{table_id}]', autoescape=True)
    return list(
        connection.execute(
            live.where(ddl.queries.c.state != "removed", named).order_by(ddl.queries.c.query_id).limit(8)
        ).scalars()
    )


def queries_defined_over(connection: Connection, table_id: int) -> list[str]:
    """Return the names of the standing queries whose plans contain the definition of the view."""
    queries = ddl.queries.c
    wanted = select(queries.name, queries.definitions).where(text(ddl.DEFINED), queries.state != "removed")
    rows = connection.execute(wanted.order_by(queries.query_id))
    return [row.name for row in rows if table_id in json.loads(row.definitions)]


def _read(connection: Connection) -> tuple[ViewRecord, ...]:
    return tuple(_record(row) for row in connection.execute(_views().order_by(ddl.views.c.table_id)))


def _views() -> Select[Any]:
    joined = ddl.views.join(ddl.tables, ddl.views.c.table_id == ddl.tables.c.table_id)
    return select(ddl.views, ddl.tables.c.name).select_from(joined)


def _record(row: Row[Any]) -> ViewRecord:
    reads = json.loads(row.reads)
    return record_of(ViewRecord, row, reads={int(key): tuple(columns) for key, columns in reads.items()})
