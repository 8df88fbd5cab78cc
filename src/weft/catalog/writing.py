"""The writer's lease and the reservations of ts (design sections 1 and 6).

One process writes to a home at a time.  Its token is the fence: it rises with each acquisition and is checked inside
every writing transaction, so that a writer that was thought dead and wakes up again changes nothing.  The lease's
time is the wall clock's, on a replay home too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, update

from weft.catalog import schema
from weft.catalog.definitions import read_table, record_version
from weft.catalog.holder import is_gone, this_process
from weft.catalog.home import read_home, set_home
from weft.catalog.records import MIN_INSTANT, Lease, Reservation
from weft.catalog.store import Store, inserted_id, require_token
from weft.errors import CatalogError, ClockError, LeaseBusy

LEASE_TTL_US: Final = 10 * 60 * 1_000_000
"""How long a lease is good without being renewed, in microseconds."""

_POLL_SECONDS: Final = 0.2


class Writing(Store):
    """Lease and reservations."""

    def acquire(self, purpose: str, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Lease:
        """Takes the lease, under a token greater than every one before.

        Raises LeaseBusy while another holder's has not run out, unless that holder is known to be dead.
        """
        with self._write() as connection:
            held = connection.execute(select(schema.lease)).one()
            if held.holder not in (None, holder) and held.expires_at > at and not is_gone(held.holder):
                raise LeaseBusy(
                    f"another writer is at work: {held.purpose} ({held.holder})",
                    hint="Wait until it is done; its lease runs out by itself if it is dead.",
                )
            lease = Lease(held.token + 1, purpose, holder, at, at + ttl_us)
            connection.execute(
                update(schema.lease).values(
                    token=lease.token,
                    purpose=purpose,
                    holder=holder,
                    acquired_at=at,
                    expires_at=lease.expires_at,
                )
            )
            return lease

    def renew(self, token: int, at: int, ttl_us: int = LEASE_TTL_US) -> None:
        """Makes the lease last until ``at + ttl_us``; raises LeaseLost."""
        with self._write(token) as connection:
            connection.execute(update(schema.lease).values(expires_at=at + ttl_us))

    def release(self, token: int) -> None:
        """Gives the lease back; does nothing where it is another's by now."""
        with self._write() as connection:
            connection.execute(
                update(schema.lease)
                .where(schema.lease.c.token == token)
                .values(purpose=None, holder=None, acquired_at=None, expires_at=None)
            )

    def check(self, token: int) -> None:
        """Raises LeaseLost unless the token is that of the lease now held."""
        with self._read() as connection:
            require_token(connection, token)

    def lease(self) -> Lease | None:
        """The lease now held (it may have run out), or None."""
        with self._read() as connection:
            row = connection.execute(select(schema.lease)).one()
        if row.holder is None:
            return None
        return Lease(row.token, row.purpose, row.holder, row.acquired_at, row.expires_at)

    @contextmanager
    def writing(self, purpose: str, clock: Callable[[], int], *, wait_us: int = 0) -> Iterator[Lease]:
        """Holds the lease for the block, having waited for it up to ``wait_us``; gives it back in every case.

        ``clock`` tells the wall's time in microseconds.  Raises LeaseBusy.
        """
        until = clock() + wait_us
        while True:
            try:
                lease = self.acquire(purpose, this_process(), clock())
                break
            except LeaseBusy:
                if clock() >= until:
                    raise
                time.sleep(_POLL_SECONDS)
        try:
            yield lease
        finally:
            self.release(lease.token)

    def reserve(self, token: int, table_id: int, load_id: int, at_least: int = MIN_INSTANT) -> Reservation:
        """Reserves the instants from ``floor`` on for a batch of rows of one table.

        ``floor`` is the greatest of F, the last ts given, the t of a tick that is planned and ``at_least``.
        """
        with self._write(token) as connection:
            planned = connection.execute(
                select(func.max(schema.ticks.c.t)).where(schema.ticks.c.state == "planned")
            ).scalar_one()
            # A dead tick will be run again up to its logged t: what it has read so far must stay complete.
            floor = max(read_home(connection).earliest_open, MIN_INSTANT if planned is None else planned, at_least)
            values: dict[str, Any] = {"table_id": table_id, "load_id": load_id, "floor": floor, "token": token}
            key = inserted_id(connection, insert(schema.reservations).values(state="open", **values))
            return Reservation(reservation_id=key, state="open", **values)

    def commit_reservation(
        self,
        token: int,
        reservation_id: int,
        delta_version: int,
        rows: int,
        first_ts: int | None,
        last_ts: int | None,
    ) -> None:
        """Closes a reservation whose batch is in Delta: ``rows`` rows with ts from first_ts to last_ts, both included.

        The table's rows, version and ts and the home's last ts move in the same transaction.  Raises ClockError for a
        ts below the floor, CatalogError where the reservation is not open.
        """
        with self._write(token) as connection:
            reservation = _open_reservation(connection, reservation_id)
            if rows and (first_ts is None or last_ts is None):
                raise CatalogError(f"the batch of reservation {reservation_id} has rows but no ts")
            if first_ts is not None and first_ts < reservation.floor:
                raise ClockError(f"a row was given the ts {first_ts}, before the reserved {reservation.floor}")
            connection.execute(
                update(schema.reservations)
                .where(schema.reservations.c.reservation_id == reservation_id)
                .values(state="committed", delta_version=delta_version, rows=rows, first_ts=first_ts, last_ts=last_ts)
            )
            _extend_table(connection, reservation.table_id, delta_version, rows, first_ts, last_ts)

    def abandon_reservation(self, token: int, reservation_id: int) -> None:
        """Closes a reservation of which nothing is in Delta."""
        with self._write(token) as connection:
            _open_reservation(connection, reservation_id)
            connection.execute(
                update(schema.reservations)
                .where(schema.reservations.c.reservation_id == reservation_id)
                .values(state="abandoned")
            )

    def open_reservations(self) -> tuple[Reservation, ...]:
        """Reservations that are neither committed nor abandoned, the oldest first."""
        with self._read() as connection:
            return read_open_reservations(connection)


def go_forward(connection: Connection, instant: int) -> None:
    """From now on no row gets a ts before ``instant``, and no tick a t: F, and a replay home's clock, move up to it.

    Raises ClockError where a load has reserved earlier instants (settle it first).
    """
    home = read_home(connection)
    for reservation in read_open_reservations(connection):
        if reservation.floor < instant:
            raise ClockError(
                f"a load has reserved the instants from {reservation.floor} on, before {instant}",
                hint="Wait until the load is done.",
            )
    if instant > home.forward:
        now = max(instant, instant if home.now is None else home.now) if home.clock == "replay" else None
        set_home(connection, forward=instant, now=now)


def read_open_reservations(connection: Connection) -> tuple[Reservation, ...]:
    """The open reservations as this transaction sees them, the oldest first."""
    kept = schema.reservations.c
    rows = connection.execute(
        select(kept.reservation_id, kept.table_id, kept.load_id, kept.floor, kept.token, kept.state)
        .where(kept.state == "open")
        .order_by(kept.reservation_id)
    )
    return tuple(Reservation(**row._mapping) for row in rows)


def _open_reservation(connection: Connection, reservation_id: int) -> Reservation:
    for reservation in read_open_reservations(connection):
        if reservation.reservation_id == reservation_id:
            return reservation
    raise CatalogError(f"the reservation {reservation_id} is not open", hint="Another writer settled it.")


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
        set_home(connection, last_ts=max(home.last_ts, last_ts), t0=first_ts if home.t0 is None else home.t0)
    connection.execute(update(schema.tables).where(schema.tables.c.table_id == table_id).values(**values))
    record_version(connection, table.path, values["version"], total)
