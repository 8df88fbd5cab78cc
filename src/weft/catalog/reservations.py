"""Reserve instants for loads, so that no tick passes the start of an open reservation (design section 1).

The catalog also records how far back a change reaches, because standing queries evaluate the changed instants again.
Most changes begin at the time of their recording.  Corrections and the initial past of a view begin earlier, in windows
that queries have already evaluated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, union_all, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.home_record import effective_watermark, read_home, set_home
from weft.catalog.records import Reservation
from weft.catalog.tables import read_table, record_version
from weft.errors import CatalogError, ClockError
from weft.instants import MIN_INSTANT, format_instant


class Reservations:
    """The reservations of loads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(self, table_id: int, load_id: int, at_least: int = MIN_INSTANT) -> Reservation:
        """Reserve all instants from ``floor`` on for a batch of rows of one table.

        ``floor`` is the latest of ``at_least``, the watermark, and the instant of a planned tick.
        """
        with self._database.changing_under_lease() as connection:
            floor = max(effective_watermark(connection), at_least)
            values: dict[str, Any] = {
                "table_id": table_id,
                "load_id": load_id,
                "floor": floor,
                "token": self._database.token,
            }
            key = inserted_id(connection, insert(ddl.reservations).values(state="open", **values))
            return Reservation(reservation_id=key, state="open", **values)

    def commit(
        self,
        reservation_id: int,
        delta_version: int,
        rows: int,
        first_ts: int | None,
        last_ts: int | None,
    ) -> None:
        """Close a reservation after the commit of its batch to Delta.

        ``first_ts`` and ``last_ts`` are the smallest and largest ts of the rows.  The same transaction updates the
        record of the table and the home's last ts.  Raise ClockError if a ts is below the floor.  Raise CatalogError if
        the reservation is not open.
        """
        with self._database.changing_under_lease() as connection:
            reservation = _open_reservation(connection, reservation_id)
            if rows and (first_ts is None or last_ts is None):
                raise CatalogError(f"the batch of reservation {reservation_id} has rows, but no ts")
            if first_ts is not None and first_ts < reservation.floor:
                raise ClockError(
                    f"a row has the ts {first_ts}, which is earlier than the reserved minimum {reservation.floor}"
                )
            connection.execute(
                update(ddl.reservations)
                .where(ddl.reservations.c.reservation_id == reservation_id)
                .values(state="committed", delta_version=delta_version, rows=rows, first_ts=first_ts, last_ts=last_ts)
            )
            _extend_table(connection, reservation.table_id, delta_version, rows, first_ts, last_ts)

    def abandon(self, reservation_id: int) -> None:
        """Close a reservation whose batch has no rows in Delta."""
        with self._database.changing_under_lease() as connection:
            _open_reservation(connection, reservation_id)
            connection.execute(
                update(ddl.reservations)
                .where(ddl.reservations.c.reservation_id == reservation_id)
                .values(state="abandoned")
            )

    def still_open(self) -> tuple[Reservation, ...]:
        """Return the reservations that are neither committed nor abandoned, the oldest first."""
        return self._database.read(read_open_reservations)

    def effective_watermark(self) -> int:
        """Return the smallest ts that a new row can have: the watermark, or the instant of a later planned tick."""
        return self._database.read(effective_watermark)

    def earliest(self) -> int | None:
        """Return the result of :func:`earliest_reserved` in a new transaction."""
        return self._database.read(earliest_reserved)


def earliest_reserved(connection: Connection) -> int | None:
    """Return the smallest ts that a running load may still add.  Return None if no load is running.

    A load is running if it has an open reservation or holds the watermark.
    """
    reservations, active = ddl.reservations.c, ddl.active_loads.c
    floors = union_all(
        select(reservations.floor).where(reservations.state == "open"),
        select(active.floor).where(active.floor.is_not(None)),
    ).subquery()
    earliest: int | None = connection.execute(select(func.min(floors.c.floor))).scalar_one()
    return earliest


def advance_watermark(connection: Connection, instant: int) -> None:
    """Advance the watermark to ``instant``.  In a replay home, also advance the clock.

    Later rows and ticks cannot be before ``instant``.  Raise ClockError if a load has reserved earlier instants.
    """
    home = read_home(connection)
    reserved = earliest_reserved(connection)
    if reserved is not None and reserved < instant:
        raise ClockError(
            f"a running load may add rows from {format_instant(reserved)} on, which is before "
            f"{format_instant(instant)}",
            hint="Wait until the load has ended.",
        )
    if instant > home.watermark:
        now = max(instant, instant if home.now is None else home.now) if home.clock == "replay" else None
        set_home(connection, watermark=instant, now=now)


_OPEN: Final = (
    select(*(ddl.reservations.c[name] for name in ("reservation_id", "table_id", "load_id", "floor", "token", "state")))
    .where(ddl.reservations.c.state == "open")
    .order_by(ddl.reservations.c.reservation_id)
)


def read_open_reservations(connection: Connection) -> tuple[Reservation, ...]:
    """Return the open reservations in the caller's transaction, the oldest first."""
    return tuple(Reservation(**row._mapping) for row in connection.execute(_OPEN))


def _open_reservation(connection: Connection, reservation_id: int) -> Reservation:
    for reservation in read_open_reservations(connection):
        if reservation.reservation_id == reservation_id:
            return reservation
    raise CatalogError(
        f"the reservation {reservation_id} is not open",
        hint="Run the command again; another writer completed or released the reservation.",
    )


def _extend_table(
    connection: Connection, table_id: int, version: int, rows: int, first_ts: int | None, last_ts: int | None
) -> None:
    table = read_table(connection, table_id)
    total = table.rows + rows
    values: dict[str, Any] = {"rows": total, "version": max(version, table.version)}
    if first_ts is not None and last_ts is not None:
        values["first_ts"] = first_ts if table.first_ts is None else min(first_ts, table.first_ts)
        values["last_ts"] = last_ts if table.last_ts is None else max(last_ts, table.last_ts)
        home = read_home(connection)
        # Loads may arrive in any order.  ``t0`` may therefore still move back before the first tick.
        begins_here = home.t0 is None or (first_ts < home.t0 and not _ticked(connection))
        t0 = first_ts if begins_here else home.t0
        set_home(connection, last_ts=max(home.last_ts, last_ts), t0=t0)
    connection.execute(update(ddl.tables).where(ddl.tables.c.table_id == table_id).values(**values))
    record_version(connection, table.path, values["version"], total)


def _ticked(connection: Connection) -> bool:
    ticks = ddl.ticks.c
    return connection.execute(select(ticks.tick_id).where(ticks.state != "abandoned").limit(1)).first() is not None


class Revisions:
    """The loads that changed the past."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def intend(self, table_id: int, load_id: int, begins: int) -> None:
        """Record that a load will change the table from ``begins`` (µs UTC) on.  The load has no reservation yet."""
        with self._database.changing_under_lease() as connection:
            values = {"load_id": load_id, "table_id": table_id, "begins": begins}
            connection.execute(insert(ddl.revisions).values(**values))

    def earliest(self, table_ids: Collection[int], since: int) -> int | None:
        """Return the earliest instant (µs UTC) that loads changed in these tables.

        Ignore loads whose latest ``ts`` is before ``since``.  Return None if no other load changed the past.
        """
        reservations, revisions = ddl.reservations, ddl.revisions
        wanted = (
            select(func.min(revisions.c.begins))
            .join(reservations, reservations.c.load_id == revisions.c.load_id)
            .where(
                revisions.c.table_id.in_(tuple(table_ids)),
                reservations.c.state == "committed",
                reservations.c.last_ts >= since,
            )
        )
        first: int | None = self._database.value(wanted)
        return first
