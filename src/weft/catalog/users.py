"""Store users and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import (
    Column,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    union_all,
    update,
)

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.home_record import set_home
from weft.catalog.name_order import by_name
from weft.catalog.naming import folded, not_found
from weft.errors import Conflict, Refused
from weft.printable import Brief
from weft.rights.principal import Role

EVERYONE: Final = "everyone"
"""The name of the group of all users."""
UserState = Literal["active", "removed"]
SubjectKind = Literal["user", "group", "everyone"]
LastAdmin = Literal["any", "with a password"]
"""Which administrator stays: the last one, or also the last one who has a password."""
_NAME: Final = re.compile(r"\w[\w.\-+@]{0,99}")


@dataclass(frozen=True)
class UserLimits:
    """The limits of a user: installed queries, new rows of a query in one tick, and seconds of a query that she tries.

    None is the limit of the home.
    """

    queries: int | None = None
    rows: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, repr=False)
class UserRecord(Brief):
    """A user.  ``digest`` and ``zone`` are her own settings.  ``added_at`` is in microseconds UTC."""

    user_id: int
    name: str
    role: Role
    state: UserState
    limits: UserLimits
    digest: str | None
    zone: str | None
    added_at: int
    has_password: bool
    groups: tuple[str, ...] = ()

    def _brief(self) -> str:
        groups = f", in {', '.join(self.groups)}" if self.groups else ""
        return f"user {self.name}, {self.role}{groups}"


@dataclass(frozen=True, repr=False)
class GroupRecord(Brief):
    """A group with the names of its members."""

    group_id: int
    name: str
    members: tuple[str, ...]

    def _brief(self) -> str:
        return f"group {self.name}: {', '.join(self.members) or 'nobody'}"


@dataclass(frozen=True)
class Subject:
    """Whom a right is granted to.  The ID of ``everyone`` is 0."""

    kind: SubjectKind
    key: int
    name: str


class Users:
    """The users and groups of a home.  A change of a role or a membership counts as a change of rights."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._exist = False

    def exist(self) -> bool:
        """Return whether the home has, or had, a user.  Once it has had one, it keeps her row."""
        if not self._exist:
            self._exist = self._database.first(select(ddl.users.c.user_id).limit(1)) is not None
        return self._exist

    def add(self, name: str, role: Role, limits: UserLimits, at: int, *, inherit: bool = False) -> UserRecord:
        """Add a user.  A removed user of the name becomes active again.

        Raise Refused for an invalid name.  Raise Conflict if the name is taken.  Without ``inherit``, also raise
        Conflict if queries belong to the name: their owner reads their answers.
        """
        _require_name(name)
        values = {"role": role, "state": "active", "added_at": at, **_limit_values(limits)}
        with self._database.changing() as connection:
            _refuse_taken(connection, name)
            if not inherit:
                _refuse_heir(connection, name)
            own = ddl.users.c.folded == folded(name)
            key = connection.execute(select(ddl.users.c.user_id).where(own)).scalar_one_or_none()
            if key is None:
                key = inserted_id(connection, insert(ddl.users).values(name=name, folded=folded(name), **values))
            else:
                connection.execute(update(ddl.users).where(own).values(**values))
            rights_changed(connection)
            return read_user(connection, key)

    def change(
        self, name: str, *, role: Role | None = None, limits: UserLimits | None = None, keep: LastAdmin | None = None
    ) -> UserRecord:
        """Change the role or the limits of a user.

        Raise NotFound.  Raise Conflict if she is the administrator whom ``keep`` names, and would lose this role.
        """
        values: dict[str, Any] = {} if role is None else {"role": role}
        values |= {} if limits is None else _limit_values(limits)
        with self._database.changing() as connection:
            user = user_named(connection, name)
            if keep is not None and role not in (None, "admin"):
                _refuse_last_admin(connection, user, keep)
            if values:
                connection.execute(update(ddl.users).where(ddl.users.c.user_id == user.user_id).values(**values))
                rights_changed(connection)
            return read_user(connection, user.user_id)

    def prefer(self, user_id: int, digest: str | None, zone: str | None) -> UserRecord:
        """Store the digest and the zone that a user sets for herself."""
        with self._database.changing() as connection:
            own = ddl.users.c.user_id == user_id
            connection.execute(update(ddl.users).where(own).values(digest=digest, zone=zone))
            return read_user(connection, user_id)

    def remove(self, name: str, *, keep: LastAdmin | None = None) -> UserRecord:
        """Remove a user with her password, her secrets, her grants and her memberships.

        Raise NotFound.  Raise Conflict if she is the administrator whom ``keep`` names.
        """
        with self._database.changing() as connection:
            user = user_named(connection, name)
            if keep is not None:
                _refuse_last_admin(connection, user, keep)
            for table in (ddl.secrets, ddl.members, ddl.marks, ddl.mark_exceptions):
                connection.execute(delete(table).where(table.c.user_id == user.user_id))
            _delete_grants(connection, "user", user.user_id)
            own = ddl.users.c.user_id == user.user_id
            connection.execute(update(ddl.users).where(own).values(state="removed", password=None))
            rights_changed(connection)
            return user

    def all(
        self, *, text: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[UserRecord, ...]:
        """Return at most ``limit`` active users, ordered by name.

        Their names contain ``text`` in any case, and come after ``after``.
        """
        users = ddl.users.c
        active = select(ddl.users).where(users.state == "active")
        wanted = by_name(active, users.folded, text=text, after=after, limit=limit)
        with self._database.reading() as connection:
            rows = connection.execute(wanted).all()
            groups = _groups_of_users(connection, wanted)
            return tuple(_user(row, groups.get(row.user_id, ())) for row in rows)

    def most_queries(self) -> dict[str, int]:
        """Map the names of users to the number of queries that they may have, if there is a limit."""
        return self._limits(ddl.users.c.most_queries)

    def most_rows(self) -> dict[str, int]:
        """Map the names of users to the number of rows that a query may add in one tick, if there is a limit."""
        return self._limits(ddl.users.c.most_rows)

    def zones(self) -> dict[str, str]:
        """Map the names of users to the time zones that they set for themselves."""
        wanted = select(ddl.users.c.name, ddl.users.c.zone).where(ddl.users.c.zone.is_not(None))
        return {row[0]: row[1] for row in self._database.rows(wanted)}

    def _limits(self, column: Column[int]) -> dict[str, int]:
        wanted = select(ddl.users.c.name, column).where(column.is_not(None))
        return {row[0]: row[1] for row in self._database.rows(wanted)}

    def find(self, name: str) -> UserRecord | None:
        """Return the active user with this case-insensitive name, or None."""
        return self._database.read(_find_user, name)

    def named(self, name: str) -> UserRecord:
        """Return the active user with this case-insensitive name.  Raise NotFound."""
        return self._database.read(user_named, name)

    def by_id(self, user_id: int) -> UserRecord:
        """Return the user with this ID, even if she was removed.  Raise NotFound."""
        return self._database.read(read_user, user_id)

    def password(self, name: str) -> tuple[int, str | None] | None:
        """Return the ID and the password hash of an active user, or None if there is no such user."""
        users = ddl.users.c
        wanted = select(users.user_id, users.password).where(users.folded == folded(name), users.state == "active")
        row = self._database.first(wanted)
        return None if row is None else (row.user_id, row.password)

    def set_password(self, user_id: int, hashed: str, *, link_id: int | None = None, tokens: bool = False) -> bool:
        """Store the hash of a new password.  End all sessions of the user, and her links for setting a password.

        With ``tokens``, withdraw her tokens, too.  Change nothing and return False if ``link_id`` is given and this
        link is used already.
        """
        secrets, ended = ddl.secrets.c, ("session", "password", *(("token",) if tokens else ()))
        with self._database.changing() as connection:
            used = delete(ddl.secrets).where(secrets.secret_id == link_id)
            if link_id is not None and connection.execute(used).rowcount == 0:
                return False
            own = ddl.users.c.user_id == user_id
            connection.execute(update(ddl.users).where(own).values(password=hashed))
            connection.execute(delete(ddl.secrets).where(secrets.user_id == user_id, secrets.kind.in_(ended)))
            return True

    def add_group(self, name: str) -> GroupRecord:
        """Add a group.  Raise Refused for an invalid name.  Raise Conflict if the name is taken."""
        _require_name(name)
        with self._database.changing() as connection:
            _refuse_taken(connection, name)
            key = inserted_id(connection, insert(ddl.groups).values(name=name, folded=folded(name)))
            return GroupRecord(key, name, ())

    def remove_group(self, name: str) -> GroupRecord:
        """Remove a group with its grants.  Its members stay users.  Raise NotFound."""
        with self._database.changing() as connection:
            group = _group_named(connection, name)
            _delete_grants(connection, "group", group.group_id)
            for table in (ddl.members, ddl.groups):
                connection.execute(delete(table).where(table.c.group_id == group.group_id))
            rights_changed(connection)
            return group

    def groups(self, *, after: str | None = None, limit: int | None = None) -> tuple[GroupRecord, ...]:
        """Return at most ``limit`` groups, ordered by name, whose names come after ``after``."""
        wanted = by_name(select(ddl.groups), ddl.groups.c.folded, after=after, limit=limit)
        return self._database.read(_groups, wanted)

    def add_member(self, group: str, user: str) -> GroupRecord:
        """Add a user to a group.  Raise NotFound.  Raise Conflict if she is a member already."""
        with self._database.changing() as connection:
            to, who = _group_named(connection, group), user_named(connection, user)
            if who.name in to.members:
                raise Conflict(f"{who.name} is already in the group {to.name}")
            connection.execute(insert(ddl.members).values(group_id=to.group_id, user_id=who.user_id))
            rights_changed(connection)
            return _group_named(connection, group)

    def remove_member(self, group: str, user: str) -> GroupRecord:
        """Remove a user from a group.  Raise NotFound."""
        members = ddl.members.c
        with self._database.changing() as connection:
            of, who = _group_named(connection, group), user_named(connection, user)
            if who.name not in of.members:
                raise not_found(f"member of {of.name}", user, of.members)
            own = (members.group_id == of.group_id) & (members.user_id == who.user_id)
            connection.execute(delete(ddl.members).where(own))
            rights_changed(connection)
            return _group_named(connection, group)


def rights_changed(connection: Connection) -> None:
    """Count a change of rights in the caller's transaction, so that the next tick checks the rights of all queries."""
    set_home(connection, rights_version=ddl.home.c.rights_version + 1)


def subject_named(connection: Connection, name: str) -> Subject:
    """Return the user or the group with this name.  Raise NotFound."""
    if folded(name) == EVERYONE:
        return Subject("everyone", 0, EVERYONE)
    users, groups = ddl.users.c, ddl.groups.c
    known = union_all(
        select(literal("user").label("kind"), users.user_id.label("key"), users.name, users.folded).where(
            users.state == "active"
        ),
        select(literal("group"), groups.group_id, groups.name, groups.folded),
    ).subquery()
    row = connection.execute(select(known).where(known.c.folded == folded(name))).first()
    if row is None:
        raise not_found("user or group", name, connection.execute(select(known.c.name)).scalars())
    return Subject(row.kind, row.key, row.name)


def user_named(connection: Connection, name: str) -> UserRecord:
    """Return the active user with this case-insensitive name.  Raise NotFound."""
    user = _find_user(connection, name)
    if user is None:
        known = select(ddl.users.c.name).where(ddl.users.c.state == "active")
        raise not_found("user", name, connection.execute(known).scalars())
    return user


def _find_user(connection: Connection, name: str) -> UserRecord | None:
    users = ddl.users.c
    wanted = select(users.user_id).where(users.folded == folded(name), users.state == "active")
    key = connection.execute(wanted).scalar_one_or_none()
    return None if key is None else read_user(connection, key)


def read_user(connection: Connection, user_id: int) -> UserRecord:
    """Return the user with this ID in the caller's transaction.  Raise NotFound."""
    row = connection.execute(_BY_ID, {"user_id": user_id}).first()
    if row is None:
        raise not_found("user", f"#{user_id}", ())
    return _user(row, connection.execute(_GROUPS_OF, {"user_id": user_id}).scalars().all())


_BY_ID: Final = select(ddl.users).where(ddl.users.c.user_id == bindparam("user_id"))
_GROUPS_OF: Final = (
    select(ddl.groups.c.name)
    .join_from(ddl.members, ddl.groups)
    .where(ddl.members.c.user_id == bindparam("user_id"))
    .order_by(ddl.groups.c.folded)
)


def _user(row: Row[Any], groups: Sequence[str]) -> UserRecord:
    return UserRecord(
        row.user_id,
        row.name,
        row.role,
        row.state,
        UserLimits(row.most_queries, row.most_rows, row.most_seconds),
        row.digest,
        row.zone,
        row.added_at,
        row.password is not None,
        tuple(groups),
    )


def _groups_of_users(connection: Connection, wanted: Select[Any]) -> dict[int, list[str]]:
    """Map the IDs of the users that ``wanted`` selects to the names of their groups."""
    of_these = ddl.members.c.user_id.in_(wanted.with_only_columns(ddl.users.c.user_id))
    memberships = select(ddl.members.c.user_id, ddl.groups.c.name).join_from(ddl.members, ddl.groups).where(of_these)
    names: dict[int, list[str]] = {}
    for row in connection.execute(memberships.order_by(ddl.groups.c.folded)):
        names.setdefault(row.user_id, []).append(row.name)
    return names


def _groups(connection: Connection, wanted: Select[Any]) -> tuple[GroupRecord, ...]:
    """Return the groups that ``wanted`` selects, with their members."""
    in_these = ddl.members.c.group_id.in_(wanted.with_only_columns(ddl.groups.c.group_id))
    members = select(ddl.members.c.group_id, ddl.users.c.name).join_from(ddl.members, ddl.users).where(in_these)
    names: dict[int, list[str]] = {}
    for row in connection.execute(members.order_by(ddl.users.c.folded)):
        names.setdefault(row.group_id, []).append(row.name)
    rows = connection.execute(wanted)
    return tuple(GroupRecord(row.group_id, row.name, tuple(names.get(row.group_id, ()))) for row in rows)


def _group_named(connection: Connection, name: str) -> GroupRecord:
    found = _groups(connection, select(ddl.groups).where(ddl.groups.c.folded == folded(name)))
    if not found:
        raise not_found("group", name, connection.execute(select(ddl.groups.c.name)).scalars())
    return found[0]


def _delete_grants(connection: Connection, kind: SubjectKind, key: int) -> None:
    grants = ddl.grants.c
    connection.execute(delete(ddl.grants).where(grants.subject_kind == kind, grants.subject_id == key))


def _refuse_heir(connection: Connection, name: str) -> None:
    queries, saved = ddl.queries.c, ddl.saved_queries.c
    owned = select(func.count()).where(queries.user == name, ddl.LIVE)
    forms = select(func.count()).where(saved.owner == name)
    count = sum(connection.execute(each).scalar_one() for each in (owned, forms))
    if count:
        belong = "query belongs" if count == 1 else "queries belong"
        raise Conflict(
            f"{count:,} {belong} to the name {name}: this user would read and change them",
            hint="Add the user with --inherit (in Python: inherit=True) if they are hers, or choose another name.",
        )


def _limit_values(limits: UserLimits) -> dict[str, int | None]:
    return {"most_queries": limits.queries, "most_rows": limits.rows, "most_seconds": limits.seconds}


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or folded(name) == EVERYONE:
        raise Refused(
            f"{name!r} is not a valid name of a user or a group",
            hint=f"Use at most 100 letters, digits and . _ - + @, and a name other than {EVERYONE}.",
        )


def _refuse_last_admin(connection: Connection, user: UserRecord, keep: LastAdmin) -> None:
    """Raise Conflict if the user is the administrator whom ``keep`` names.

    If no administrator has a password, only the last one stays.
    """
    users = ddl.users.c
    others = select(users.password).where(users.role == "admin", users.state == "active", users.user_id != user.user_id)
    passwords = connection.execute(others).scalars().all()
    replaced = any(passwords) or (bool(passwords) and (keep == "any" or not user.has_password))
    if user.role != "admin" or replaced:
        return
    owner = "On the machine of the home, the owner of the folder may remove any user."
    if passwords:
        raise Conflict(
            f"{user.name} is the only administrator with a password",
            hint=f"Another administrator must set a password for herself first. {owner}",
        )
    raise Conflict(f"{user.name} is the only administrator", hint=f"Make somebody else an administrator first. {owner}")


def _refuse_taken(connection: Connection, name: str) -> None:
    """Users and groups share their names, because a right is granted to either."""
    users = connection.execute(
        select(ddl.users.c.name).where(ddl.users.c.folded == folded(name), ddl.users.c.state == "active")
    ).first()
    groups = connection.execute(select(ddl.groups.c.name).where(ddl.groups.c.folded == folded(name))).first()
    for kind, taken in (("user", users), ("group", groups)):
        if taken is not None:
            raise Conflict(f"there is already a {kind} {taken.name!r}", hint="Choose another name.")
