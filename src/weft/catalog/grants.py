"""Store who has which rights, and read the rights of a principal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, tuple_

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.query_conditions import parts, seen_parts
from weft.catalog.records import RESULTS, SAVED
from weft.catalog.users import EVERYONE, Subject, rights_changed, subject_named
from weft.errors import Conflict, NotFound, Refused
from weft.printable import Brief
from weft.rights.policy import Grant, Reach, Rights, Thing, ThingKind
from weft.rights.principal import Principal, Right, Role


@dataclass(frozen=True, repr=False)
class GrantRecord(Brief):
    """A right of a user or a group to an object.  ``about`` is the name of the object, as ``weft grant`` takes it.

    ``key`` determines the order of a list.
    """

    key: str
    subject: str
    right: Right
    kind: ThingKind
    about: str
    granted_by: str
    granted_at: int

    def _brief(self) -> str:
        return f"{self.subject} has {self.right.value} on {self.about}"


class Grants:
    """The rights that were granted.  Each change counts as a change of rights.

    The roles and grants of users are kept in memory until the number of changes in the catalog differs.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: tuple[int, dict[int, tuple[Role | None, frozenset[Grant]]]] = (-1, {})

    def grant(self, subject: str, right: Right, thing: Thing, by: str, at: int) -> None:
        """Grant a right to a user or a group.  Raise NotFound.  Raise Conflict if the subject has it already."""
        with self._database.changing() as connection:
            to = subject_named(connection, subject)
            if connection.execute(select(ddl.grants).where(_these(to, right, thing))).first() is not None:
                raise Conflict(f"{to.name} already has this right")
            values = {"subject_kind": to.kind, "subject_id": to.key, "right": right.value}
            values |= {"thing_kind": thing.kind, "thing_key": thing.key, "granted_by": by, "granted_at": at}
            connection.execute(insert(ddl.grants).values(**values))
            rights_changed(connection)

    def revoke(self, subject: str, right: Right, thing: Thing) -> None:
        """Revoke a right that was granted.  Raise NotFound."""
        with self._database.changing() as connection:
            of = subject_named(connection, subject)
            if connection.execute(delete(ddl.grants).where(_these(of, right, thing))).rowcount == 0:
                raise NotFound(
                    f"{of.name} was not granted this right",
                    hint="A right of a group is revoked from the group. See `weft grants`.",
                )
            rights_changed(connection)

    def all(
        self,
        subject: str | None = None,
        thing: Thing | None = None,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[GrantRecord, ...]:
        """Return the grants to a user or a group (default: all), or over one object.

        Return at most ``limit`` grants, which come after the one with the key ``after``.  Raise NotFound.  Raise
        Refused for another text as a key.
        """
        grants = ddl.grants.c
        wanted = select(ddl.grants).order_by(*_KEY).limit(limit)
        if after is not None:
            wanted = wanted.where(tuple_(*_KEY) > tuple_(*_place(after)))
        with self._database.reading() as connection:
            if subject is not None:
                one = subject_named(connection, subject)
                wanted = wanted.where(grants.subject_kind == one.kind, grants.subject_id == one.key)
            if thing is not None:
                wanted = wanted.where(grants.thing_kind == thing.kind, grants.thing_key == thing.key)
            rows = connection.execute(wanted).all()
            names = _names(connection, rows)
            return tuple(_record(row, names) for row in rows)

    def rights_of(self, principal: Principal) -> Rights:
        """Return the present rights of a principal.  A removed user has none."""
        if principal.is_owner:
            return Rights(principal, "admin")
        if principal.query_id is not None:
            return Rights(principal, None, frozenset({(Right.READ, "query", str(principal.query_id))}))
        return Rights(principal, *self._database.read(self._present, principal.user_id or 0))

    def reach_of(self, principal: Principal) -> Reach:
        """Return what a principal may read at present, to compare it with another instant."""
        users = ddl.users.c
        with self._database.reading() as connection:
            version = int(connection.execute(_VERSION).scalar_one())
            if principal.user_id is None:
                return Reach(version, "admin" if principal.is_owner else None, None)
            role, grants = self._present(connection, principal.user_id)
            since = select(users.added_at).where(users.user_id == principal.user_id)
            now = Reach(version, role, connection.execute(since).scalar_one_or_none(), grants)
            if role == "admin":
                return now
            queries = select(ddl.queries.c.query_id).where(ddl.queries.c.user == principal.name, ddl.LIVE)
            saved = select(ddl.saved_queries.c.saved_id).where(ddl.saved_queries.c.owner == principal.name)
            return replace(
                now,
                queries=frozenset(connection.scalars(queries)),
                saved=frozenset(connection.scalars(saved)),
                barred=_barred(connection, principal.name, grants),
            )

    def _present(self, connection: Connection, user_id: int) -> tuple[Role | None, frozenset[Grant]]:
        version = int(connection.execute(_VERSION).scalar_one())
        kept = self._kept
        if kept[0] != version:
            kept = self._kept = (version, {})  # one value, because threads share it
        found = kept[1].get(user_id)
        if found is None:
            found = kept[1][user_id] = _role_and_grants(connection, user_id)
        return found


_VERSION: Final = select(ddl.home.c.rights_version)
_KEY: Final = tuple(ddl.grants.primary_key.columns)


def _place(key: str) -> tuple[Any, ...]:
    """Return the values of the columns of ``_KEY`` from the key of a record.  Raise Refused."""
    kind, _, rest = key.partition(".")
    subject_id, *others = rest.split(".")
    if len(others) != 3 or not (subject_id.isascii() and subject_id.isdigit() and len(subject_id) < 19):
        raise Refused(f"{key!r} is not the key of a right", hint="Give the value of `next` of the page before.")
    return kind, int(subject_id), *others


def _role_and_grants(connection: Connection, user_id: int) -> tuple[Role | None, frozenset[Grant]]:
    users, grants = ddl.users.c, ddl.grants.c
    wanted = select(users.role).where(users.user_id == user_id, users.state == "active")
    role = connection.execute(wanted).scalar_one_or_none()
    if role is None or role == "admin":
        return role, frozenset()
    groups = select(ddl.members.c.group_id).where(ddl.members.c.user_id == user_id)
    own = or_(
        and_(grants.subject_kind == "user", grants.subject_id == user_id),
        and_(grants.subject_kind == "group", grants.subject_id.in_(groups)),
        grants.subject_kind == EVERYONE,
    )
    rows = connection.execute(select(grants.right, grants.thing_kind, grants.thing_key).where(own)).all()
    return role, frozenset((Right(right), kind, key) for right, kind, key in rows)


def _barred(connection: Connection, name: str | None, grants: frozenset[Grant]) -> frozenset[int]:
    """Return the barred queries of an owner, and those that she was granted."""
    queries = ddl.queries.c
    granted = [int(key) for right, kind, key in grants if (right, kind) == (Right.READ, "query")]
    barred = select(queries.query_id).where(queries.state == "paused", queries.reason.is_not(None), ddl.LIVE)
    return frozenset(key for part in seen_parts(name, granted) for key in connection.scalars(barred.where(part)))


def forget_grants(connection: Connection, kind: ThingKind, key: int) -> None:
    """Delete the grants over an object that is removed, in the caller's transaction."""
    grants = ddl.grants.c
    these = delete(ddl.grants).where(grants.thing_kind == kind, grants.thing_key == str(key))
    if connection.execute(these).rowcount:
        rights_changed(connection)


def _these(subject: Subject, right: Right, thing: Thing) -> ColumnElement[bool]:
    grants = ddl.grants.c
    return and_(
        grants.subject_kind == subject.kind,
        grants.subject_id == subject.key,
        grants.right == right.value,
        grants.thing_kind == thing.kind,
        grants.thing_key == thing.key,
    )


_NAMED: Final = {
    "user": (ddl.users.c.user_id, ddl.users.c.name, ""),
    "group": (ddl.groups.c.group_id, ddl.groups.c.name, ""),
    "table": (ddl.tables.c.table_id, ddl.tables.c.name, ""),
    "query": (ddl.queries.c.query_id, ddl.queries.c.name, f"{RESULTS}."),
    "saved": (ddl.saved_queries.c.saved_id, ddl.saved_queries.c.name, f"{SAVED}."),
}
"""The columns with the ID and the name of each kind of subjects and objects, and what stands before its name."""


def _names(connection: Connection, granted: Sequence[Row[Any]]) -> dict[tuple[str, str], str]:
    """Map each subject and each object of these grants to its name."""
    keys: dict[str, set[int]] = {kind: set() for kind in _NAMED}
    for row in granted:
        for kind, key in ((row.subject_kind, row.subject_id), (row.thing_kind, row.thing_key)):
            if kind in keys:
                keys[kind].add(int(key))
    names: dict[tuple[str, str], str] = {}
    for kind, (column, name, before) in _NAMED.items():
        for some in parts(sorted(keys[kind])):
            found = connection.execute(select(column, name).where(column.in_(some)))
            names |= {(kind, str(key)): f"{before}{each}" for key, each in found}
    return names


def _record(row: Row[Any], names: dict[tuple[str, str], str]) -> GrantRecord:
    subject = names.get((row.subject_kind, str(row.subject_id)), row.subject_kind)
    about = row.thing_key if row.thing_kind == "channel" else names.get((row.thing_kind, row.thing_key), "?")
    key = ".".join(str(row._mapping[column.name]) for column in _KEY)
    return GrantRecord(key, subject, Right(row.right), row.thing_kind, about, row.granted_by, row.granted_at)
