"""What the principal of an open home means for the arguments of an operation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog.records import QueryDefinition, QueryRecord
from weft.catalog.seen import Seen, not_allowed
from weft.errors import NotAllowed, NotFound, Refused
from weft.execution.home import OpenHome
from weft.printable import counted
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.execution.spark_runner import Limits
    from weft.extraction.files.given_files import Given


def acting_user(home: OpenHome, given: str | None) -> str | None:
    """Return the user for whom an operation works: ``given``, or else the principal if she is a user.

    Raise NotAllowed if a user other than an administrator gives another name than her own.
    """
    own = home.principal.name
    if given is not None and given != own and not home.seen().rights.may(Right.ADMIN):
        raise NotAllowed(f"{own} cannot work as {given}", hint="Omit the user, or ask an administrator.")
    return given or own


def preferred_digest(home: OpenHome, given: str | None) -> str | None:
    """Return the digest of new channels: ``given``, or else the one that the principal sets for herself."""
    user_id = home.principal.user_id
    return given if given is not None or user_id is None else home.catalog.users.by_id(user_id).digest


def own_limits(home: OpenHome) -> Limits:
    """Return the limits of a query that the principal of the home tries: her own, within those of the settings."""
    from weft.execution.spark_runner import limits

    allowed, user_id = limits(home.catalog), home.principal.user_id
    own = None if user_id is None else home.catalog.users.by_id(user_id).limits.seconds
    return allowed if own is None else replace(allowed, seconds=min(allowed.seconds, own))


def require_owner_rights(
    home: OpenHome, queries: Iterable[QueryDefinition | QueryRecord], channels: Iterable[str] = ()
) -> None:
    """Raise NotAllowed if the owner of a query lacks a right that the query, or one of its channels, needs.

    Call this under the write lease, so that the next tick sees a later loss of the right.
    """
    if not home.catalog.users.exist():
        return
    kinds, checked = frozenset(channel.partition(":")[0] for channel in channels), set[tuple[object, ...]]()
    for each in queries:
        own = kinds
        if isinstance(each, QueryDefinition):
            own |= {channel.partition(":")[0] for channel in each.channels}
        needed = (each.user, each.needs, each.reads, own, each.saved_id)
        if needed not in checked:
            trouble = home.catalog.rechecks.trouble(*needed)
            if trouble is not None:
                raise NotAllowed(f"{each.name} cannot run: {trouble}", hint="Ask an administrator for the right.")
            checked.add(needed)


def require_room(home: OpenHome, owners: Iterable[str]) -> None:
    """Raise Refused if new queries with these owners exceed the number of queries that a user may have."""
    numbers: dict[str, int] = {}
    for owner in owners:
        numbers[owner] = numbers.get(owner, 0) + 1
    most = home.catalog.users.most_queries()
    for owner in numbers.keys() & most.keys():
        there = home.catalog.queries.count_of(owner)
        if there + numbers[owner] > most[owner]:
            raise Refused(
                f"{owner} has {counted(there, 'query', 'queries')} of at most {most[owner]:,}",
                hint="Remove a query, or ask an administrator for a higher limit.",
            )


def require_upload(seen: Seen, paths: Given | Sequence[Given], table: str, *, evolve: bool) -> None:
    """Raise NotAllowed unless the files are streams of bytes, and the table exists and keeps its columns."""
    given = paths if isinstance(paths, list | tuple) else [paths]
    seen.table(table, Right.LOAD)
    if evolve or any(not hasattr(each, "read") for each in given):
        raise not_allowed(seen.rights, Right.ADMIN)


def quarantine_ids(seen: Seen, ids: Collection[int] | None) -> Collection[int]:
    """Return the records in quarantine that the principal may retry: ``ids``, or all by default.

    Raise NotFound for a record of a table that she may not load.
    """
    open_records = seen.catalog.quarantine.all()
    own = {each.quarantine_id for each in open_records if seen.has_table(each.table_id, Right.LOAD)}
    missing = sorted(set(ids or ()) - own)
    if missing:
        raise no_record(missing[0])
    return own if ids is None else ids


def no_record(quarantine_id: int) -> NotFound:
    """Return the error for a record that is not in quarantine, or that the principal may not see."""
    return NotFound(
        f"the quarantine has no open record {quarantine_id}", hint="List the open records with `weft quarantine list`."
    )
