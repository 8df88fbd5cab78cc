"""Store the sources of tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from weft.algebra.schema import DataType
from weft.catalog import ddl
from weft.catalog.database import Database, record_of
from weft.catalog.name_order import by_name, is_one_of
from weft.catalog.naming import folded, not_found
from weft.errors import Conflict
from weft.printable import Brief, counted

SourceKind = Literal["csv", "jsonl", "parquet", "sqlite", "postgres", "changes", "maildir", "imap", "nntp", "attached"]
Stamps = Literal["clock", "file", "source"]
"""Where the time of a change comes from: the home's clock, the file's modification time, or a time in the source."""


@dataclass(frozen=True, repr=False)
class SourceRecord(Brief):
    """The source of the table ``name``, which is a mail table if the source is mail or news, and otherwise tracked.

    ``location`` is a path or URI.  ``options`` are the other read options, as JSON.  ``polled_at`` is the time of the
    last poll, and ``changed_at`` is the time of the last recorded change (both in microseconds UTC).  ``trouble`` is
    the reason why the last poll failed (None: it succeeded).  ``open_rows`` is the number of rows in the source at its
    last change.  ``seen`` is a JSON text that identifies the state at the last poll.  The next poll skips a source in
    the state ``seen``.
    """

    table_id: int
    name: str
    kind: SourceKind
    location: str
    options: Mapping[str, Any]
    stamps: Stamps
    every_us: int
    added_at: int
    polled_at: int | None
    changed_at: int | None
    trouble: str | None
    open_rows: int
    seen: Mapping[str, Any]

    @property
    def due_at(self) -> int:
        """The time of the next poll by ``weft run`` (µs UTC)."""
        return self.added_at if self.polled_at is None else self.polled_at + self.every_us

    def _brief(self) -> str:
        trouble = "" if self.trouble is None else f", {self.trouble}"
        return f"source {self.name}, {self.kind} at {self.location}: {counted(self.open_rows, 'row')} now{trouble}"


class Sources:
    """The sources of a home's tables.  A table has at most one source."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        table_id: int,
        kind: SourceKind,
        location: str,
        options: Mapping[str, Any],
        stamps: Stamps,
        every_us: int,
        at: int,
        open_rows: int = 0,
    ) -> None:
        """Record the source of a table.  Raise Conflict if the table already has a source."""
        sources = ddl.sources
        with self._database.changing() as connection:
            taken = connection.execute(select(sources.c.location).where(sources.c.table_id == table_id)).first()
            if taken is not None:
                raise Conflict(
                    f"the table already has a source: {taken.location}", hint="Choose another name for the table."
                )
            connection.execute(
                insert(sources).values(
                    table_id=table_id,
                    kind=kind,
                    location=location,
                    options=json.dumps(options, sort_keys=True),
                    stamps=stamps,
                    every_us=every_us,
                    added_at=at,
                    open_rows=open_rows,
                )
            )

    def all(self) -> tuple[SourceRecord, ...]:
        """Return all sources in the order in which their tables were created."""
        return self._database.read(_read)

    def page(self, after: str | None, limit: int) -> tuple[SourceRecord, ...]:
        """Return at most ``limit`` sources, ordered by name, whose names come after ``after``."""
        rows = self._database.rows(by_name(_sources(), ddl.tables.c.folded, after=after, limit=limit))
        return tuple(map(_record, rows))

    def of_tables(self, table_ids: Collection[int]) -> dict[int, SourceRecord]:
        """Return the sources of the tables with these IDs, by ID."""
        rows = self._database.rows(_sources().where(is_one_of(ddl.sources.c.table_id, table_ids)))
        return {row.table_id: _record(row) for row in rows}

    def named(self, name: str) -> SourceRecord:
        """Return the source of the table with this case-insensitive name.  Raise NotFound for an unknown name."""
        row = self._database.first(_sources().where(ddl.tables.c.folded == folded(name)))
        if row is None:
            raise not_found("source", name, (source.name for source in self.all()))
        return _record(row)

    def remove(self, table_id: int) -> None:
        """Delete the source of a table, but keep the table."""
        with self._database.changing_under_lease() as connection:
            connection.execute(delete(ddl.sources).where(ddl.sources.c.table_id == table_id))

    def intend(self, intents: Sequence[tuple[int, int, Mapping[str, Any]]]) -> None:
        """In one transaction, record the states (table_id, reservation_id, seen) that ``settle`` will store."""
        sources = ddl.sources
        with self._database.changing_under_lease() as connection:
            for table_id, reservation_id, seen in intents:
                values = {"reservation_id": reservation_id, "next_seen": json.dumps(seen, sort_keys=True)}
                connection.execute(update(sources).where(sources.c.table_id == table_id).values(**values))

    def intended(self, reservation_id: int) -> bool:
        """Return whether ``intend`` recorded an intent for the reservation."""
        sources = ddl.sources
        wanted = select(sources.c.table_id).where(sources.c.reservation_id == reservation_id)
        return self._database.first(wanted) is not None

    def unsettled(self) -> bool:
        """Return whether a poll is running or was interrupted.  The caller must then call ``settle``."""
        sources = ddl.sources
        wanted = select(sources.c.table_id).where(sources.c.reservation_id.is_not(None))
        return self._database.first(wanted) is not None

    def settle(self, table_id: int) -> None:
        """Store the intended state of a source if the reservation of the poll is committed.

        If the reservation is abandoned, the next poll reads the source again.  The reservation must not be open.
        """
        sources, reservations = ddl.sources, ddl.reservations
        with self._database.changing_under_lease() as connection:
            wanted = select(sources.c.reservation_id, sources.c.next_seen).where(sources.c.table_id == table_id)
            row = connection.execute(wanted).one()
            if row.reservation_id is None:
                return
            reservation = connection.execute(
                select(reservations.c.state, reservations.c.last_ts).where(
                    reservations.c.reservation_id == row.reservation_id
                )
            ).one()
            values: dict[str, Any] = {"reservation_id": None, "next_seen": None}
            if reservation.state == "committed":
                values |= {"seen": row.next_seen, "changed_at": reservation.last_ts}
            connection.execute(update(sources).where(sources.c.table_id == table_id).values(**values))

    def polled(self, table_id: int, at: int, open_rows: int, seen: Mapping[str, Any]) -> None:
        """Record the end of a successful poll."""
        stored = json.dumps(seen, sort_keys=True)
        self._change(table_id, polled_at=at, trouble=None, open_rows=open_rows, seen=stored)

    def troubled(self, table_id: int, at: int, trouble: str) -> None:
        """Record a failed poll and its reason."""
        self._change(table_id, polled_at=at, trouble=trouble)

    def _change(self, table_id: int, **values: Any) -> None:
        with self._database.changing() as connection:
            connection.execute(update(ddl.sources).where(ddl.sources.c.table_id == table_id).values(**values))


def _read(connection: Connection) -> tuple[SourceRecord, ...]:
    return tuple(_record(row) for row in connection.execute(_sources().order_by(ddl.sources.c.table_id)))


def _sources() -> Select[Any]:
    joined = ddl.sources.join(ddl.tables, ddl.sources.c.table_id == ddl.tables.c.table_id)
    return select(ddl.sources, ddl.tables.c.name).select_from(joined)


def _record(row: Row[Any]) -> SourceRecord:
    return record_of(SourceRecord, row, options=json.loads(row.options), seen=json.loads(row.seen or "{}"))


def renamed_columns(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the renamed columns of a source as tuples (name in the source, name in the table)."""
    return tuple((old, new) for old, new in options.get("rename", ()))


def chosen_columns(options: Mapping[str, Any]) -> Sequence[tuple[str, DataType | None]] | None:
    """Return the chosen columns of a source with their declared types.  Return None if all columns are chosen."""
    chosen = options.get("columns")
    if chosen is None:
        return None
    return [(name, None if kind is None else DataType.of_column(kind)) for name, kind in chosen]
