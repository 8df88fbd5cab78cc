"""Temporal views: what each is, what it reads, and the instant up to which it has been maintained.

An *auxiliary* view is one of them, made for others to be over (``derivation.temporal.auxiliary``): it has no name of
the user's own, and goes with the last view that reads it.

The periods of a view are those of a tracked table of its name (``storage.periods``).  Before views are maintained at t
F goes to the instant after t: whatever comes into the tables that they read comes after t.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, text, update

from weft.algebra.schema import DataType
from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.home_record import forward_of, read_home, set_home
from weft.catalog.naming import folded, not_found, table_name
from weft.catalog.records import Reservation
from weft.catalog.reservations import go_forward
from weft.catalog.tables import create_table, forget_table
from weft.errors import ClockError, Conflict
from weft.instants import format_instant
from weft.printable import Brief

Mode = Literal["eager", "batched", "auxiliary"]
"""When a view is maintained: at the end of each poll that changed what it reads, when it is read or refreshed, or, an
auxiliary view, when one that reads it is."""


@dataclass(frozen=True, repr=False)
class ViewRecord(Brief):
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

    @property
    def auxiliary(self) -> bool:
        """Whether it is one that others are over, and that nobody names."""
        return self.mode == "auxiliary"

    def _brief(self) -> str:
        until = "not yet maintained" if self.tau is None else f"maintained at {format_instant(self.tau)}"
        return f"view {self.name}, {self.mode}, {until}: {self.sql}"


def readers(views: Sequence[ViewRecord], table_id: int) -> list[ViewRecord]:
    """The views, auxiliary ones apart, that read a table or view, by themselves or by an auxiliary view of it."""
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
        """Makes a view: its table and its definition; ``depends_on_now`` as in ``algebra.relation.ViewSchema``.

        Of an auxiliary view ``name`` is what its own name begins with.  Raises Conflict where the name is taken,
        Refused for a name or columns that no table can have.
        """
        listed = json.dumps({str(key): list(columns) for key, columns in sorted(reads.items())})
        with self._database.changing_under_lease() as connection:
            own = _free_name(connection, name) if mode == "auxiliary" else table_name(name)
            table_id = create_table(connection, own, columns, tracked=True).table_id
            values = {"table_id": table_id, "sql": sql, "form": form, "reads": listed, "mode": mode, "added_at": at}
            connection.execute(insert(ddl.views).values(**values, depends_on_now=int(depends_on_now)))
            return next(view for view in _read(connection) if view.table_id == table_id)

    def all(self) -> tuple[ViewRecord, ...]:
        """Every view, auxiliary ones too, one after all that it reads."""
        with self._database.reading() as connection:
            return _read(connection)

    def queried(self) -> tuple[ViewRecord, ...]:
        """The views that standing queries read."""
        with self._database.reading() as connection:
            return tuple(view for view in _read(connection) if queries_reading(connection, view.table_id))

    def known(self) -> tuple[ViewRecord, ...]:
        """The views that people name, each after all that it reads."""
        return tuple(view for view in self.all() if not view.auxiliary)

    def is_queried(self, table_id: int) -> bool:
        """Whether a standing query reads the view."""
        with self._database.reading() as connection:
            return bool(queries_reading(connection, table_id))

    def named(self, name: str) -> ViewRecord:
        """The view of that name, in any case; raises NotFound with the nearest name."""
        found = self.known()
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

    def present(self, clock: int) -> int:
        """The present of a replay home whose clock stands at ``clock`` (µs UTC).

        A maintenance at t leaves the clock at the instant after t (``begin``).  Until something is loaded or ticked,
        the present is t.
        """
        with self._database.reading() as connection:
            last = max((view.tau for view in _read(connection) if view.tau is not None), default=None)
            if last is None or clock != last + 1 or read_home(connection).last_ts > last:
                return clock
            return clock if _ticked_beyond(connection, last) else last

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

    def remove(self, table_id: int) -> tuple[str, ...]:
        """Forgets a view, and the auxiliary views that no view reads any more; the paths of their tables.

        Raises Conflict where another view or a standing query reads it.
        """
        with self._database.changing_under_lease() as connection:
            reading = views_reading(connection, table_id)
            reading += queries_reading(connection, table_id) + queries_defined_over(connection, table_id)
            if reading:
                kept_as = select(ddl.tables.c.name).where(ddl.tables.c.table_id == table_id)
                name = connection.execute(kept_as).scalar_one()
                raise Conflict(f"{name} is read by {', '.join(reading)}", hint="Remove what reads it first.")
            return (_forget(connection, table_id), *_forget_unread(connection))

    def forget_unread(self) -> tuple[str, ...]:
        """Forgets the auxiliary views that no view reads; the paths of their tables."""
        with self._database.changing_under_lease() as connection:
            return tuple(_forget_unread(connection))


def _forget_unread(connection: Connection) -> list[str]:
    views = _read(connection)
    read = {key for view in views if not view.auxiliary for key in view.reads}
    return [_forget(connection, view.table_id) for view in views if view.auxiliary and view.table_id not in read]


def _forget(connection: Connection, table_id: int) -> str:
    """Takes a view and its table out of the catalog; the table's path."""
    connection.execute(delete(ddl.views).where(ddl.views.c.table_id == table_id))
    return forget_table(connection, table_id)


def views_reading(connection: Connection, table_id: int) -> list[str]:
    """The views that people name and that are over a table, by way of auxiliary ones too."""
    return [view.name for view in readers(_read(connection), table_id)]


def _free_name(connection: Connection, begin: str) -> str:
    """A name for an auxiliary view: with __ in it, as no table's name is that anybody gives."""
    taken = set(connection.execute(select(ddl.tables.c.folded)).scalars())
    names = (f"{begin}__part{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if folded(name) not in taken)


def _ticked_beyond(connection: Connection, t: int) -> bool:
    ticks = ddl.ticks.c
    beyond = select(ticks.tick_id).where(ticks.state != "abandoned", ticks.t > t).limit(1)
    return connection.execute(beyond).first() is not None


def queries_reading(connection: Connection, table_id: int) -> list[str]:
    """The standing queries whose plans name a table; the text of a plan tells, so that not each has to be read."""
    live = select(ddl.queries.c.name).join(ddl.plans, ddl.plans.c.plan_id == ddl.queries.c.plan_id)
    named = ddl.plans.c.body.contains(f'["table",{table_id}]', autoescape=True)
    return list(
        connection.execute(
            live.where(ddl.queries.c.state != "removed", named).order_by(ddl.queries.c.query_id).limit(8)
        ).scalars()
    )


def queries_defined_over(connection: Connection, table_id: int) -> list[str]:
    """The standing queries whose plans have the definition of a view."""
    kept = ddl.queries.c
    wanted = select(kept.name, kept.definitions).where(text(ddl.DEFINED), kept.state != "removed")
    rows = connection.execute(wanted.order_by(kept.query_id))
    return [row.name for row in rows if table_id in json.loads(row.definitions)]


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
