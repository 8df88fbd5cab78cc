"""Record how far back a change of the past reached, so that standing queries evaluate the affected instants again.

A source's change begins at the instant at which it is recorded.  A correction, and a view's initial past, begin
earlier, in windows that queries have already evaluated.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, insert, select

from weft.catalog import ddl
from weft.catalog.database import Database


class Revisions:
    """The loads that changed the past."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def intend(self, table_id: int, load_id: int, begins: int) -> None:
        """Record that a load, which has no reservation yet, will change a table from ``begins`` on (µs UTC)."""
        with self._database.changing_under_lease() as connection:
            values = {"load_id": load_id, "table_id": table_id, "begins": begins}
            connection.execute(insert(ddl.revisions).values(**values))

    def earliest(self, table_ids: Collection[int], since: int) -> int | None:
        """Return the first instant of the tables that was changed by loads with a ts from ``since`` on (µs UTC).

        Returns None if they changed nothing in the past.
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
        with self._database.reading() as connection:
            first: int | None = connection.execute(wanted).scalar_one()
            return first
