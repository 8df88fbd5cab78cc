"""The own account, and for administrators the users, the groups, their rights and the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from starlette.responses import Response
from starlette.routing import Route

from weft.errors import NotFound, Refused
from weft.rights.principal import ROLES, SCOPES, Role, Scope
from weft.web.callers import address_of
from weft.web.paging import page_of
from weft.web.visits import Visit, page

_LISTED: Final = 100
_PEOPLE: Final = 50
_GROUPS: Final = 20
"""The number of groups, and of rights, on a page."""
_MEMBERS: Final = 20
"""The number of members of a group whose names are shown."""


def account(visit: Visit) -> Response:
    """Show the settings of a person, and her tokens."""
    if visit.user is None:
        raise NotFound("the owner of the home has no account", hint="The page /users has the users of the home.")
    tokens = visit.weft.accounts.tokens()
    return visit.show("account.html", user=visit.user, tokens=tokens, issued=None, scopes=SCOPES)


def change_account(visit: Visit) -> Response:
    """Change the password or the preferences, or create or withdraw a token."""
    accounts, do = visit.weft.accounts, visit.given("do")
    if visit.user is None:
        raise NotFound("the owner of the home has no account")
    match do:
        case "password":
            old, new = (str(visit.form.get(name, "")) for name in ("old", "new"))
            with visit.site.attempts.trying(visit.user.name, address_of(visit.site, visit.request)):
                accounts.change_password(old, new, withdraw_tokens=visit.given("tokens") == "on")
            return visit.go("/sign-in", "Your password is changed, and all your sessions have ended. Sign in again.")
        case "prefer":
            accounts.prefer(digest=visit.given("digest") or None, zone=visit.given("zone") or None)
            return visit.go("/account", "Your preferences are stored.")
        case "token":
            scopes = [cast(Scope, each) for each in visit.form.getlist("scope") if isinstance(each, str)]
            expires = visit.given("expires") or "90d"
            issued = accounts.create_token(scopes=scopes, expires=expires, label=visit.given("label") or None)
            tokens = accounts.tokens()
            return visit.show("account.html", user=visit.user, tokens=tokens, issued=issued, scopes=SCOPES)
        case "withdraw":
            accounts.withdraw_token(visit.whole("token"))
            return visit.go("/account", "The token is withdrawn.")
        case _:
            raise Refused("this page has no such button")


def users(visit: Visit) -> Response:
    """Show the users, the groups and the rights."""
    return _users(visit)


def _users(visit: Visit, link: tuple[str, str] | None = None) -> Response:
    accounts, text = visit.weft.accounts, visit.asked("q")
    after, after_group, after_right = (visit.asked(each) or None for each in ("after", "after_group", "after_right"))
    found = accounts.users(text=text or None, after=after, limit=_PEOPLE + 1)
    shown, more = page_of(visit, found, _PEOPLE, lambda last: last.name)
    groups, more_groups = page_of(
        visit, accounts.groups(after=after_group, limit=_GROUPS + 1), _GROUPS, lambda last: last.name, "after_group"
    )
    grants, more_grants = page_of(
        visit, accounts.grants(after=after_right, limit=_GROUPS + 1), _GROUPS, lambda last: last.key, "after_right"
    )
    return visit.show(
        "users.html",
        users=shown,
        more=more,
        text=text,
        groups=groups,
        more_groups=more_groups,
        grants=grants,
        more_grants=more_grants,
        members=_MEMBERS,
        roles=ROLES,
        link=link,
        in_use=accounts.in_use(),
    )


def _role(visit: Visit) -> Role:
    return cast(Role, visit.given("role"))


def _change_user(visit: Visit) -> str:
    user = visit.weft.accounts.change_user(visit.given("name"), role=_role(visit))
    return f"{user.name} is {user.role} now."


def _remove_user(visit: Visit) -> str:
    return f"{visit.weft.accounts.remove_user(visit.given('name')).name} is removed. Her queries are paused."


def _add_group(visit: Visit) -> str:
    return f"The group {visit.weft.accounts.add_group(visit.given('name')).name} is there."


def _remove_group(visit: Visit) -> str:
    return f"The group {visit.weft.accounts.remove_group(visit.given('name')).name} is removed."


def _join(visit: Visit) -> str:
    group = visit.weft.accounts.add_member(visit.given("name"), visit.given("user"))
    return f"{visit.given('user')} is in {group.name}."


def _leave(visit: Visit) -> str:
    group = visit.weft.accounts.remove_member(visit.given("name"), visit.given("user"))
    return f"{visit.given('user')} is no longer in {group.name}."


def _grant(visit: Visit) -> str:
    name, right, about = (visit.given(each) for each in ("name", "right", "about"))
    visit.weft.accounts.grant(name, right, about)
    return f"{name} may {right} {about}."


def _revoke(visit: Visit) -> str:
    name, right, about = (visit.given(each) for each in ("name", "right", "about"))
    visit.weft.accounts.revoke(name, right, about)
    return f"{name} may no longer {right} {about}."


_ACTIONS: Final[Mapping[str, Callable[[Visit], str]]] = {
    "change": _change_user,
    "remove": _remove_user,
    "add-group": _add_group,
    "remove-group": _remove_group,
    "join": _join,
    "leave": _leave,
    "grant": _grant,
    "revoke": _revoke,
}


def change_users(visit: Visit) -> Response:
    """Run the action of a button of the page."""
    do, name = visit.given("do"), visit.given("name")
    if do == "add":
        # The page of the first user's link is the last one that the owner sees without signing in.
        visit.weft.accounts.add_user(name, _role(visit), inherit=visit.given("inherit") == "on", admin_first=True)
    if do in ("add", "link"):
        issued = visit.weft.accounts.password_link(name)
        return _users(visit, (name, f"{visit.base}/password/{issued.secret}"))
    if do not in _ACTIONS:
        raise Refused("this page has no such button")
    return visit.go("/users", _ACTIONS[do](visit))


def log(visit: Visit) -> Response:
    """Show who did what, the newest first."""
    user = visit.asked("user") or None
    found = visit.weft.accounts.audit(_LISTED + 1, user=user, before=visit.number("before"))
    actions, older = page_of(visit, found, _LISTED, lambda last: last.audit_id, "before")
    return visit.show("audit.html", actions=actions, older=older, user=user)


ROUTES: Final = (
    Route("/account", page(account)),
    Route("/account", page(change_account), methods=["POST"]),
    Route("/users", page(users)),
    Route("/users", page(change_users), methods=["POST"]),
    Route("/audit", page(log)),
)
