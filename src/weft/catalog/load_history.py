"""List past loads, and record the undoing of loads.

An undo first marks the load, then removes its rows from Delta, and then updates the table's counts and marks the load
as undone in one transaction.  A later writer completes an undo that was only marked (``execution.undoing``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from sqlalchemy import Connection, delete, func, select, update

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.home_record import read_home, set_home
from weft.catalog.loads import KEPT
from weft.catalog.records import LoadRecord
from weft.catalog.tables import read_table, record_version
from weft.errors import NotFound
from weft.instants import MIN_INSTANT
from weft.printable import Brief, counted

UNDOING: Final = "undoing"
UNDONE: Final = "undone"
LoadState = Literal["done", "at work", "ended in the middle", "being undone", "undone"]


@dataclass(frozen=True, repr=False)
class LoadSummary(Brief):
    """A load, its table, and its stored rows: ``rows`` with ts from ``first_ts`` to ``last_ts`` (None: no rows)."""

    load: LoadRecord
    table: str
    rows: int
    first_ts: int | None
    last_ts: int | None
    active: bool

    @property
    def state(self) -> LoadState:
        """The outcome of the load so far."""
        if self.load.state != KEPT:
            return "undone" if self.load.state == UNDONE else "being undone"
        if self.load.finished_at is not None:
            return "done"
        return "at work" if self.active else "ended in the middle"

    def _brief(self) -> str:
        load = self.load
        return f"load {load.load_id} into {self.table}, {self.state}, of {load.source}: {counted(self.rows, 'row')}"


@dataclass(frozen=True)
class Commits:
    """The commits to remove from Delta for a load: the table's id and path, and the versions."""

    load_id: int
    table_id: int
    path: str
    versions: tuple[int, ...]


class LoadHistory:
    """The history of loads: when, from what, and whether they were undone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def latest(self, table_id: int | None = None, limit: int | None = None) -> tuple[LoadSummary, ...]:
        """Return the latest loads into one table, or into all tables except views, the newest first."""
        wanted = _summary_query().where(ddl.loads.c.kind != "view").order_by(ddl.loads.c.load_id.desc()).limit(limit)
        if table_id is not None:
            wanted = wanted.where(ddl.loads.c.table_id == table_id)
        with self._database.reading() as connection:
            return tuple(_as_summary(row._mapping) for row in connection.execute(wanted))

    def one(self, load_id: int) -> LoadSummary:
        """Return one load; raise NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_summary_query().where(ddl.loads.c.load_id == load_id)).first()
        if row is None:
            raise NotFound(f"there is no load {load_id}", hint="`weft loads` lists them.")
        return _as_summary(row._mapping)

    def begin_undo(self, load_id: int) -> None:
        """Mark a load as being undone."""
        with self._database.changing_under_lease() as connection:
            connection.execute(update(ddl.loads).where(ddl.loads.c.load_id == load_id).values(state=UNDOING))

    def being_undone(self) -> tuple[Commits, ...]:
        """Return the loads that are marked and not undone yet."""
        loads, reservations = ddl.loads.c, ddl.reservations.c
        with self._database.reading() as connection:
            rows = connection.execute(
                select(loads.load_id, loads.table_id, ddl.tables.c.path)
                .join(ddl.tables, ddl.tables.c.table_id == loads.table_id)
                .where(loads.state == UNDOING)
            ).all()
            return tuple(
                Commits(row.load_id, row.table_id, row.path, _versions(connection, reservations, row)) for row in rows
            )

    def commits(self, load_id: int) -> tuple[int, ...]:
        """Return Delta's versions of the commits of a load."""
        with self._database.reading() as connection:
            rows = select(ddl.loads.c.load_id).where(ddl.loads.c.load_id == load_id)
            return _versions(connection, ddl.reservations.c, connection.execute(rows).one())

    def undone(self, load_id: int, stored: tuple[int, int] | None) -> tuple[str, ...]:
        """Record that a marked load is undone; return the digests of the records that it put in quarantine.

        ``stored`` is the version and the number of rows of its table in Delta (None: no table).  Other records may
        share the digests.  A later load may have skipped rows because this load had stored them, so the sources of
        later loads can be loaded again.
        """
        with self._database.changing_under_lease() as connection:
            table_id = connection.execute(
                select(ddl.loads.c.table_id).where(ddl.loads.c.load_id == load_id)
            ).scalar_one()
            loads, reservations, own = ddl.loads, ddl.reservations, ddl.reservations.c.load_id == load_id
            connection.execute(
                update(reservations).where(own, reservations.c.state == "committed").values(state=UNDONE)
            )
            connection.execute(delete(ddl.active_loads).where(ddl.active_loads.c.load_id == load_id))
            connection.execute(update(loads).where(loads.c.load_id == load_id).values(state=UNDONE))
            later = (loads.c.table_id == table_id, loads.c.load_id > load_id, loads.c.known > 0)
            of_later = select(loads.c.load_id).where(*later)
            connection.execute(delete(ddl.load_files).where(ddl.load_files.c.load_id.in_(of_later)))
            connection.execute(update(loads).where(*later).values(digest=None))
            _reopen_retried(connection, load_id)
            if stored is not None:
                _shrink(connection, table_id, *stored)
            return _without_quarantine(connection, ddl.quarantine.c.load_id == load_id)


def _summary_query() -> Any:
    reservations = ddl.reservations.c
    stored = (
        select(
            reservations.load_id,
            func.sum(reservations.rows).label("rows"),
            func.min(reservations.first_ts).label("first_ts"),
            func.max(reservations.last_ts).label("last_ts"),
        )
        .where(reservations.state.in_(("committed", UNDONE)))
        .group_by(reservations.load_id)
        .subquery()
    )
    return (
        select(
            ddl.loads,
            ddl.tables.c.name.label("table"),
            func.coalesce(stored.c.rows, 0).label("rows"),
            stored.c.first_ts,
            stored.c.last_ts,
            ddl.active_loads.c.holder,
        )
        .join(ddl.tables, ddl.tables.c.table_id == ddl.loads.c.table_id)
        .outerjoin(stored, stored.c.load_id == ddl.loads.c.load_id)
        .outerjoin(ddl.active_loads, ddl.active_loads.c.load_id == ddl.loads.c.load_id)
    )


def _as_summary(row: Mapping[Any, Any]) -> LoadSummary:
    load = LoadRecord(**{field.name: row[field.name] for field in fields(LoadRecord)})
    return LoadSummary(load, row["table"], int(row["rows"]), row["first_ts"], row["last_ts"], row["holder"] is not None)


def _versions(connection: Connection, reservations: Any, row: Any) -> tuple[int, ...]:
    """Return Delta's versions of the commits of a load; a batch without rows has no commit."""
    wanted = select(reservations.delta_version).where(
        reservations.load_id == row.load_id, reservations.state == "committed", reservations.rows > 0
    )
    return tuple(connection.execute(wanted.order_by(reservations.delta_version)).scalars())


def _reopen_retried(connection: Connection, load_id: int) -> None:
    """Reopen the quarantined record that the load retried."""
    digest = connection.execute(select(ddl.loads.c.digest).where(ddl.loads.c.load_id == load_id)).scalar_one()
    begin, _, number = (digest or "").partition("-")
    if begin == "quarantine" and number.isdigit():
        quarantine = ddl.quarantine
        connection.execute(update(quarantine).where(quarantine.c.quarantine_id == int(number)).values(state="open"))


def _shrink(connection: Connection, table_id: int, version: int, rows: int) -> None:
    """Record the table's version, rows and bounds without the load, and recompute the home's."""
    reservations = ddl.reservations.c
    bounds = select(func.min(reservations.first_ts), func.max(reservations.last_ts))
    first, last = connection.execute(
        bounds.where(reservations.table_id == table_id, reservations.state == "committed")
    ).one()
    values = {"rows": rows, "version": version, "first_ts": first, "last_ts": last}
    connection.execute(update(ddl.tables).where(ddl.tables.c.table_id == table_id).values(**values))
    record_version(connection, read_table(connection, table_id).path, version, rows)
    forget_instants(connection)


def forget_instants(connection: Connection) -> None:
    """Recompute the home's last ts, and before the first tick also its first, from the stored rows."""
    first, last = connection.execute(select(func.min(ddl.tables.c.first_ts), func.max(ddl.tables.c.last_ts))).one()
    home = read_home(connection)
    set_home(connection, last_ts=MIN_INSTANT if last is None else last)
    ticks = ddl.ticks.c
    if connection.execute(select(ticks.tick_id).where(ticks.state != "abandoned").limit(1)).first() is None:
        created_at = home.created_at if home.clock == "wall" else None
        known: Sequence[int] = [each for each in (first, created_at) if each is not None]
        set_home(connection, t0=min(known, default=None))


def _without_quarantine(connection: Connection, condition: Any) -> tuple[str, ...]:
    """Delete records from the index of the quarantine; return the digests of their bytes, which other records may
    share.
    """
    quarantine = ddl.quarantine
    digests = tuple(connection.execute(select(quarantine.c.sha256).where(condition).distinct()).scalars())
    connection.execute(delete(quarantine).where(condition))
    return digests


def forget_quarantined(connection: Connection, table_id: int) -> tuple[str, ...]:
    """Delete a table's records from the quarantine index; return their digests, which other records may share."""
    return _without_quarantine(connection, ddl.quarantine.c.table_id == table_id)
