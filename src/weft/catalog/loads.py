"""Loads, and the index of what they could not read."""

from __future__ import annotations

from sqlalchemy import func, insert, select, update

from weft.catalog import schema
from weft.catalog.database import Database, inserted_id
from weft.catalog.records import LoadRecord, QuarantineRecord, QuarantineState
from weft.errors import CatalogError, NotFound


class Loads:
    """Which sources were loaded when."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, table_id: int, source: str, kind: str, digest: str | None, at: int) -> int:
        """Notes that a load began; its id.  ``digest`` is the source's own (None where it has none)."""
        with self._database.changing() as connection:
            return inserted_id(
                connection,
                insert(schema.loads).values(
                    table_id=table_id,
                    source=source,
                    kind=kind,
                    digest=digest,
                    started_at=at,
                    stored=0,
                    known=0,
                    quarantined=0,
                    late=0,
                ),
            )

    def finish(
        self,
        load_id: int,
        stored: int,
        known: int,
        quarantined: int,
        late: int,
        at: int,
    ) -> None:
        """Notes that a load came to its end, and its counts of rows."""
        with self._database.changing() as connection:
            changed = connection.execute(
                update(schema.loads)
                .where(schema.loads.c.load_id == load_id)
                .values(stored=stored, known=known, quarantined=quarantined, late=late, finished_at=at)
            )
            if changed.rowcount == 0:
                raise CatalogError(f"there is no load {load_id}")

    def loaded(self, table_id: int, digest: str) -> bool:
        """Whether a source of that digest was loaded into the table to its end."""
        loads = schema.loads.c
        with self._database.reading() as connection:
            found = connection.execute(
                select(loads.load_id)
                .where(loads.table_id == table_id, loads.digest == digest, loads.finished_at.is_not(None))
                .limit(1)
            ).first()
            return found is not None

    def of_source(self, table_id: int, digest: str) -> tuple[LoadRecord, ...]:
        """The loads of a source of that digest into the table, finished or not, the newest first."""
        loads = schema.loads
        wanted = select(loads).where(loads.c.table_id == table_id, loads.c.digest == digest)
        with self._database.reading() as connection:
            return tuple(
                LoadRecord(**row._mapping) for row in connection.execute(wanted.order_by(loads.c.load_id.desc()))
            )

    def stored_by(self, load_id: int) -> int:
        """How many rows the load has committed so far: where one that died goes on."""
        kept = schema.reservations.c
        with self._database.reading() as connection:
            total = connection.execute(
                select(func.coalesce(func.sum(kept.rows), 0)).where(kept.load_id == load_id, kept.state == "committed")
            ).scalar_one()
            return int(total)

    def latest(self, limit: int = 20) -> tuple[LoadRecord, ...]:
        """The latest loads, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(select(schema.loads).order_by(schema.loads.c.load_id.desc()).limit(limit))
            return tuple(LoadRecord(**row._mapping) for row in rows)


class Quarantine:
    """The index of what could not be read; the bytes lie in the home's quarantine folder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        load_id: int,
        table_id: int,
        source: str,
        position: str,
        reason: str,
        sha256: str,
        size: int,
        options_json: str,
        at: int,
    ) -> int | None:
        """Indexes a record that could not be read; its id, or None where the same one is there already.

        The same one: the same bytes at the same position of the same source for the same table.
        """
        known = schema.quarantine.c
        identity = {"table_id": table_id, "source": source, "position": position, "sha256": sha256}
        with self._database.changing() as connection:
            same = select(known.quarantine_id).where(*(known[name] == value for name, value in identity.items()))
            if connection.execute(same).first() is not None:
                return None
            return inserted_id(
                connection,
                insert(schema.quarantine).values(
                    **identity,
                    load_id=load_id,
                    reason=reason,
                    size=size,
                    options=options_json,
                    at=at,
                    state="open",
                ),
            )

    def all(self, state: QuarantineState | None = "open") -> tuple[QuarantineRecord, ...]:
        """The records in quarantine, the oldest first; those of every state where ``state`` is None."""
        wanted = select(schema.quarantine).order_by(schema.quarantine.c.quarantine_id)
        if state is not None:
            wanted = wanted.where(schema.quarantine.c.state == state)
        with self._database.reading() as connection:
            return tuple(QuarantineRecord(**row._mapping) for row in connection.execute(wanted))

    def settle(self, quarantine_id: int, state: QuarantineState, *, reason: str | None = None) -> None:
        """Says what became of a record in quarantine (``open`` again with a new reason, too); raises NotFound."""
        values = {"state": state} if reason is None else {"state": state, "reason": reason}
        with self._database.changing() as connection:
            changed = connection.execute(
                update(schema.quarantine).where(schema.quarantine.c.quarantine_id == quarantine_id).values(**values)
            )
            if changed.rowcount == 0:
                raise NotFound(f"there is no record {quarantine_id} in quarantine")
