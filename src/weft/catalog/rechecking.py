"""Check whether the owners of installed queries still have the rights that their queries need.

The catalog counts the changes of rights.  A tick whose last check was after the last change checks nothing.  A check is
one pass over the owners and the sets of objects that their queries read, not over the queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    func,
    not_,
    or_,
    select,
    true,
    update,
)

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.home_record import set_home
from weft.catalog.query_conditions import parts
from weft.catalog.sharing import OWN, leave
from weft.rights.policy import ADMIN_CHANNELS, Grant, Rights, Thing
from weft.rights.principal import Principal, Right

Named = Mapping[tuple[str, int], tuple[str, Thing]]
"""The name of each table (``table``, ID) and each query (``query``, ID), with the object of rights."""


class Rechecks:
    """The checks of the rights that installed queries need."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self) -> bool:
        """Return whether rights have changed since the last check."""
        return self._database.read(_is_due)

    def paused(self) -> int:
        """Return the number of queries that are paused because their owner has lost a right."""
        queries = ddl.queries.c
        wanted = select(func.count()).where(queries.state == "paused", queries.reason.is_not(None), OWN)
        return int(self._database.value(wanted))

    def run(self) -> None:
        """If rights have changed, pause each query whose owner has lost a right that it needs, with the reason.

        The queries over the results of a paused query follow, unless an administrator owns them.  Only the check under
        the write lease counts as the last one, because no query is installed meanwhile.
        """
        if not self.due():
            return
        with self._database.changing_under_lease(None) as connection:
            while _pause(connection):
                pass
            if self._database.is_writer:
                set_home(connection, rights_checked=ddl.home.c.rights_version)

    def trouble(
        self,
        owner: str,
        needs: Iterable[int],
        reads: Iterable[int],
        kinds: Iterable[str] = (),
        saved_id: int | None = None,
    ) -> str | None:
        """Return why a query of this owner may not run, or None if it may.

        ``needs`` are the IDs of the tables that it reads, and ``reads`` those of the queries.  ``kinds`` are the kinds
        of its channels.  ``saved_id`` is the ID of the saved query that was filled in.
        """
        with self._database.reading() as connection:
            rights = _owners(connection, owner).get(owner)
            if rights is None:
                return None
            wanted = [*(("table", key) for key in needs), *(("query", key) for key in reads)]
            named = _named(connection, reads)
            return _of_role(rights, saved_id) or _of_things(rights, named, wanted) or _of_channels(rights, kinds)


def _pause(connection: Connection) -> int:
    """Pause the queries that may not run, and return their number.  Those that were paused before are left out."""
    queries, paused = ddl.queries.c, 0
    for these, reason in _to_pause(connection):
        runs = or_(queries.state.in_(("active", "failed")), and_(queries.state == "paused", queries.reason.is_(None)))
        runs = and_(ddl.LIVE, runs)
        leave(connection, and_(these, runs))
        changed = update(ddl.queries).where(these, runs).values(state="paused", reason=reason)
        paused += connection.execute(changed).rowcount
    return paused


def _is_due(connection: Connection) -> bool:
    home = ddl.home.c
    return bool(connection.execute(select(home.rights_version > home.rights_checked)).scalar_one())


def _to_pause(connection: Connection) -> Iterator[tuple[ColumnElement[bool], str]]:
    """Yield a condition that selects queries, and the reason why they may not run."""
    queries = ddl.queries.c
    owners = {name: rights for name, rights in _owners(connection).items() if rights.role != "admin"}
    lost = {name: reason for name, rights in owners.items() if (reason := _of_role(rights)) is not None}
    for owner, reason in lost.items():
        yield and_(queries.user == owner, _not_of_forms(owners[owner])), reason
    remaining = {name: rights for name, rights in owners.items() if rights.role is not None}
    wanted = select(queries.user, queries.needs, queries.reads).where(queries.state != "removed").distinct()
    sets = [row for row in connection.execute(wanted).all() if row.user in remaining]
    named = _named(connection, {key for row in sets for key in json.loads(row.reads)})
    for user, needs, reads in sets:
        these = [*(("table", key) for key in json.loads(needs)), *(("query", key) for key in json.loads(reads))]
        missing = _of_things(remaining[user], named, these)
        if missing is not None:
            yield and_(queries.user == user, queries.needs == needs, queries.reads == reads), missing
    by_kinds: dict[frozenset[str], list[str]] = {}
    for owner, rights in remaining.items():
        kinds = frozenset(key for right, _, key in rights.grants if right is Right.CHANNEL)
        by_kinds.setdefault(kinds - ADMIN_CHANNELS, []).append(owner)
    for kinds, some in by_kinds.items():
        listed: BindParameter[Any] = bindparam("owners", some, expanding=True, literal_execute=True)
        with_others = queries.query_id.in_(_with_other_channels(kinds))
        yield and_(queries.user.in_(listed), with_others), "its owner may not use one of its channels"


def _not_of_forms(rights: Rights) -> ColumnElement[bool]:
    """Select the queries of somebody who installs none, except for those of the forms that she may fill in."""
    if rights.role is None:
        return true()
    saved, granted = ddl.queries.c.saved_id, sorted(rights.ids(Right.READ, "saved"))
    return or_(saved.is_(None), saved.not_in(granted))


def _with_other_channels(kinds: Iterable[str]) -> Select[tuple[int]]:
    """Select the queries that have a channel of another kind."""
    subscribed = ddl.subscriptions.c
    others = [not_(subscribed.channel.startswith(f"{kind}:", autoescape=True)) for kind in sorted(kinds)]
    return select(subscribed.query_id).where(subscribed.state != "ended", *others)


def _owners(connection: Connection, name: str | None = None) -> dict[str, Rights]:
    """Return the rights of all users, also of removed ones, or of the user with this name."""
    users, members, grants = ddl.users.c, ddl.members.c, ddl.grants.c
    wanted = select(users.user_id, users.name, users.role, users.state)
    rows = connection.execute(wanted if name is None else wanted.where(users.name == name)).all()
    if not rows:
        return {}
    by_subject: dict[tuple[str, int], set[Grant]] = {}
    columns = (grants.right, grants.thing_kind, grants.thing_key, grants.subject_kind, grants.subject_id)
    for right, thing, thing_key, kind, key in connection.execute(select(*columns)):
        by_subject.setdefault((kind, key), set()).add((Right(right), thing, thing_key))
    groups: dict[int, list[int]] = {}
    for group_id, user_id in connection.execute(select(members.group_id, members.user_id)):
        groups.setdefault(user_id, []).append(group_id)
    owners = {}
    for user_id, user, role, state in rows:
        subjects = [("user", user_id), ("everyone", 0), *(("group", each) for each in groups.get(user_id, ()))]
        own = frozenset().union(*(by_subject.get(each, frozenset()) for each in subjects))
        owners[user] = Rights(Principal(user, user_id), role if state == "active" else None, own)
    return owners


def _named(connection: Connection, reads: Iterable[int]) -> Named:
    tables, queries = ddl.tables.c, ddl.queries.c
    named = {
        ("table", key): (name, Thing("table", str(key)))
        for key, name in connection.execute(select(tables.table_id, tables.name))
    }
    for some in parts(sorted(set(reads))):
        wanted = select(queries.query_id, queries.name, queries.user, queries.state, queries.reason)
        for key, name, owner, state, reason in connection.execute(wanted.where(queries.query_id.in_(some))):
            barred = state == "paused" and reason is not None
            named["query", key] = f"results.{name}", Thing("query", str(key), owner=owner, barred=barred)
    return named


def _of_role(rights: Rights, saved_id: int | None = None) -> str | None:
    """A reader has only queries of the forms that she may fill in."""
    name = rights.principal.name
    if rights.role is None:
        return f"its owner {name} was removed"
    if rights.role != "reader" or saved_id in rights.ids(Right.READ, "saved"):
        return None
    return f"its owner {name} is a reader, and readers install no queries"


def _of_things(rights: Rights, named: Named, wanted: Iterable[tuple[str, int]]) -> str | None:
    for key in wanted:
        name, thing = named.get(key, ("", None))
        if thing is not None and thing.barred and rights.role != "admin":
            return f"it reads {name}, whose owner has lost a right"
        if thing is not None and not rights.may(Right.READ, thing):
            return f"its owner {rights.principal.name} may not read {name}"
    return None


def _of_channels(rights: Rights, kinds: Iterable[str]) -> str | None:
    for kind in sorted(kinds):
        if not rights.may(Right.CHANNEL, Thing("channel", kind)):
            return f"its owner {rights.principal.name} may not use channels of the kind {kind}"
    return None
