"""The leases of a home: to write, and to deliver (design section 6).

One writer works on a home at a time, and beside it one who delivers, so that a channel that stalls stops deliveries
only.  A lease's token is the fence: it rises with each acquisition and is checked inside every writing transaction, so
that a writer that was thought dead and wakes up again changes nothing.  Its time is the wall clock's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import select, update

from weft.catalog import ddl
from weft.catalog.database import Database, require_held
from weft.catalog.liveness import shown, this_process
from weft.catalog.records import Lease, LeaseName
from weft.errors import CatalogError, LeaseBusy
from weft.interruption import stop_here

LEASE_TTL_US: Final = 10 * 60 * 1_000_000
"""How long a lease is good without being renewed, in microseconds."""

_POLL_SECONDS: Final = 0.2


class Leases:
    """Taking the lease of one name, keeping it, and giving it back."""

    def __init__(self, database: Database, name: LeaseName) -> None:
        self._database = database
        self._name = name
        self._own = ddl.leases.c.name == name

    def acquire(self, purpose: str, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Lease:
        """Takes the lease, under a token greater than every one before.

        Raises LeaseBusy while it is held and has not run out, by another thread of this process too, unless the holder
        is known to be dead, or is this process and could not write that it gave the lease back.
        """
        liveness = self._database.liveness
        try:
            liveness.announce(holder)
        except OSError as error:
            raise CatalogError(
                f"the home cannot be written to: {error.strerror}",
                where=str(error.filename or self._database.home),
                hint="See whether the folder exists and may be written to.",
            ) from error
        with self._database.changing() as connection:
            held = connection.execute(select(ddl.leases).where(self._own)).one()
            free = held.holder is None or (self._name, held.token) in liveness.given_back
            if not free and held.expires_at > at and not liveness.is_gone(held.holder):
                raise LeaseBusy(
                    f"another writer is at work: {held.purpose} ({shown(held.holder)})",
                    hint="Wait until it is done; its lease runs out by itself if it is dead.",
                )
            lease = Lease(self._name, held.token + 1, purpose, holder, at, at + ttl_us)
            connection.execute(
                update(ddl.leases)
                .where(self._own)
                .values(
                    token=lease.token,
                    purpose=purpose,
                    holder=holder,
                    acquired_at=at,
                    expires_at=lease.expires_at,
                )
            )
            return lease

    def acquire_within(self, wait_us: int, purpose: str, clock: Callable[[], int]) -> Lease:
        """Takes the lease for this process, having waited for it up to ``wait_us``; raises LeaseBusy."""
        until = clock() + wait_us
        while True:
            try:
                return self.acquire(purpose, this_process(), clock())
            except LeaseBusy:
                if clock() >= until:
                    raise
                stop_here()
                time.sleep(_POLL_SECONDS)

    def renew(self, lease: Lease, at: int, ttl_us: int = LEASE_TTL_US) -> None:
        """Makes the lease last until ``at + ttl_us``; raises LeaseLost."""
        with self._database.changing() as connection:
            require_held(connection, lease)
            connection.execute(update(ddl.leases).where(self._own).values(expires_at=at + ttl_us))

    def release(self, lease: Lease) -> None:
        """Gives the lease back; does nothing where it is another's by now.

        Raises CatalogError where that cannot be written (a full disk).  This process can take the lease again then;
        other processes wait until it does, ends, or the lease runs out.
        """
        given_back = self._database.liveness.given_back
        given_back.add((lease.name, lease.token))
        with self._database.changing() as connection:
            connection.execute(
                update(ddl.leases)
                .where(self._own, ddl.leases.c.token == lease.token)
                .values(purpose=None, holder=None, acquired_at=None, expires_at=None)
            )
        given_back.discard((lease.name, lease.token))

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost unless it is the lease now held."""
        with self._database.reading() as connection:
            require_held(connection, lease)

    def held(self) -> Lease | None:
        """The lease now held (it may have run out), or None."""
        with self._database.reading() as connection:
            row = connection.execute(select(ddl.leases).where(self._own)).one()
        if row.holder is None:
            return None
        return Lease(self._name, row.token, row.purpose, row.holder, row.acquired_at, row.expires_at)
