"""Record and undo loads, and index unreadable records.

An undo first marks the load and then removes its rows from Delta.  A final transaction updates the table's counts and
records the load as undone.  After an interruption, a later writer completes the undo (``execution.undoing``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, Final, Literal

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.dialects import upserted
from weft.catalog.home_record import effective_watermark, read_home, set_home
from weft.catalog.liveness import this_process
from weft.catalog.records import LoadRecord, QuarantineRecord, QuarantineState
from weft.catalog.tables import read_table, record_version
from weft.errors import CatalogError, Conflict, NotFound
from weft.instants import MIN_INSTANT
from weft.printable import Brief, counted

ACTIVE_TTL_US: Final = 60 * 60 * 1_000_000
"""The longest time between two renewals of a running load on another machine, in microseconds."""


KEPT: Final = "kept"
"""The state of a load without an undo."""
_KEPT: Final = ddl.loads.c.state == KEPT


class Loads:
    """The loads of a home."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self,
        table_id: int,
        source: str,
        kind: str,
        digest: str | None,
        at: int,
        files: Sequence[tuple[str, str]] = (),
    ) -> int:
        """Record the start of a load and return the load's ID.

        If the source has several files, ``files`` contains (name, digest) for each file.
        """
        values = {"table_id": table_id, "source": source, "kind": kind, "digest": digest, "started_at": at}
        counts = {"stored": 0, "known": 0, "quarantined": 0, "late": 0}
        with self._database.changing() as connection:
            load_id = inserted_id(connection, insert(ddl.loads).values(**values, **counts))
            if files:
                rows = [
                    {"load_id": load_id, "number": number, "source": name, "digest": own}
                    for number, (name, own) in enumerate(files)
                ]
                connection.execute(insert(ddl.load_files), rows)
            return load_id

    def forget(self, load_ids: Collection[int]) -> None:
        """Delete the records of loads that Weft refused before storing any rows."""
        with self._database.changing_under_lease() as connection:
            for table in (ddl.reservations, ddl.load_files, ddl.loads):
                connection.execute(delete(table).where(table.c.load_id.in_(load_ids)))

    def finish(
        self,
        load_id: int,
        stored: int,
        known: int,
        quarantined: int,
        late: int,
        at: int,
    ) -> None:
        """Record the end of a load and its row counts."""
        with self._database.changing() as connection:
            changed = connection.execute(
                update(ddl.loads)
                .where(ddl.loads.c.load_id == load_id)
                .values(stored=stored, known=known, quarantined=quarantined, late=late, finished_at=at)
            )
            if changed.rowcount == 0:
                raise CatalogError(f"there is no load {load_id}")

    def loaded(self, table_id: int, digest: str) -> bool:
        """Return whether the table has a finished load of a source with this ``digest``."""
        loads = ddl.loads.c
        match = self._database.first(
            select(loads.load_id)
            .where(loads.table_id == table_id, loads.digest == digest, loads.finished_at.is_not(None), _KEPT)
            .limit(1)
        )
        return match is not None

    def of_files(self, table_id: int, digests: Collection[str]) -> Mapping[str, LoadRecord]:
        """Return the latest load of each file into the table, by digest.  Finished loads take precedence."""
        loads, files = ddl.loads, ddl.load_files
        own = select(loads.c.digest.label("of"), loads).where(loads.c.digest.in_(digests))
        parts = select(files.c.digest.label("of"), loads).join(files, files.c.load_id == loads.c.load_id)
        latest: dict[str, LoadRecord] = {}
        with self._database.reading() as connection:
            for wanted in (own, parts.where(files.c.digest.in_(digests))):
                rows = wanted.where(loads.c.table_id == table_id, _KEPT).order_by(loads.c.load_id)
                for row in connection.execute(rows):
                    values = dict(row._mapping)
                    digest = str(values.pop("of"))
                    load = LoadRecord(**values)
                    if digest not in latest or load.finished_at is not None or latest[digest].finished_at is None:
                        latest[digest] = load
        return latest

    def has_files(self, table_id: int, *, besides: str) -> bool:
        """Return whether the table has a load of a file whose digest does not begin with ``besides``."""
        loads, files = ddl.loads.c, ddl.load_files.c
        several = select(files.load_id).where(files.load_id == loads.load_id)
        own = select(loads.load_id).where(~several.exists(), loads.kind == "file", ~loads.digest.startswith(besides))
        parts = select(loads.load_id).join(ddl.load_files, files.load_id == loads.load_id)
        wanted = (own, parts.where(~files.digest.startswith(besides)))
        some = (each.where(loads.table_id == table_id, _KEPT).limit(1) for each in wanted)
        return any(self._database.first(each) is not None for each in some)

    def of_source(self, table_id: int, digest: str) -> tuple[LoadRecord, ...]:
        """Return all loads of the source with this ``digest`` into the table, the newest first."""
        loads = ddl.loads
        wanted = select(loads).where(loads.c.table_id == table_id, loads.c.digest == digest, _KEPT)
        return self._newest_first(wanted)

    def unfinished(self, table_id: int) -> tuple[LoadRecord, ...]:
        """Return the unfinished loads into the table, the newest first."""
        loads = ddl.loads
        wanted = select(loads).where(loads.c.table_id == table_id, loads.c.finished_at.is_(None), _KEPT)
        return self._newest_first(wanted)

    def stored_by(self, load_id: int) -> int:
        """Return the number of rows that the load has committed.  A repeated load skips these rows."""
        reservations = ddl.reservations.c
        of_load = (reservations.load_id == load_id, reservations.state == "committed")
        return int(self._database.value(select(func.coalesce(func.sum(reservations.rows), 0)).where(*of_load)))

    def activate(self, load_id: int, at: int, *, hold: bool = False) -> None:
        """Record that this process works on the load.  With ``hold``, the watermark waits until the load is done."""
        self._database.announce(this_process())
        with self._database.changing_under_lease() as connection:
            values = {"holder": this_process(), "expires_at": at + ACTIVE_TTL_US}
            floor = effective_watermark(connection) if hold else None
            connection.execute(insert(ddl.active_loads).values(load_id=load_id, floor=floor, **values))

    def hold(self, load_id: int) -> int:
        """Let the watermark wait for a running load, and return it (µs UTC).

        Raise Conflict if another process took the load for dead.
        """
        return self._set_floor(load_id, hold=True)

    def let_go(self, load_id: int) -> None:
        """Let the watermark no longer wait for a running load. The error is that of ``hold``."""
        self._set_floor(load_id, hold=False)

    def _set_floor(self, load_id: int, *, hold: bool) -> int:
        active = ddl.active_loads
        with self._database.changing_under_lease() as connection:
            floor = effective_watermark(connection)
            values = {"floor": floor if hold else None}
            own = (active.c.load_id == load_id, active.c.holder == this_process())
            if connection.execute(update(active).where(*own).values(values)).rowcount == 0:
                raise Conflict(
                    f"load {load_id} paused for too long, and another process took it for dead",
                    hint="Repeat the load, which continues where it stopped.",
                )
            return floor

    def renew(self, load_id: int, at: int) -> None:
        """Record that this process still works on the load."""
        active = ddl.active_loads
        with self._database.changing() as connection:
            connection.execute(update(active).where(active.c.load_id == load_id).values(expires_at=at + ACTIVE_TTL_US))

    def deactivate(self, load_id: int) -> None:
        """Record that this process no longer works on the load."""
        active = ddl.active_loads
        with self._database.changing() as connection:
            connection.execute(delete(active).where(active.c.load_id == load_id, active.c.holder == this_process()))

    def is_active(self, load_id: int) -> bool:
        """Return whether a process works on the load."""
        active = ddl.active_loads.c
        return self._database.first(select(active.load_id).where(active.load_id == load_id)) is not None

    def forget_dead(self, at: int) -> None:
        """Delete the active-load entries of dead processes, and expired entries."""
        active = ddl.active_loads
        rows = self._database.rows(select(active.c.load_id, active.c.holder, active.c.expires_at))
        dead = [
            row
            for row in rows
            if row.expires_at <= at or self._database.is_gone(row.holder, row.expires_at - ACTIVE_TTL_US)
        ]
        if dead:
            with self._database.changing_under_lease() as connection:
                for row in dead:
                    same = (active.c.load_id == row.load_id, active.c.expires_at == row.expires_at)
                    connection.execute(delete(active).where(*same))

    def first_since(self, at: int) -> int | None:
        """Return the earliest start time of a load after ``at``.  Return None if no load began after ``at``."""
        started = ddl.loads.c.started_at
        first: int | None = self._database.value(select(func.min(started)).where(started > at))
        return first

    def latest(self, limit: int = 20) -> tuple[LoadRecord, ...]:
        """Return the latest loads, the newest first."""
        return self._newest_first(select(ddl.loads).limit(limit))

    def _newest_first(self, wanted: Select[Any]) -> tuple[LoadRecord, ...]:
        rows = self._database.rows(wanted.order_by(ddl.loads.c.load_id.desc()))
        return tuple(LoadRecord(**row._mapping) for row in rows)


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """An unreadable record for the quarantine index.  A retry needs ``options``, the load's options as JSON."""

    source: str
    position: str
    reason: str
    sha256: str
    size: int
    options: str


_AT_ONCE: Final = 10_000
_REMOVED_AT_ONCE: Final = 100


class Quarantine:
    """The index of unreadable records.  The home's quarantine folder contains the bytes of the records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, load_id: int, table_id: int, records: Iterable[UnreadableRecord], at: int, store: Callable[[], None]
    ) -> int:
        """Add unreadable records to the index in one transaction.  Return the number of new records.

        A record with the same table, source, position and bytes is not new.  ``at`` is in µs UTC.  ``store`` stores the
        bytes within the transaction, which excludes ``drop_unnamed``.
        """
        quarantine = ddl.quarantine
        count = select(func.count()).select_from(quarantine).where(quarantine.c.table_id == table_id)
        with self._database.changing() as connection:
            store()
            before = connection.execute(count).scalar_one()
            statement = upserted(connection, quarantine, ("table_id", "source", "position", "sha256"), ("load_id",))
            common = {"load_id": load_id, "table_id": table_id, "at": at, "state": "open"}
            rest = iter(records)
            while some := [{**asdict(each), **common} for each in islice(rest, _AT_ONCE)]:
                connection.execute(statement, some)
            return int(connection.execute(count).scalar_one()) - int(before)

    def drop_unnamed(self, digests: Sequence[str], remove: Callable[[Sequence[str]], None]) -> None:
        """Call ``remove`` for those ``digests`` (SHA-256) that the index does not contain, a hundred at once.

        No process can add a record with this digest meanwhile. A transaction has few digests, because other writers
        wait for it.
        """
        column = ddl.quarantine.c.sha256
        for at in range(0, len(digests), _REMOVED_AT_ONCE):
            some = digests[at : at + _REMOVED_AT_ONCE]
            with self._database.changing() as connection:
                known = set(connection.execute(select(column).where(column.in_(some))).scalars())
                remove([digest for digest in some if digest not in known])

    def all(self, state: QuarantineState | None = "open") -> tuple[QuarantineRecord, ...]:
        """Return the quarantined records in ``state``, the oldest first.  If ``state`` is None, return all records."""
        wanted = select(ddl.quarantine).order_by(ddl.quarantine.c.quarantine_id)
        if state is not None:
            wanted = wanted.where(ddl.quarantine.c.state == state)
        return tuple(QuarantineRecord(**row._mapping) for row in self._database.rows(wanted))

    def page(self, table_id: int | None, after: int, limit: int) -> tuple[QuarantineRecord, ...]:
        """Return at most ``limit`` open records of one or all tables with IDs above ``after``, ordered by ID."""
        quarantine = ddl.quarantine.c
        wanted = select(ddl.quarantine).where(quarantine.state == "open", quarantine.quarantine_id > after)
        if table_id is not None:
            wanted = wanted.where(quarantine.table_id == table_id)
        rows = self._database.rows(wanted.order_by(quarantine.quarantine_id).limit(limit))
        return tuple(QuarantineRecord(**row._mapping) for row in rows)

    def counts(self, table_ids: Collection[int] | None = None) -> dict[int, int]:
        """Return the number of open records by the ID of the table.  Without ``table_ids``, of all tables."""
        quarantine = ddl.quarantine.c
        wanted = select(quarantine.table_id, func.count()).where(quarantine.state == "open")
        if table_ids is not None:
            wanted = wanted.where(quarantine.table_id.in_(table_ids))
        return {row[0]: row[1] for row in self._database.rows(wanted.group_by(quarantine.table_id))}

    def positions(self, load_id: int) -> Mapping[str, frozenset[str]]:
        """Return the positions of the load's quarantined records, grouped by source."""
        quarantine = ddl.quarantine.c
        positions: dict[str, set[str]] = {}
        for row in self._database.rows(
            select(quarantine.source, quarantine.position).where(quarantine.load_id == load_id)
        ):
            positions.setdefault(row.source, set()).add(row.position)
        return {source: frozenset(places) for source, places in positions.items()}

    def settle(self, quarantine_id: int, state: QuarantineState, *, reason: str | None = None) -> None:
        """Set the state of a quarantined record, and its ``reason`` if given.  Raise NotFound for an unknown record."""
        values = {"state": state} if reason is None else {"state": state, "reason": reason}
        with self._database.changing() as connection:
            changed = connection.execute(
                update(ddl.quarantine).where(ddl.quarantine.c.quarantine_id == quarantine_id).values(**values)
            )
            if changed.rowcount == 0:
                raise NotFound(f"there is no record {quarantine_id} in quarantine")


UNDOING: Final = "undoing"
_UNDONE: Final = (
    select(ddl.loads.c.load_id, ddl.loads.c.table_id, ddl.tables.c.path)
    .join(ddl.tables, ddl.tables.c.table_id == ddl.loads.c.table_id)
    .where(ddl.loads.c.state == UNDOING)
)
UNDONE: Final = "undone"
LoadState = Literal["done", "at work", "ended in the middle", "being undone", "undone"]


@dataclass(frozen=True, repr=False)
class LoadSummary(Brief):
    """A load with the name of its table, and with the number and the ts bounds of the stored rows."""

    load: LoadRecord
    table: str
    rows: int
    first_ts: int | None
    last_ts: int | None
    active: bool

    @property
    def state(self) -> LoadState:
        """The state of the load in words."""
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
    """Those Delta commits of one load that an undo must remove."""

    load_id: int
    table_id: int
    path: str
    versions: tuple[int, ...]


def no_load(load_id: int) -> NotFound:
    """Return the error for an unknown load."""
    return NotFound(f"there is no load {load_id}", hint="List the loads with `weft loads`.")


_NEXT_PLACE: Final = re.compile(r", (?=/|[a-z][a-z0-9+.-]*://)")


def without_folders(source: str) -> str:
    """Return the names of the files of a load, without their folders and servers.

    A URI without a path becomes its scheme.

    >>> without_folders("/srv/a.csv, s3://bucket/in/b.csv"), without_folders("postgresql://host/shop?user=x")
    ('a.csv, b.csv', 'shop')
    """
    return ", ".join(map(_last_name, _NEXT_PLACE.split(source)))


def _last_name(place: str) -> str:
    scheme, uri, rest = place.partition("://")
    path = rest.partition("?")[0].partition("/")[2] if uri else place
    return path.rstrip("/").rpartition("/")[2] or scheme


class LoadHistory:
    """The history of loads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def latest(
        self, table_id: int | None = None, limit: int | None = None, before: int | None = None
    ) -> tuple[LoadSummary, ...]:
        """Return the latest loads with IDs below ``before``, the newest first.  Omit the loads of views, unless the
        table ``table_id`` is a view.
        """
        wanted = _summary_query().where(ddl.loads.c.kind != "view").order_by(ddl.loads.c.load_id.desc()).limit(limit)
        if table_id is not None:
            wanted = wanted.where(ddl.loads.c.table_id == table_id)
        if before is not None:
            wanted = wanted.where(ddl.loads.c.load_id < before)
        return tuple(_as_summary(row._mapping) for row in self._database.rows(wanted))

    def one(self, load_id: int) -> LoadSummary:
        """Return the load with this ID.  Raise NotFound if the load does not exist."""
        row = self._database.first(_summary_query().where(ddl.loads.c.load_id == load_id))
        if row is None:
            raise no_load(load_id)
        return _as_summary(row._mapping)

    def begin_undo(self, load_id: int) -> None:
        """Mark a load for an undo."""
        with self._database.changing_under_lease() as connection:
            connection.execute(update(ddl.loads).where(ddl.loads.c.load_id == load_id).values(state=UNDOING))

    def being_undone(self) -> tuple[Commits, ...]:
        """Return the commits that unfinished undos must remove."""
        with self._database.reading() as connection:
            return tuple(
                Commits(row.load_id, row.table_id, row.path, _versions(connection, ddl.reservations.c, row))
                for row in connection.execute(_UNDONE).all()
            )

    def commits(self, load_id: int) -> tuple[int, ...]:
        """Return the Delta versions of the load's commits."""
        with self._database.reading() as connection:
            rows = select(ddl.loads.c.load_id).where(ddl.loads.c.load_id == load_id)
            return _versions(connection, ddl.reservations.c, connection.execute(rows).one())

    def undone(self, load_id: int, stored: tuple[int, int] | None) -> tuple[str, ...]:
        """Record that a marked load is undone.  Return the digests of the load's quarantined records.

        ``stored`` is the (version, number of rows) of the Delta table, or None without a Delta table.  Quarantined
        records of other loads may have the same digests.

        If a later load skipped rows because this load had stored the same rows, the undo deletes the digest of the
        later load.  Users can then load the source again.
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
    """Batches without rows have no commit."""
    wanted = select(reservations.delta_version).where(
        reservations.load_id == row.load_id, reservations.state == "committed", reservations.rows > 0
    )
    return tuple(connection.execute(wanted.order_by(reservations.delta_version)).scalars())


def _reopen_retried(connection: Connection, load_id: int) -> None:
    digest = connection.execute(select(ddl.loads.c.digest).where(ddl.loads.c.load_id == load_id)).scalar_one()
    begin, _, number = (digest or "").partition("-")
    if begin == "quarantine" and number.isdigit():
        quarantine = ddl.quarantine
        connection.execute(update(quarantine).where(quarantine.c.quarantine_id == int(number)).values(state="open"))


def _shrink(connection: Connection, table_id: int, version: int, rows: int) -> None:
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
    """Recompute the home's last ts from the stored rows.  Before the first tick, also recompute ``t0``."""
    first, last = connection.execute(select(func.min(ddl.tables.c.first_ts), func.max(ddl.tables.c.last_ts))).one()
    home = read_home(connection)
    set_home(connection, last_ts=MIN_INSTANT if last is None else last)
    ticks = ddl.ticks.c
    if connection.execute(select(ticks.tick_id).where(ticks.state != "abandoned").limit(1)).first() is None:
        created_at = home.created_at if home.clock == "wall" else None
        known: Sequence[int] = [each for each in (first, created_at) if each is not None]
        set_home(connection, t0=min(known, default=None))


def _without_quarantine(connection: Connection, condition: Any) -> tuple[str, ...]:
    """Return the digests of the deleted records.  Other records may have the same digests."""
    quarantine = ddl.quarantine
    digests = tuple(connection.execute(select(quarantine.c.sha256).where(condition).distinct()).scalars())
    connection.execute(delete(quarantine).where(condition))
    return digests


def forget_quarantined(connection: Connection, table_id: int) -> tuple[str, ...]:
    """Delete the table's quarantined records and return the digests.  Other tables may share the digests."""
    return _without_quarantine(connection, ddl.quarantine.c.table_id == table_id)
