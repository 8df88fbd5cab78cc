"""Users, groups, rights, tokens, and the log of actions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from weft.api.json.accounts import audit_json, grant_json, group_json, issued_json, secret_json, user_json
from weft.api.weft import Weft
from weft.catalog.users import UserLimits
from weft.rights.principal import Role
from weft.web.api_v1.operation import (
    AfterName,
    Fields,
    Id,
    Instant,
    Interval,
    Limit,
    Name,
    Operation,
    listed,
)

RoleName = Annotated[Role, Field(description="What the user may do at most.")]
Most = Annotated[int, Field(ge=0, le=2**62, description="A limit of the user.")]
RightName = Annotated[Literal["read", "load", "channel"], Field(description="The right.")]
About = Annotated[
    str, Field(min_length=1, max_length=200, description="A table, a view, `results.QUERY`, or a kind of channels.")
]
Scopes = Annotated[
    list[Literal["read", "load", "install", "admin"]], Field(min_length=1, max_length=4, description="What it may do.")
]


def list_users(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the users in the order of their names."""
    found = weft.accounts.users(after=after, limit=limit + 1)
    return listed([user_json(each) for each in found], limit, lambda last: found[last].name)


def add_user(
    weft: Weft,
    name: Name,
    role: RoleName = "reader",
    queries: Most | None = None,
    rows: Most | None = None,
    seconds: Most | None = None,
    inherit: Annotated[bool, Field(description="Whether she owns the queries that have her name.")] = False,
) -> Fields:
    """Add a user with a role, and with limits of queries, rows a tick, and seconds of a try."""
    limits = UserLimits(queries, rows, seconds)
    return user_json(weft.accounts.add_user(name, role, limits, inherit=inherit, admin_first=True))


def change_user(weft: Weft, user: Name, role: RoleName) -> Fields:
    """Change the role of a user."""
    return user_json(weft.accounts.change_user(user, role=role))


def remove_user(weft: Weft, user: Name) -> Fields:
    """Remove a user with her rights and tokens.  Her queries are paused."""
    return user_json(weft.accounts.remove_user(user))


def list_groups(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the groups in the order of their names, with their members."""
    found = weft.accounts.groups(after=after, limit=limit + 1)
    return listed([group_json(each) for each in found], limit, lambda last: found[last].name)


def add_group(weft: Weft, name: Name) -> Fields:
    """Add a group."""
    return group_json(weft.accounts.add_group(name))


def remove_group(weft: Weft, group: Name) -> Fields:
    """Remove a group with its rights."""
    return group_json(weft.accounts.remove_group(group))


def add_member(weft: Weft, group: Name, user: Name) -> Fields:
    """Add a user to a group."""
    return group_json(weft.accounts.add_member(group, user))


def remove_member(weft: Weft, group: Name, user: Name) -> Fields:
    """Remove a user from a group."""
    return group_json(weft.accounts.remove_member(group, user))


def list_grants(
    weft: Weft,
    name: Name | None = None,
    about: About | None = None,
    after: Annotated[str | None, Field(max_length=200, description="Only rights after this one, from `next`.")] = None,
    limit: Limit = 100,
) -> Fields:
    """List the rights that were granted, of one user or group or over one object."""
    found = weft.accounts.grants(name, about=about, after=after, limit=limit + 1)
    return listed([grant_json(each) for each in found], limit, lambda last: found[last].key)


def grant_right(weft: Weft, name: Name, right: RightName, about: About) -> list[Fields]:
    """Grant a right to a user, a group, or `everyone`."""
    weft.accounts.grant(name, right, about)
    return [grant_json(each) for each in weft.accounts.grants(name, about=about)]


def revoke_right(weft: Weft, name: Name, right: RightName, about: About) -> list[Fields]:
    """Revoke a right."""
    weft.accounts.revoke(name, right, about)
    return [grant_json(each) for each in weft.accounts.grants(name, about=about)]


def _names(weft: Weft) -> dict[int, str]:
    return {each.user_id: each.name for each in weft.accounts.users()}


def list_tokens(weft: Weft, user: Name | None = None) -> list[Fields]:
    """List the valid tokens of a user, without their secrets."""
    return [secret_json(each, _names(weft)) for each in weft.accounts.tokens(user)]


def create_token(
    weft: Weft,
    user: Name,
    scopes: Scopes = ["read"],  # noqa: B006 - a default that nobody changes
    expires: Interval | None = "90d",
    label: Annotated[str | None, Field(max_length=200, description="What it is for.")] = None,
) -> Fields:
    """Create a token, and show its secret once."""
    names = _names(weft)  # refuses before anything is created
    return issued_json(weft.accounts.create_token(user, scopes=scopes, expires=expires, label=label), names)


def withdraw_token(weft: Weft, token: Id) -> Fields:
    """Withdraw a token at once."""
    names = _names(weft)
    return secret_json(weft.accounts.withdraw_token(token), names)


def list_audit(
    weft: Weft,
    user: Name | None = None,
    since: Instant | None = None,
    after: Annotated[Id | None, Field(description="Only actions older than this one, from `next`.")] = None,
    limit: Limit = 100,
) -> Fields:
    """List who did what, when and from where, the newest first."""
    from weft.api.arguments import micros

    begin = None if since is None else micros(since)
    found = weft.accounts.audit(limit + 1, user=user, before=after, since=begin)
    return listed([audit_json(each) for each in found], limit, lambda last: found[last].audit_id)


OPERATIONS: Final = (
    Operation("GET", "/users", list_users, "accounts", "admin"),
    Operation("POST", "/users", add_user, "accounts", "admin", 201, brief=True),
    Operation("PUT", "/users/{user}", change_user, "accounts", "admin", brief=True),
    Operation("DELETE", "/users/{user}", remove_user, "accounts", "admin", brief=True),
    Operation("GET", "/groups", list_groups, "accounts", "admin"),
    Operation("POST", "/groups", add_group, "accounts", "admin", 201, brief=True),
    Operation("DELETE", "/groups/{group}", remove_group, "accounts", "admin", brief=True),
    Operation("PUT", "/groups/{group}/members/{user}", add_member, "accounts", "admin", brief=True),
    Operation("DELETE", "/groups/{group}/members/{user}", remove_member, "accounts", "admin", brief=True),
    Operation("GET", "/grants", list_grants, "accounts", "admin"),
    Operation("POST", "/grants", grant_right, "accounts", "own", 201, brief=True),
    Operation("DELETE", "/grants", revoke_right, "accounts", "own", brief=True),
    Operation("GET", "/tokens", list_tokens, "accounts", "admin"),
    Operation("POST", "/tokens", create_token, "accounts", "admin", 201, slow=False),  # no job keeps the secret
    Operation("DELETE", "/tokens/{token}", withdraw_token, "accounts", "admin", brief=True),
    Operation("GET", "/audit", list_audit, "accounts", "admin"),
)
