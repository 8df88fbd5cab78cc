"""A replication slot of PostgreSQL, read by SQL functions: what has been committed, and how far that was recorded.

*Peek, record, and only then advance*: what was read stays in the slot until the catalog says that it is recorded, so a
poll that died is made again; what was recorded is left out by the place in the log that the source has ``seen``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.errors import Refused
from weft.storage.local_sql import quoted

if TYPE_CHECKING:
    import psycopg

AGAIN: Final = (
    "`weft source remove {name}` and `weft source add` it again under the same name: its history goes on with what "
    "the table holds then."
)
_AT_ONCE: Final = 10_000
_PATIENCE: Final = "60s"
_OPTIONS: Final = "'proto_version', '1', 'publication_names', %s"


def require_logical(connection: psycopg.Connection[Any], uri: str) -> None:
    """Raises Refused for a server that does not write down what logical decoding needs."""
    (level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
    if level != "logical":
        raise Refused(
            f"the server's wal_level is {level}, and changes are told where it is logical",
            where=uri,
            hint="Set it: ALTER SYSTEM SET wal_level = logical; then restart the server.",
        )


def check_slot(connection: psycopg.Connection[Any], slot: str, name: str, uri: str) -> int:
    """The place in the log up to which the slot was advanced; ``name`` is the source's.

    Raises Refused for one that is missing, is another plugin's or database's, or has lost a part of the log.
    """
    row = connection.execute(
        "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn - '0/0'::pg_lsn "
        "FROM pg_replication_slots WHERE slot_name = %s",
        [slot],
    ).fetchone()
    if row is None:
        raise Refused(f"there is no replication slot {slot!r} any more", where=uri, hint=AGAIN.format(name=name))
    plugin, here, status, confirmed = row
    if plugin != "pgoutput" or not here:
        raise Refused(
            f"the replication slot {slot!r} is one of {plugin or 'physical replication'}"
            + ("" if here else ", of another database"),
            where=uri,
            hint="Name another with --slot: one of pgoutput in this database, or one that is to be made.",
        )
    if status == "lost":
        raise Refused(
            f"the server has deleted a part of its log that the slot {slot!r} had not told yet",
            where=uri,
            hint=f"Set max_slot_wal_keep_size higher, drop the slot, and then: {AGAIN.format(name=name)}",
        )
    return int(confirmed)


def check_place(connection: psycopg.Connection[Any], name: str, seen: int, confirmed: int, uri: str) -> None:
    """Raises Refused where the slot has gone beyond what was seen, or the server is behind it."""
    if confirmed > seen:
        raise Refused(
            f"the slot of {name} was advanced by another reader: changes are missing between what was recorded and it",
            where=uri,
            hint=AGAIN.format(name=name),
        )
    if seen > log_place(connection, "pg_current_wal_insert_lsn"):
        raise Refused(
            f"the server's log ends before what was recorded of {name}: it is another server, or an older copy",
            where=uri,
            hint=AGAIN.format(name=name),
        )


def log_place(connection: psycopg.Connection[Any], function: str) -> int:
    """The place in the log that a function without arguments tells, in bytes."""
    row = connection.execute(f"SELECT {function}() - '0/0'::pg_lsn".encode()).fetchone()
    return 0 if row is None else int(row[0])


def peek(connection: psycopg.Connection[Any], slot: str, publications: Sequence[str], upto: int) -> Iterator[bytes]:
    """The messages of pgoutput about what was committed up to a place in the log, which stay in the slot."""
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
    """Has the server forget what comes before a place in the log."""
    connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)", [slot, place])


def make_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Makes the slot where there is none; it waits for the transactions that are under way."""
    if connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is None:
        connection.execute(f"SET statement_timeout = '{_PATIENCE}'".encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        connection.execute("SET statement_timeout = 0")


def drop_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Drops the slot where there is one."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
    )
