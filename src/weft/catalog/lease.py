"""Acquire, renew and release the two leases of a home: the write lease and the delivery lease (design section 6).

Because the leases are separate, a stalled channel stops deliveries but not writes.  The token of a lease increases with
each acquisition, and every writing transaction checks the token.  A suspended writer that has lost its lease can
therefore change nothing.  Leases use the wall clock, which is the clock of the server if the catalog is on PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Row, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, require_held
from weft.catalog.liveness import shown, this_process
from weft.catalog.records import Lease, LeaseName
from weft.errors import CatalogUnreachable, LeaseBusy
from weft.interruption import stop_here

LEASE_TTL_US: Final = 10 * 60 * 1_000_000
"""The duration of a lease without renewal, in microseconds."""

_POLL_SECONDS: Final = 0.2


class Leases:
    """The operations on one lease of a home."""

    def __init__(self, database: Database, name: LeaseName) -> None:
        self._database = database
        self._name = name
        self._own = ddl.leases.c.name == name

    def acquire(self, purpose: str, holder: str, at: int, ttl_us: int = LEASE_TTL_US) -> Lease:
        """Acquire the lease.  The new token is greater than all earlier tokens of the lease.

        Raise LeaseBusy if another thread or process holds an unexpired lease.  Ignore the lease of a dead process.
        Also ignore a lease that this process has released if the catalog could not record the release.
        """
        self._database.announce(holder)
        lease: Lease | None = None
        try:
            with self._database.changing() as connection:
                held = connection.execute(select(ddl.leases).where(self._own)).one()
                if not self._is_free(held, at):
                    raise LeaseBusy(
                        f"another process is writing to this home: {held.purpose} ({shown(held.holder)})",
                        hint="Wait until the other process has ended. If it is dead, its lease expires by itself.",
                    )
                lease = Lease(self._name, held.token + 1, purpose, holder, at, at + ttl_us)
                self._database.given_back.discard(lease.key)
                values = {name: value for name, value in asdict(lease).items() if name != "name"}
                connection.execute(update(ddl.leases).where(self._own).values(values))
        except CatalogUnreachable:
            if lease is not None:  # the catalog may have recorded the lease, although its reply is lost
                self._database.given_back.add(lease.key)
            raise
        return lease

    def _is_free(self, held: Row[Any], at: int) -> bool:
        if held.holder is None or held.expires_at <= at:
            return True
        if (self._name, held.token, held.holder) in self._database.given_back:
            return True
        return self._database.is_gone(held.holder, held.expires_at - LEASE_TTL_US)

    def acquire_within(self, wait_us: int, purpose: str, clock: Callable[[], int]) -> Lease:
        """Acquire the lease for this process.  Raise LeaseBusy if the lease is not free within ``wait_us``."""
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
        """Extend the lease to ``at + ttl_us``.  Raise LeaseLost if another writer has taken the lease."""
        self._database.announce(lease.holder)
        with self._database.changing() as connection:
            require_held(connection, lease)
            connection.execute(update(ddl.leases).where(self._own).values(expires_at=at + ttl_us))

    def release(self, lease: Lease) -> None:
        """Release the lease if no other writer has taken it.

        Raise CatalogError if the catalog cannot record the release, for example on a full disk.  After a failed
        release, this process can acquire the lease again.  Other processes must wait until the lease expires or this
        process ends.
        """
        given_back = self._database.given_back
        given_back.add(lease.key)
        with self._database.changing() as connection:
            connection.execute(
                update(ddl.leases)
                .where(self._own, ddl.leases.c.token == lease.token)
                .values(purpose=None, holder=None, acquired_at=None, expires_at=None)
            )
        given_back.discard(lease.key)

    def check(self, lease: Lease) -> None:
        """Raise LeaseLost if ``lease`` is lost."""
        with self._database.reading() as connection:
            require_held(connection, lease)

    def held(self) -> Lease | None:
        """Return the current lease, even if the lease has expired.  Return None if nobody holds the lease."""
        with self._database.reading() as connection:
            row = connection.execute(select(ddl.leases).where(self._own)).one()
        if row.holder is None:
            return None
        return Lease(self._name, row.token, row.purpose, row.holder, row.acquired_at, row.expires_at)
