"""Create, read and drop the replication slot and the publication of a source on a PostgreSQL server.

SQL functions read the committed transactions in the slot, up to the end of the WAL.

*Peek, record, then advance*: messages stay in the slot until the catalog has recorded them. An interrupted poll
can therefore be repeated. The LSN in the source's ``seen`` shows which transactions are already recorded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.catalog.sources import SourceRecord
from weft.errors import Refused, WeftError
from weft.extraction.files.columns import chosen_of
from weft.extraction.sources.postgres import check_uri, connected, identified, replicated_columns
from weft.extraction.sources.publication import check_publication, publish, require_identity, unpublish
from weft.extraction.sources.snapshot import Chosen, Columns
from weft.storage.local_sql import quoted

if TYPE_CHECKING:
    import psycopg

SLOT: Final = "slot"
PUBLICATION: Final = "publication"
MADE: Final = "made"


def slot_options(home_id: str, uri: str, slot: str | None, publication: str | None) -> Mapping[str, Any]:
    """Return the slot and publication options of a source. None stands for the home's own slot or publication.

    The option ``made`` lists the objects that the home creates. The home drops an object in ``made`` after its last
    use.
    """
    home = "".join(each for each in home_id.lower() if each.isalnum())[:12]
    own = f"weft_{home}_{zlib.crc32(uri.encode()):08x}"  # slot names are unique per server, not per database
    owned = [what for what, named in ((SLOT, slot), (PUBLICATION, publication)) if named is None]
    return {SLOT: slot or own, PUBLICATION: publication or own, MADE: owned}


def columns_of_server(uri: str, table: str | None, chosen: Chosen) -> Columns:
    """Return the published columns of a table.

    Raises NotFound if the table does not exist, ExtractionError if the server cannot be read, or Refused if the
    server or a column is unsuitable.
    """
    if table is None:
        raise Refused("--table is missing: a database can have several tables", hint="Write --table public.staff.")
    with connected(check_uri(uri)) as connection:
        require_logical(connection, uri)
        _, _, columns = replicated_columns(connection, table, uri)
    return columns if chosen is None else tuple(chosen_of(columns, chosen, uri))


def subscribe(uri: str, table: str, keys: Sequence[str], options: Mapping[str, Any], name: str) -> None:
    """Make the server retain future changes of the table for this home. ``name`` is the name of the source.

    Raises Refused for an unsuitable replica identity, and ExtractionError if the server forbids an operation.
    """
    with connected(uri) as connection:
        oid, _, _ = replicated_columns(connection, table, uri)
        require_identity(connection, oid, keys, table)
        if PUBLICATION in options[MADE]:
            _publish(connection, options[PUBLICATION], table, oid, uri)
        check_publication(connection, options[PUBLICATION], oid)
        # Create the slot last, because the publication must exist at the LSN where the slot starts.
        if SLOT in options[MADE]:
            make_slot(connection, options[SLOT])
        check_slot(connection, options[SLOT], name, uri)


def _publish(connection: psycopg.Connection[Any], publication: str, table: str, oid: int, uri: str) -> None:
    from psycopg import errors

    try:
        publish(connection, publication, identified(table), oid)
    except errors.InsufficientPrivilege as error:
        raise Refused(
            f"the changes of {table} cannot be published by this user: {error.diag.message_primary}",
            where=uri,
            hint=f"Connect as the owner of the table. Or let the owner run CREATE PUBLICATION p FOR TABLE {table}, and "
            "add the source with --publication p.",
        ) from None


def unsubscribe(source: SourceRecord, others: Sequence[SourceRecord]) -> str | None:
    """Remove the table of a source from the publication. If ``others`` is empty, drop the publication and the slot.

    ``others`` are the other sources that use the same slot. If a drop fails, return a message, otherwise None.
    """
    uri, options = source.location, source.options
    try:
        with connected(uri) as connection:
            if PUBLICATION in options[MADE]:
                unpublish(connection, options[PUBLICATION], identified(options["table"]) if others else None)
            if SLOT in options[MADE] and not others:
                drop_slot(connection, options[SLOT])
    except WeftError as error:
        advice = "" if others else f" Then run on the server: SELECT pg_drop_replication_slot('{options[SLOT]}')."
        return f"the server could not be updated ({error.message}) and may retain WAL for the source.{advice}"
    return None


def give_up(uri: str, options: Mapping[str, Any]) -> None:
    """Drop the slot and the publication that ``subscribe`` created, because the source could not be added."""
    with suppress(WeftError), connected(uri) as connection:
        if SLOT in options[MADE]:
            drop_slot(connection, options[SLOT])
        if PUBLICATION in options[MADE]:
            unpublish(connection, options[PUBLICATION], None)


AGAIN: Final = (
    "Run `weft source remove {name}`, then `weft source add` with the same name: the history continues with the "
    "current rows."
)
_AT_ONCE: Final = 10_000
_PATIENCE: Final = "60s"
_OPTIONS: Final = "'proto_version', '1', 'publication_names', %s"


def require_logical(connection: psycopg.Connection[Any], uri: str) -> None:
    """Raise Refused if the ``wal_level`` of the server does not support logical decoding."""
    (level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
    if level != "logical":
        raise Refused(
            f"the server's wal_level is {level}, but logical decoding requires logical",
            where=uri,
            hint="Run ALTER SYSTEM SET wal_level = logical, then restart the server.",
        )


def check_slot(connection: psycopg.Connection[Any], slot: str, name: str, uri: str) -> int:
    """Return the confirmed LSN of the slot, in bytes. ``name`` is the name of the source.

    Raise Refused for a slot that is missing, belongs to another plugin or database, or has lost WAL (write-ahead log).
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
            hint="Name a pgoutput slot of this database with --slot, or omit --slot: Weft then creates a slot.",
        )
    if status == "lost":
        raise Refused(
            f"the server has deleted WAL that the slot {slot!r} still needed",
            where=uri,
            hint=f"Increase max_slot_wal_keep_size and drop the slot. {AGAIN.format(name=name)}",
        )
    return int(confirmed)


def check_place(connection: psycopg.Connection[Any], name: str, seen: int, confirmed: int, uri: str) -> None:
    """Raise Refused if the slot has advanced beyond the LSN ``seen``, or if the server's WAL ends before that LSN."""
    if confirmed > seen:
        raise Refused(
            f"another reader has advanced the slot of {name}, so changes are missing",
            where=uri,
            hint=AGAIN.format(name=name),
        )
    if seen > log_place(connection, "pg_current_wal_insert_lsn"):
        raise Refused(
            f"the server's WAL ends before the last recorded change of {name}: the server is another one, or "
            "an older copy",
            where=uri,
            hint=AGAIN.format(name=name),
        )


def log_place(connection: psycopg.Connection[Any], function: str) -> int:
    """Return the LSN that the SQL function ``function`` returns, in bytes."""
    row = connection.execute(f"SELECT {function}() - '0/0'::pg_lsn".encode()).fetchone()
    return 0 if row is None else int(row[0])


def peek(connection: psycopg.Connection[Any], slot: str, publications: Sequence[str], upto: int) -> Iterator[bytes]:
    """Yield the pgoutput messages of the transactions committed up to the LSN ``upto``, without consuming them."""
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
    """Advance the slot to the LSN ``place``. The server can then discard older WAL."""
    connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)", [slot, place])


def make_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Create the slot unless it exists. PostgreSQL waits for running transactions before it creates a slot."""
    if connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is None:
        connection.execute(f"SET statement_timeout = '{_PATIENCE}'".encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        connection.execute("SET statement_timeout = 0")


def drop_slot(connection: psycopg.Connection[Any], slot: str) -> None:
    """Drop the slot if it exists."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
    )
