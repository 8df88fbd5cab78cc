"""Read a PostgreSQL replication slot by SQL functions: the committed transactions, and the LSN up to which they are
recorded.

*Peek, record, then advance*: messages stay in the slot until the catalog has recorded them, so a poll that died can be
repeated. Transactions that are already recorded are skipped by the LSN in the source's ``seen``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.errors import Refused
from weft.storage.local_sql import quoted

if TYPE_CHECKING:
    import psycopg

AGAIN: Final = (
    "Run `weft source remove {name}`, then `weft source add` with the same name: the history continues with the "
    "current rows."
)
_AT_ONCE: Final = 10_000
_PATIENCE: Final = "60s"
_OPTIONS: Final = "'proto_version', '1', 'publication_names', %s"


def require_logical(connection: psycopg.Connection[Any], uri: str) -> None:
    """Raise Refused for a server whose wal_level does not support logical decoding."""
    (level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
    if level != "logical":
        raise Refused(
            f"the server's wal_level is {level}, but logical decoding requires logical",
            where=uri,
            hint="Run ALTER SYSTEM SET wal_level = logical, then restart the server.",
        )


def check_slot(connection: psycopg.Connection[Any], slot: str, name: str, uri: str) -> int:
    """Return the confirmed LSN of the slot, in bytes; ``name`` is the name of the source.

    Raise Refused for a slot that is missing, belongs to another plugin or database, or has lost WAL.
    """
    row = connection.execute(
        "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn - '0/0'::pg_lsn "
        "FROM pg_replication_slots WHERE slot_name = %s",
        [slot],
    ).fetchone()
    if row is None:
        raise Refused(f"the replication slot {slot!r} does not exist", where=uri, hint=AGAIN.format(name=name))
    plugin, here, status, confirmed = row
    if plugin != "pgoutput" or not here:
        raise Refused(
            f"the replication slot {slot!r} belongs to {plugin or 'physical replication'}"
            + ("" if here else " in another database"),
            where=uri,
            hint="Name a pgoutput slot of this database with --slot, or leave --slot out: Weft then creates a slot.",
        )
    if status == "lost":
        raise Refused(
            f"the server has deleted WAL that the slot {slot!r} still needed",
            where=uri,
            hint=f"Increase max_slot_wal_keep_size and drop the slot. {AGAIN.format(name=name)}",
        )
    return int(confirmed)


def check_place(connection: psycopg.Connection[Any], name: str, seen: int, confirmed: int, uri: str) -> None:
    """Raise Refused if the slot has advanced beyond what was recorded, or the server's WAL ends before it."""
    if confirmed > seen:
        raise Refused(
            f"another reader has advanced the slot of {name}, so changes are missing",
            where=uri,
            hint=AGAIN.format(name=name),
        )
    if seen > log_place(connection, "pg_current_wal_insert_lsn"):
        raise Refused(
            f"the server's WAL ends before the last recorded change of {name}: it is another server, or an older copy",
            where=uri,
            hint=AGAIN.format(name=name),
        )


def log_place(connection: psycopg.Connection[Any], function: str) -> int:
    """Return the LSN that an SQL function without arguments returns, in bytes."""
    row = connection.execute(f"SELECT {function}() - '0/0'::pg_lsn".encode()).fetchone()
    return 0 if row is None else int(row[0])


def peek(connection: psycopg.Connection[Any], slot: str, publications: Sequence[str], upto: int) -> Iterator[bytes]:
    """Yield the pgoutput messages of transactions committed up to an LSN, without consuming them."""
    with connection.transaction(), connection.cursor(name="weft_feed") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, '0/0'::pg_lsn + %s::numeric, NULL, "
            f"{_OPTIONS})".encode(),
            [slot, upto, ",".join(map(quoted, publications))],
        )
        for (data,) in cursor:
            yield bytes(data)


def advance(connection: psycopg.Connection[Any], slot: str, place: int) -> None:
    """Advance the slot to an LSN, so that the server can discard older WAL."""
    connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)", [slot, place])


def make_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Create the slot unless it exists. Waits for running transactions."""
    if connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is None:
        connection.execute(f"SET statement_timeout = '{_PATIENCE}'".encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        connection.execute("SET statement_timeout = 0")


def drop_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Drop the slot if it exists."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
    )
