"""Create and drop the replication slot and the publication of a source on a PostgreSQL server."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.catalog.sources import SourceRecord
from weft.errors import Refused, WeftError
from weft.extraction.files.columns import chosen_of
from weft.extraction.sources.databases import Columns
from weft.extraction.sources.postgres import check_uri, connected, identified, replicated_columns
from weft.extraction.sources.publication import check_publication, publish, require_identity, unpublish
from weft.extraction.sources.slot import check_slot, drop_slot, make_slot, require_logical
from weft.extraction.sources.snapshot import Chosen

if TYPE_CHECKING:
    import psycopg

SLOT: Final = "slot"
PUBLICATION: Final = "publication"
MADE: Final = "made"


def slot_options(home_id: str, uri: str, slot: str | None, publication: str | None) -> Mapping[str, Any]:
    """Return the slot and publication options of a source on a server; the home's own names by default.

    ``owned`` lists those that belong to the home; they are dropped with the last source that uses them.
    """
    home = "".join(each for each in home_id.lower() if each.isalnum())[:12]
    own = f"weft_{home}_{zlib.crc32(uri.encode()):08x}"  # slot names are unique per server, not per database
    owned = [what for what, named in ((SLOT, slot), (PUBLICATION, publication)) if named is None]
    return {SLOT: slot or own, PUBLICATION: publication or own, MADE: owned}


def columns_of_server(uri: str, table: str | None, chosen: Chosen) -> Columns:
    """Return the columns of a table for logical replication. Raises NotFound, ExtractionError and Refused."""
    if table is None:
        raise Refused("a database has several tables", hint="Name one with --table, such as public.staff.")
    with connected(check_uri(uri)) as connection:
        require_logical(connection, uri)
        _, _, columns = replicated_columns(connection, table, uri)
    return columns if chosen is None else tuple(chosen_of(columns, chosen, uri))


def subscribe(uri: str, table: str, keys: Sequence[str], options: Mapping[str, Any], name: str) -> None:
    """Make the server retain the table's changes for this home from now on; ``name`` is the source's.

    Raises Refused for a table without the necessary replica identity, ExtractionError if the server forbids it.
    """
    with connected(uri) as connection:
        oid, _, _ = replicated_columns(connection, table, uri)
        require_identity(connection, oid, keys, table)
        if PUBLICATION in options[MADE]:
            _publish(connection, options[PUBLICATION], table, oid, uri)
        check_publication(connection, options[PUBLICATION], oid)
        # The publication must exist at the LSN where the slot starts, so create the slot last.
        if SLOT in options[MADE]:
            make_slot(connection, options[SLOT])
        check_slot(connection, options[SLOT], name, uri)


def _publish(connection: psycopg.Connection[Any], publication: str, table: str, oid: int, uri: str) -> None:
    """Add the table to the home's own publication. Raise Refused if the user lacks the privilege."""
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
    """Drop the slot and the publication of a source as far as the ``others``, which use the same slot, do not need
    them.

    Return a message about what could not be dropped and what to do; None on success.
    """
    uri, options = source.location, source.options
    try:
        with connected(uri) as connection:
            if PUBLICATION in options[MADE]:
                unpublish(connection, options[PUBLICATION], identified(options["table"]) if others else None)
            if SLOT in options[MADE] and not others:
                drop_slot(connection, options[SLOT])
    except WeftError as error:
        advice = "" if others else f" Then run there: SELECT pg_drop_replication_slot('{options[SLOT]}')."
        return f"the server could not be updated ({error.message}) and may retain WAL for the source.{advice}"
    return None


def give_up(uri: str, options: Mapping[str, Any]) -> None:
    """Drop what ``subscribe`` created for a source that could not be added and that no other source uses."""
    with suppress(WeftError), connected(uri) as connection:
        if SLOT in options[MADE]:
            drop_slot(connection, options[SLOT])
        if PUBLICATION in options[MADE]:
            unpublish(connection, options[PUBLICATION], None)
