"""Temporal views: what each is, what it reads, and the instant up to which it has been maintained.

The periods of a view are those of a tracked table of its name (``storage.periods``).  Before views are maintained at t
F goes to the instant after t: whatever comes into the tables that they read comes after t.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.home import forward_of, read_home, set_home
from weft.catalog.naming import folded, not_found
from weft.catalog.records import Reservation
from weft.catalog.reservations import go_forward
from weft.errors import ClockError, Conflict
from weft.instants import format_instant

Mode = Literal["eager", "batched"]
"""When a view is maintained: at the end of each poll that changed what it reads, or when it is read or refreshed."""


@dataclass(frozen=True)
class ViewRecord:
    """A temporal view, whose periods are those of the tracked table ``name``.

    ``form`` is what was bound (``planning.view_form``); ``reads`` the tables and views that it is over, each with the
    ids of the columns that it had then.  Instants are microseconds UTC: ``tau`` is the last one at which it was
    maintained (None: never).  ``trouble`` says why the last maintenance failed (None: it did not).
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


class Views:
    """The temporal views of a home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, table_id: int, sql: str, form: str, reads: Mapping[int, Sequence[int]], mode: Mode, at: int) -> None:
        """Notes the definition of the view whose table was made."""
        listed = json.dumps({str(key): list(columns) for key, columns in sorted(reads.items())})
        with self._database.changing_under_lease() as connection:
            values = {"table_id": table_id, "sql": sql, "form": form, "reads": listed, "mode": mode, "added_at": at}
            connection.execute(insert(ddl.views).values(**values))

    def all(self) -> tuple[ViewRecord, ...]:
        """Every view, one after all that it reads."""
        with self._database.reading() as connection:
            return _read(connection)

    def queried(self) -> tuple[ViewRecord, ...]:
        """The views that standing queries read."""
        with self._database.reading() as connection:
            return tuple(view for view in _read(connection) if _queries_reading(connection, view.table_id))

    def named(self, name: str) -> ViewRecord:
        """The view of that name, in any case; raises NotFound with the nearest name."""
        found = self.all()
        for view in found:
            if folded(view.name) == folded(name):
                return view
        raise not_found("view", name, (view.name for view in found))

    def begin(self, t: int) -> None:
        """Takes F to the instant after ``t``, for views to be maintained at t: nothing else gets a ts up to it.

        F may be there already, unless a tick has gone beyond t: it would not have seen what the views gain at t.
        Raises ClockError where t is before that, or a load may yet bring something that is not after t.
        """
        with self._database.changing_under_lease() as connection:
            forward = forward_of(connection)
            if t < forward - 1 or (t < forward and _ticked_beyond(connection, t)):
                raise ClockError(
                    f"this home has gone on to {format_instant(forward)}, and {format_instant(t)} is before it",
                    hint="A clock never goes back: maintain the view at a later instant.",
                )
            go_forward(connection, t + 1)
            if read_home(connection).t0 is None:
                set_home(connection, t0=t)

    def ticked_beyond(self, t: int) -> bool:
        """Whether a tick has gone beyond ``t``, so that nothing may be recorded at t any more."""
        with self._database.reading() as connection:
            return _ticked_beyond(connection, t)

    def reserve(self, table_id: int, load_id: int, t: int) -> Reservation:
        """Reserves ``t`` for a view's change, F having been taken to the instant after it (``begin``)."""
        with self._database.changing_under_lease() as connection:
            if forward_of(connection) != t + 1:
                raise ClockError(f"this home has gone on from {format_instant(t)} meanwhile", hint="Try again.")
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
        """Views whose reservation was committed count as maintained; no reservation of theirs is open any more."""
        views, kept = ddl.views, ddl.reservations
        with self._database.changing_under_lease() as connection:
            wanted = select(views.c.table_id, views.c.next_tau, kept.c.state).join(
                kept, kept.c.reservation_id == views.c.reservation_id
            )
            if table_ids is not None:
                wanted = wanted.where(views.c.table_id.in_(tuple(table_ids)))
            for row in connection.execute(wanted).all():
                values: dict[str, Any] = {"reservation_id": None, "next_tau": None}
                if row.state == "committed":
                    values |= {"tau": row.next_tau, "trouble": None}
                connection.execute(update(views).where(views.c.table_id == row.table_id).values(**values))

    def unchanged(self, table_id: int, t: int) -> None:
        """Notes a maintenance at ``t`` that changed nothing."""
        with self._database.changing_under_lease() as connection:
            values = {"tau": t, "trouble": None}
            connection.execute(update(ddl.views).where(ddl.views.c.table_id == table_id).values(**values))

    def troubled(self, table_id: int, trouble: str) -> None:
        """Notes that a maintenance failed, and why."""
        with self._database.changing() as connection:
            connection.execute(update(ddl.views).where(ddl.views.c.table_id == table_id).values(trouble=trouble))

    def remove(self, table_id: int) -> None:
        """Forgets a view and its table; raises Conflict where another view or a standing query reads it."""
        with self._database.changing_under_lease() as connection:
            readers = [view.name for view in _read(connection) if table_id in view.reads]
            readers += _queries_reading(connection, table_id)
            kept_as = select(ddl.tables.c.name, ddl.tables.c.path).where(ddl.tables.c.table_id == table_id)
            name, path = connection.execute(kept_as).one()
            if readers:
                raise Conflict(f"{name} is read by {', '.join(readers)}", hint="Remove what reads it first.")
            connection.execute(delete(ddl.views).where(ddl.views.c.table_id == table_id))
            for kept in (ddl.reservations, ddl.loads, ddl.columns, ddl.tables):
                connection.execute(delete(kept).where(kept.c.table_id == table_id))
            connection.execute(delete(ddl.stored_versions).where(ddl.stored_versions.c.path == path))


def _ticked_beyond(connection: Connection, t: int) -> bool:
    ticks = ddl.ticks.c
    beyond = select(ticks.tick_id).where(ticks.state != "abandoned", ticks.t > t).limit(1)
    return connection.execute(beyond).first() is not None


def _queries_reading(connection: Connection, table_id: int) -> list[str]:
    """The standing queries whose plans name a table; the text of a plan tells, so that not each has to be read."""
    live = select(ddl.queries.c.name).join(ddl.plans, ddl.plans.c.plan_id == ddl.queries.c.plan_id)
    named = ddl.plans.c.body.contains(f'["table",{table_id}]', autoescape=True)
    return list(connection.execute(live.where(ddl.queries.c.state != "removed", named).limit(8)).scalars())


def _read(connection: Connection) -> tuple[ViewRecord, ...]:
    joined = ddl.views.join(ddl.tables, ddl.views.c.table_id == ddl.tables.c.table_id)
    wanted = select(ddl.views, ddl.tables.c.name).select_from(joined).order_by(ddl.views.c.table_id)
    return tuple(_record(row) for row in connection.execute(wanted))


def _record(row: Row[Any]) -> ViewRecord:
    reads = json.loads(row.reads)
    return ViewRecord(
        table_id=row.table_id,
        name=row.name,
        sql=row.sql,
        form=row.form,
        reads={int(key): tuple(columns) for key, columns in reads.items()},
        mode=row.mode,
        added_at=row.added_at,
        tau=row.tau,
        trouble=row.trouble,
    )
