"""Store who did what, when, and from where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, insert, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.instants import format_instant
from weft.printable import Brief
from weft.rights.principal import Principal

BEGUN: Final = "begun"
"""The outcome of an action that has not ended, or whose process died."""


@dataclass(frozen=True, repr=False)
class AuditRecord(Brief):
    """An action.  ``door`` and ``address`` say where the request came from.  ``outcome`` is ``done``, ``begun``, or the
    message of an error.  The instant ``at`` is in microseconds UTC.
    """

    audit_id: int
    at: int
    user: str
    door: str
    address: str | None
    action: str
    about: str | None
    outcome: str

    def _brief(self) -> str:
        about = f" {self.about}" if self.about else ""
        return f"{format_instant(self.at)}: {self.user}, {self.action}{about}: {self.outcome}"


class Audit:
    """The log of actions that change a home with users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, principal: Principal, user: str, action: str, about: str | None, at: int) -> int:
        """Record that an action begins, and return the ID of the record.  ``user`` is the name of the principal."""
        values = {"door": principal.door, "address": principal.address, "action": action, "about": about}
        with self._database.changing() as connection:
            return inserted_id(connection, insert(ddl.audit).values(at=at, user=user, outcome=BEGUN, **values))

    def end(self, audit_id: int, outcome: str) -> None:
        """Record the outcome of an action."""
        with self._database.changing() as connection:
            connection.execute(update(ddl.audit).where(ddl.audit.c.audit_id == audit_id).values(outcome=outcome))

    def before(self, at: int) -> int:
        """Return the number of records of actions before an instant (microseconds UTC)."""
        wanted = select(func.count()).select_from(ddl.audit).where(ddl.audit.c.at < at)
        return int(self._database.value(wanted))

    def forget(self, at: int) -> None:
        """Delete the records of actions before an instant (microseconds UTC)."""
        with self._database.changing() as connection:
            connection.execute(delete(ddl.audit).where(ddl.audit.c.at < at))

    def latest(
        self, limit: int, *, user: str | None = None, before: int | None = None, since: int | None = None
    ) -> tuple[AuditRecord, ...]:
        """Return the latest records, the newest first.

        ``user`` selects the records of one user, ``before`` those with lower IDs, and ``since`` those from an instant
        on (microseconds UTC).
        """
        audit = ddl.audit.c
        wanted = select(ddl.audit).order_by(audit.audit_id.desc()).limit(limit)
        if user is not None:
            wanted = wanted.where(audit.user == user)
        if before is not None:
            wanted = wanted.where(audit.audit_id < before)
        if since is not None:
            wanted = wanted.where(audit.at >= since)
        return tuple(AuditRecord(**row._mapping) for row in self._database.rows(wanted))
