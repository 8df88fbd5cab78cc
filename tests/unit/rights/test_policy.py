"""Who may do what, compared with a table that is written down here."""

from __future__ import annotations

import itertools

import pytest

from weft.rights.policy import ADMIN_CHANNELS, Rights, Thing
from weft.rights.principal import OWNER, SCOPES, Principal, Right, Role

TABLE = Thing("table", "3")
OTHERS = Thing("query", "7", owner="bo")
OWN_QUERY = Thing("query", "8", owner="anna")
MAIL = Thing("channel", "email")
ROLES: tuple[Role | None, ...] = ("admin", "author", "reader", None)
CASES: tuple[tuple[Right, Thing | None], ...] = (
    (Right.READ, TABLE),
    (Right.LOAD, TABLE),
    (Right.READ, OTHERS),
    (Right.OWN, OTHERS),
    (Right.READ, OWN_QUERY),
    (Right.OWN, OWN_QUERY),
    (Right.CHANNEL, MAIL),
    (Right.INSTALL, None),
    (Right.SELF, None),
    (Right.ADMIN, None),
)
GRANTS = (
    (Right.READ, "table", "3"),
    (Right.LOAD, "table", "3"),
    (Right.READ, "query", "7"),
    (Right.CHANNEL, "channel", "email"),
)


def expected(role: Role | None, right: Right, thing: Thing | None, granted: frozenset[object]) -> bool:
    """Say in other words than the policy who may do what."""
    if role == "admin":
        return True
    key = None if thing is None else (right, thing.kind, thing.key)
    if right in (Right.READ, Right.LOAD):
        return key in granted or (right is Right.READ and thing is OWN_QUERY)
    if right is Right.CHANNEL:
        return role is not None and key in granted
    return {Right.INSTALL: role == "author", Right.SELF: role is not None, Right.OWN: False, Right.ADMIN: False}[
        right
    ] or (right is Right.OWN and role is not None and thing is OWN_QUERY)


def test_each_role_with_each_set_of_grants() -> None:
    for role, count in itertools.product(ROLES, range(len(GRANTS) + 1)):
        for granted in map(frozenset, itertools.combinations(GRANTS, count)):
            rights = Rights(Principal("anna", 1), role, granted)  # type: ignore[arg-type]
            for right, thing in CASES:
                assert rights.may(right, thing) is expected(role, right, thing, granted), (role, right, thing, granted)


SCOPED = {
    "read": {Right.READ},
    "load": {Right.LOAD},
    "install": {Right.INSTALL, Right.OWN, Right.CHANNEL},
    "admin": {Right.ADMIN},
}


@pytest.mark.parametrize("role", ["admin", "author"])
def test_a_token_takes_rights_away_and_adds_none(role: Role) -> None:
    grants = frozenset(GRANTS)
    whole = Rights(Principal("anna", 1), role, grants)  # type: ignore[arg-type]
    for count in range(len(SCOPES) + 1):
        for scopes in map(frozenset, itertools.combinations(SCOPES, count)):
            token = Rights(Principal("anna", 1, scopes=scopes), role, grants)  # type: ignore[arg-type]
            allowed = set[Right]().union(*(SCOPED[each] for each in scopes))
            for right, thing in CASES:
                assert token.may(right, thing) is (whole.may(right, thing) and right in allowed)


def test_an_administrator_alone_adds_channels_that_touch_the_server() -> None:
    grants = frozenset((Right.CHANNEL, "channel", kind) for kind in ADMIN_CHANNELS)
    for kind in ADMIN_CHANNELS:
        assert not Rights(Principal("anna", 1), "author", grants).may(Right.CHANNEL, Thing("channel", kind))  # type: ignore[arg-type]
        assert Rights(OWNER, "admin").may(Right.CHANNEL, Thing("channel", kind))


def test_the_owner_of_the_folder_is_no_user() -> None:
    assert OWNER.is_owner
    assert not Principal("anna", 1).is_owner
    assert not Principal(query_id=3).is_owner
