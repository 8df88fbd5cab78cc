"""Manage the publication of a PostgreSQL table, and check its replica identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.errors import NotFound, Refused

if TYPE_CHECKING:
    import psycopg

_PATIENCE: Final = "60s"


def publish(connection: psycopg.Connection[Any], publication: str, table: Any, oid: int) -> None:
    """Add the table to the publication, and create the publication if necessary.

    The lock waits for running writes, whose changes would otherwise not be published.
    """
    from psycopg import sql

    named = sql.Identifier(publication)
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}'".encode())
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))
        if connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [publication]).fetchone() is None:
            connection.execute(sql.SQL("CREATE PUBLICATION {} WITH (publish_via_partition_root)").format(named))
        if _published(connection, publication, oid) is None:
            connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(named, table))


def check_publication(connection: psycopg.Connection[Any], publication: str, oid: int) -> None:
    """Raise NotFound if the publication does not exist, and Refused if it does not publish all changes of the table."""
    row = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s",
        [publication],
    ).fetchone()
    if row is None:
        raise NotFound(
            f"the publication {publication!r} does not exist",
            hint="Create the publication: CREATE PUBLICATION … FOR TABLE …",
        )
    if not row[0]:
        raise Refused(
            f"the publication {publication!r} does not publish all operations", hint="Name another publication."
        )
    published = _published(connection, publication, oid)
    if not published:
        raise Refused(
            f"the table is not in the publication {publication!r}",
            hint=(
                f"Add the table: ALTER PUBLICATION {publication} ADD TABLE … The source then lacks all changes "
                "made before that statement."
            ),
        )
    if published[0]:
        raise Refused(
            f"the publication {publication!r} has only some rows or columns of the table",
            hint="Name another publication.",
        )


def _published(connection: psycopg.Connection[Any], publication: str, oid: int) -> tuple[bool] | None:
    """Return ``(True,)`` if the publication contains a part of the table, ``(False,)`` if it contains the whole table.

    Return None if the publication does not contain the table.
    """
    partial = "p.rowfilter IS NOT NULL OR r.prattrs IS NOT NULL"
    row = connection.execute(
        f"SELECT {partial} FROM pg_publication_tables p JOIN pg_class c ON c.relname = p.tablename "
        "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = p.schemaname "
        "LEFT JOIN pg_publication_rel r ON r.prrelid = c.oid "
        "AND r.prpubid = (SELECT oid FROM pg_publication WHERE pubname = %s) "
        "WHERE p.pubname = %s AND c.oid = %s".encode(),
        [publication, publication, oid],
    ).fetchone()
    return None if row is None else (bool(row[0]),)


def unpublish(connection: psycopg.Connection[Any], publication: str, table: Any | None) -> None:
    """Remove the table from the publication. If ``table`` is None, drop the publication."""
    from psycopg import errors, sql

    named = sql.Identifier(publication)
    if table is None:
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(named))
        return
    try:
        connection.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(named, table))
    except (errors.UndefinedTable, errors.UndefinedObject):
        return


def identity(connection: psycopg.Connection[Any], oid: int) -> tuple[str, list[str]]:
    """Return the replica identity of a table: ``relreplident``, and the columns of its index or primary key.

    PostgreSQL sends the columns of the replica identity with each UPDATE and DELETE.
    """
    row = connection.execute("SELECT relreplident FROM pg_class WHERE oid = %s", [oid]).fetchone()
    kind = "n" if row is None else str(row[0])
    index = "i.indisprimary" if kind == "d" else "i.indisreplident"
    rows = connection.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        f"WHERE i.indrelid = %s AND {index}".encode(),
        [oid],
    ).fetchall()
    return kind, [name for (name,) in rows]


def require_identity(connection: psycopg.Connection[Any], oid: int, keys: Sequence[str], table: str) -> None:
    """Raise Refused if the replica identity of the table does not include the key columns."""
    kind, columns = identity(connection, oid)
    if kind == "f" or (columns and {key.lower() for key in keys} <= {name.lower() for name in columns}):
        return
    identity_columns = ", ".join(columns) or "empty"
    raise Refused(
        f"the replica identity of {table} is {identity_columns}, which lacks columns of the key {', '.join(keys)}",
        hint=f"Run ALTER TABLE {table} REPLICA IDENTITY FULL, or use the primary key as --key.",
    )
