"""Store temporal views: their definitions, the tables that they read, and the instant of their last refresh.

Only other views read an *auxiliary* view (``derivation.temporal.auxiliary``); it is removed with its last reader.

A view's periods are stored as those of a tracked table of the same name (``storage.periods``).  Before a refresh at t
the watermark advances to the instant after t, so that all later rows have a ts after t.
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
from weft.catalog.home_record import effective_watermark, read_home, set_home
from weft.catalog.naming import folded, not_found, table_name
from weft.catalog.records import Reservation
from weft.catalog.reservations import advance_watermark
from weft.catalog.tables import create_table, forget_table
from weft.errors import ClockError, Conflict
from weft.instants import format_instant
from weft.printable import Brief

Mode = Literal["eager", "batched", "auxiliary"]
"""The time at which a view is refreshed.

An ``eager`` view is refreshed at the end of each poll that changed a table that the view reads.  A ``batched`` view is
refreshed when it is read or refreshed explicitly.  An ``auxiliary`` view is refreshed with the views that read it.
"""


@dataclass(frozen=True, repr=False)
class ViewRecord(Brief):
    """A temporal view, whose periods are those of the tracked table ``name``.

    ``form`` is the view's bound form (``planning.view_plan``).  ``reads`` are the tables and views that the form reads,
    each with the ids of its columns at that time.  ``tau`` is the instant of the last refresh (µs UTC; None: never).
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
        """Whether the view is auxiliary: only other views read it."""
        return self.mode == "auxiliary"

    def _brief(self) -> str:
        until = "not yet refreshed" if self.tau is None else f"refreshed at {format_instant(self.tau)}"
        return f"view {self.name}, {self.mode}, {until}: {self.sql}"


def readers(views: Sequence[ViewRecord], table_id: int) -> list[ViewRecord]:
    """Return the views that read ``table_id``, directly or through an auxiliary view, without auxiliary views."""
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
        """Create a view: its table and its definition; ``depends_on_now`` is as in ``algebra.relation.ViewSchema``.

        For an auxiliary view, ``name`` is only the start of the name.  Raises Conflict if the name is taken, and
        Refused if the name or the columns are invalid.
        """
        listed = json.dumps({str(key): list(columns) for key, columns in sorted(reads.items())})
        with self._database.changing_under_lease() as connection:
            own = _free_name(connection, name) if mode == "auxiliary" else table_name(name)
            table_id = create_table(connection, own, columns, tracked=True).table_id
            values = {"table_id": table_id, "sql": sql, "form": form, "reads": listed, "mode": mode, "added_at": at}
            connection.execute(insert(ddl.views).values(**values, depends_on_now=int(depends_on_now)))
            return next(view for view in _read(connection) if view.table_id == table_id)

    def all(self) -> tuple[ViewRecord, ...]:
        """Return every view, auxiliary ones included, in dependency order: a view comes after the views that it
        reads.
        """
        with self._database.reading() as connection:
            return _read(connection)

    def queried(self) -> tuple[ViewRecord, ...]:
        """Return the views that standing queries read."""
        with self._database.reading() as connection:
            return tuple(view for view in _read(connection) if queries_reading(connection, view.table_id))

    def known(self) -> tuple[ViewRecord, ...]:
        """Return the views that users can name, in dependency order as ``all``."""
        return tuple(view for view in self.all() if not view.auxiliary)

    def is_queried(self, table_id: int) -> bool:
        """Return whether a standing query reads the view."""
        with self._database.reading() as connection:
            return bool(queries_reading(connection, table_id))

    def named(self, name: str) -> ViewRecord:
        """Return the view named ``name`` (case-insensitive); raise NotFound with the most similar name."""
        views = self.known()
        for view in views:
            if folded(view.name) == folded(name):
                return view
        raise not_found("view", name, (view.name for view in views))

    def begin(self, t: int) -> None:
        """Advance the watermark to the instant after ``t``, so that only a refresh at ``t`` adds rows with a ts up to
        ``t``.

        The watermark may already be there, unless a tick has passed ``t``: that tick would have missed the rows of the
        views at ``t``.  Raises ClockError if ``t`` is before the watermark, or if a load may still add rows at or
        before ``t``.
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
        """Return the current instant of a replay home whose clock is at ``clock`` (µs UTC).

        A refresh at t sets the clock to the instant after t, but until the next load or tick the current instant is t.
        """
        with self._database.reading() as connection:
            last = max((view.tau for view in _read(connection) if view.tau is not None), default=None)
            if last is None or clock != last + 1 or read_home(connection).last_ts > last:
                return clock
            return clock if _ticked_beyond(connection, last) else last

    def reserve(self, table_id: int, load_id: int, t: int) -> Reservation:
        """Reserve the instant ``t`` for a change of a view, after ``begin`` has advanced the watermark past ``t``."""
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
        """Record the refresh of the views with committed reservations; none of their reservations may be open."""
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
        """Delete a view, and the auxiliary views that no other view reads; return the paths of the deleted tables.

        Raises Conflict if another view or a standing query reads the view.
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
        """Delete the auxiliary views that no view reads; return the paths of the deleted tables."""
        with self._database.changing_under_lease() as connection:
            return tuple(_forget_unread(connection))


def _forget_unread(connection: Connection) -> list[str]:
    views = _read(connection)
    read = {key for view in views if not view.auxiliary for key in view.reads}
    return [_forget(connection, view.table_id) for view in views if view.auxiliary and view.table_id not in read]


def _forget(connection: Connection, table_id: int) -> str:
    """Delete a view and its table from the catalog; return the path of the table."""
    connection.execute(delete(ddl.views).where(ddl.views.c.table_id == table_id))
    return forget_table(connection, table_id)


def views_reading(connection: Connection, table_id: int) -> list[str]:
    """Return the names of the views that read ``table_id``, directly or through an auxiliary view.

    The result excludes auxiliary views.
    """
    return [view.name for view in readers(_read(connection), table_id)]


def _free_name(connection: Connection, begin: str) -> str:
    """Return an unused name for an auxiliary view; its __ prevents a conflict with names from users."""
    taken = set(connection.execute(select(ddl.tables.c.folded)).scalars())
    names = (f"{begin}__part{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if folded(name) not in taken)


def _ticked_beyond(connection: Connection, t: int) -> bool:
    ticks = ddl.ticks.c
    beyond = select(ticks.tick_id).where(ticks.state != "abandoned", ticks.t > t).limit(1)
    return connection.execute(beyond).first() is not None


def queries_reading(connection: Connection, table_id: int) -> list[str]:
    """Search the stored plans and return the names of at most 8 standing queries that read a table."""
    live = select(ddl.queries.c.name).join(ddl.plans, ddl.plans.c.plan_id == ddl.queries.c.plan_id)
    named = ddl.plans.c.body.contains(f'["table",{table_id}]', autoescape=True)
    return list(
        connection.execute(
            live.where(ddl.queries.c.state != "removed", named).order_by(ddl.queries.c.query_id).limit(8)
        ).scalars()
    )


def queries_defined_over(connection: Connection, table_id: int) -> list[str]:
    """Return the names of the standing queries whose plans contain the definition of a view."""
    queries = ddl.queries.c
    wanted = select(queries.name, queries.definitions).where(text(ddl.DEFINED), queries.state != "removed")
    rows = connection.execute(wanted.order_by(queries.query_id))
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
