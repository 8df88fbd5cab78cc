"""Describe the users, groups and rights of a home, and plan their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from weft.api.accounts import Accounts
from weft.catalog.naming import folded
from weft.catalog.records import RESULTS, SAVED
from weft.catalog.users import EVERYONE, UserLimits
from weft.errors import Refused
from weft.execution.home import OpenHome
from weft.rights.policy import GRANTABLE
from weft.rights.principal import Role

Rights = tuple[tuple[str, str], ...]
"""Rights with the names of their objects, such as ``("read", "results.late")``, in order."""
Step = tuple[str, str, Callable[[], object]]
"""An action, its detail, and the function that carries it out."""


@dataclass(frozen=True)
class DescribedUser:
    """A user with her role, limits and own rights.  Passwords and tokens are secrets."""

    name: str
    role: Role = "reader"
    limits: UserLimits = field(default_factory=UserLimits)
    rights: Rights = ()


@dataclass(frozen=True)
class DescribedGroup:
    """A group with the names of its members, and its rights.  The group ``everyone`` has no listed members."""

    name: str
    members: tuple[str, ...] = ()
    rights: Rights = ()


Subject = DescribedUser | DescribedGroup


@dataclass(frozen=True)
class Access:
    """The users and groups of a home or of a folder."""

    users: tuple[DescribedUser, ...] = ()
    groups: tuple[DescribedGroup, ...] = ()


def _subjects(access: Access) -> list[Subject]:
    return [*access.users, *access.groups]


def described_access(home: OpenHome) -> Access:
    """Describe the users and groups of a home, ordered by name."""
    rights: dict[str, list[tuple[str, str]]] = {}
    for each in home.catalog.grants.all():
        rights.setdefault(folded(each.subject), []).append((each.right.value, each.about))

    def of(name: str) -> Rights:
        return tuple(sorted(rights.get(folded(name), ())))

    users = home.catalog.users
    groups = [DescribedGroup(each.name, tuple(sorted(each.members)), of(each.name)) for each in users.groups()]
    everyone = [DescribedGroup(EVERYONE, (), of(EVERYONE))] if of(EVERYONE) else []
    return Access(
        tuple(DescribedUser(each.name, each.role, each.limits, of(each.name)) for each in users.all()),
        tuple(sorted([*groups, *everyone], key=lambda each: each.name)),
    )


class AccessPlan:
    """The changes of users, groups and rights.

    A right can be granted only once its object exists: ``granted`` yields each right once, as soon as its object is
    among those that the caller names.
    """

    def __init__(self, home: OpenHome, wanted: Access, *, prune: bool) -> None:
        self._home, self._accounts, self._wanted, self._prune = home, Accounts(home), wanted, prune
        self._present = described_access(home)
        self._old = {folded(each.name): each for each in _subjects(self._present)}
        self._waiting = [
            (each.name, right, about)
            for each in _subjects(wanted)
            for right, about in each.rights
            if (right, folded(about)) not in self._rights_of(each.name)
        ]

    def _rights_of(self, name: str) -> set[tuple[str, str]]:
        old = self._old.get(folded(name))
        return set() if old is None else {(right, folded(about)) for right, about in old.rights}

    @property
    def _kept(self) -> list[Subject]:
        """The users and groups that the home will have.  With ``prune``, the group ``everyone`` loses its rights."""
        wanted = _subjects(self._wanted)
        if not self._prune or EVERYONE not in self._old or any(folded(each.name) == EVERYONE for each in wanted):
            return wanted
        return [*wanted, DescribedGroup(EVERYONE)]

    @property
    def changes_rights(self) -> bool:
        """Whether the rights of a user may change, so that those of the home say nothing about new queries."""
        changed = any(self._old.get(folded(each.name)) != each for each in self._kept)
        return changed or any(True for _ in self.removed())

    def accounts(self) -> Iterator[tuple[str, Step]]:
        """Yield (name, step) for the new and changed users and groups, and for the rights that end.

        New administrators come first, because the home must always have one.
        """
        for user in sorted(self._wanted.users, key=lambda each: each.role != "admin"):
            old = self._old.get(folded(user.name))
            if isinstance(old, DescribedGroup):
                raise Refused(f"{old.name} is a group of the home", hint="Users and groups share their names.")
            if old is None:
                # The folder says whose each query is.
                add = partial(self._accounts.add_user, user.name, user.role, user.limits, inherit=True)
                yield user.name, ("added", user.role, add)
            elif (old.role, old.limits) != (user.role, user.limits):
                change = partial(self._accounts.change_user, old.name, role=user.role, limits=user.limits)
                yield old.name, ("role or limits changed", user.role, change)
        for group in self._wanted.groups:
            yield from ((group.name, step) for step in self._group(group))
        for each in self._kept:
            old = self._old.get(folded(each.name))
            stay = {(right, folded(about)) for right, about in each.rights}
            for right, about in () if old is None else old.rights:
                if (right, folded(about)) not in stay:
                    revoke = partial(self._accounts.revoke, each.name, right, about)
                    yield each.name, ("right revoked", f"{right} {about}", revoke)

    def _group(self, group: DescribedGroup) -> Iterator[Step]:
        old = self._old.get(folded(group.name))
        if isinstance(old, DescribedUser):
            raise Refused(f"{old.name} is a user of the home", hint="Users and groups share their names.")
        if old is None and folded(group.name) != EVERYONE:
            yield "added", "", partial(self._accounts.add_group, group.name)
        there = {} if old is None else {folded(each): each for each in old.members}
        wanted = {folded(each): each for each in group.members}
        for key in sorted(wanted.keys() - there.keys()):
            yield "member added", wanted[key], partial(self._accounts.add_member, group.name, wanted[key])
        for key in sorted(there.keys() - wanted.keys()):
            yield "member removed", there[key], partial(self._accounts.remove_member, group.name, there[key])

    def granted(self, names: Iterable[str] | None) -> Iterator[tuple[str, Step]]:
        """Yield the rights over objects with these names, or with None all that remain."""
        known = None if names is None else {folded(each) for each in names}
        now = [each for each in self._waiting if known is None or each[1] == "channel" or folded(each[2]) in known]
        self._waiting = [each for each in self._waiting if each not in now]
        for name, right, about in now:
            yield name, ("right granted", f"{right} {about}", partial(self._accounts.grant, name, right, about))

    def baseless(self, gone: Iterable[str], defined: Iterable[str]) -> Iterator[tuple[Subject, Refused]]:
        """Yield a refusal for each right over something that the home will not have, with whose right it is.

        ``gone`` are the names of the objects that are removed.  ``defined`` are those that the folder defines: if the
        home will not have one of them, its definition is refused already.
        """
        names, known = {folded(each) for each in gone}, {folded(each) for each in defined}
        waiting = [each for each in self._waiting if folded(each[2]) not in known]
        for each in _subjects(self._wanted):
            for right, about in each.rights:
                if (each.name, right, about) in waiting or (right != "channel" and folded(about) in names):
                    yield (
                        each,
                        Refused(
                            f"{each.name} has a right on {about}, which does not exist",
                            hint=f"Name a table, a view, {RESULTS}.QUERY or {SAVED}.QUERY.",
                        ),
                    )

    def removed(self) -> Iterator[tuple[str, Step]]:
        """Yield the removals of users and groups that the folder does not have."""
        wanted = {folded(each.name) for each in _subjects(self._wanted)}
        for each in reversed(_subjects(self._present)) if self._prune else ():
            if folded(each.name) in (*wanted, EVERYONE):
                continue
            if isinstance(each, DescribedUser):
                yield each.name, ("removed", "", partial(self._accounts.remove_user, each.name))
            else:
                yield each.name, ("removed", "", partial(self._accounts.remove_group, each.name))


def rights_values(rights: Rights) -> Mapping[str, list[str] | None]:
    """Return the rights as values of a file: a list of objects for each right."""
    return {each.value: [about for right, about in rights if right == each.value] or None for each in GRANTABLE}
