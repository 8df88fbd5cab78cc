"""The commands for users, groups, rights, tokens and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from weft.api.arguments import micros
from weft.api.json.values import iso
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, moment, plain, print_json, print_list, print_result

if TYPE_CHECKING:
    from weft.api.signing_in import Issued
    from weft.api.weft import Weft
    from weft.catalog.grants import GrantRecord
    from weft.catalog.users import GroupRecord, UserRecord

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")]
UsersArgument = Annotated[list[str], typer.Argument(metavar="NAME", help="The names of users.")]
Role = Literal["admin", "author", "reader"]
_ROLES = "reader (reads what is granted), author (also installs queries) or admin (may do everything)"
QueriesOption = Annotated[int | None, typer.Option(min=0, metavar="N", help="The most queries that she may have.")]
RowsOption = Annotated[int | None, typer.Option(min=0, metavar="N", help="The most new rows of a query in one tick.")]
SecondsOption = Annotated[int | None, typer.Option(min=1, metavar="N", help="The seconds of a query that she tries.")]
SubjectArgument = Annotated[str, typer.Argument(metavar="NAME", help="A user, a group, or everyone.")]
RightArgument = Annotated[str, typer.Argument(metavar="RIGHT", help="read, load or channel.")]
AboutArgument = Annotated[
    str,
    typer.Argument(
        metavar="ON",
        help="A table, a view, results.QUERY, saved.QUERY, or for channel: email, feed or webhook.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    user = typer.Typer(no_args_is_help=True, help="Add users, and change what they are.")
    user.command("add", epilog=example("weft user add anna --role author --queries 50"))(add_user)
    user.command("change", epilog=example("weft user change anna --role reader"))(change_user)
    user.command("list", epilog=example("weft user list"))(list_users)
    user.command("remove", epilog=example("weft user remove anna"))(remove_user)
    user.command("password-link", epilog=example("weft user password-link anna"))(password_link)
    app.add_typer(user, name="user", epilog=example("weft user add anna --role author"))
    group = typer.Typer(no_args_is_help=True, help="Gather users into groups.")
    group.command("add", epilog=example("weft group add analysts", "weft group add analysts anna bo"))(add_group)
    group.command("list", epilog=example("weft group list"))(list_groups)
    group.command("join", epilog=example("weft group join analysts anna bo"))(join_group)
    group.command("leave", epilog=example("weft group leave analysts bo"))(leave_group)
    group.command("remove", epilog=example("weft group remove analysts"))(remove_group)
    app.add_typer(group, name="group", epilog=example("weft group add analysts anna bo"))
    app.command(
        epilog=example("weft grant anna read msgs", "weft grant bo read results.late", "weft grant anna channel email")
    )(grant)
    app.command(epilog=example("weft revoke anna read msgs"))(revoke)
    app.command(epilog=example("weft grants", "weft grants anna"))(grants)
    token = typer.Typer(no_args_is_help=True, help="Create and withdraw tokens for programs.")
    token.command("create", epilog=example("weft token create anna --scope read --expires 90d"))(create_token)
    token.command("list", epilog=example("weft token list"))(list_tokens)
    token.command("withdraw", epilog=example("weft token withdraw 3"))(withdraw_token)
    app.add_typer(token, name="token", epilog=example("weft token create anna --scope read"))
    app.command(epilog=example("weft audit", "weft audit --user anna --since 2026-11-01"))(audit)


def add_user(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help=f"What she may do: {_ROLES}.")] = "reader",
    queries: QueriesOption = None,
    rows: RowsOption = None,
    seconds: SecondsOption = None,
    inherit: Annotated[
        bool, typer.Option("--inherit", help="She owns the queries that were installed with her name.")
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Add a user.  From the first user on, the page of `weft serve --http` asks for a name and a password."""
    from weft.catalog.users import UserLimits

    with opened(home) as weft:
        user = weft.accounts.add_user(name, role, UserLimits(queries, rows, seconds), inherit=inherit)
    _print_users([user], json, f"{name} is {_with_article(role)}. `weft user password-link {name}` lets her sign in.")


def change_user(
    name: NameArgument,
    role: Annotated[Role | None, typer.Option(help=f"The new role: {_ROLES}.")] = None,
    queries: QueriesOption = None,
    rows: RowsOption = None,
    seconds: SecondsOption = None,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="Remove the limits that are not given.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Change the role or the limits of a user.  A limit that is not given stays."""
    from weft.catalog.users import UserLimits

    with opened(home) as weft:
        known = weft.accounts.user(name).limits
        given = (queries, rows, seconds)
        before = (None, None, None) if no_limits else (known.queries, known.rows, known.seconds)
        limits = UserLimits(*(old if new is None else new for new, old in zip(given, before, strict=True)))
        user = weft.accounts.change_user(name, role=role, limits=limits)
    _print_users([user], json, f"{user.name} is {_with_article(user.role)}.")


def _with_article(role: str) -> str:
    return f"an {role}" if role[0] == "a" else f"a {role}"


def list_users(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the users with their roles, groups and limits."""
    with opened(home) as weft:
        users = weft.accounts.users()
    _print_users(users, json)


def remove_user(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Remove a user with her rights, tokens and sessions.  Her queries are paused."""
    with opened(home) as weft:
        user = weft.accounts.remove_user(name)
    _print_users([user], json, f"{user.name} is removed. The next tick pauses her queries.")


def _print_users(users: list[UserRecord] | tuple[UserRecord, ...], json: bool, words: str | None = None) -> None:
    from weft.api.json.accounts import user_json

    if words is not None:
        print_result(json, user_json(users[0]), words)
        return
    rows = (
        (
            each.name,
            each.role,
            ", ".join(each.groups) or "-",
            "yes" if each.has_password else "no",
            *("-" if limit is None else f"{limit:,}" for limit in (each.limits.queries, each.limits.rows)),
            "-" if each.limits.seconds is None else f"{each.limits.seconds} s",
        )
        for each in users
    )
    none = "There are no users: everybody who reaches the home is its owner. Add one: weft user add NAME"
    columns = ("user", "role", "groups", "password", "queries", "rows a tick", "try")
    print_list(json, map(user_json, users), none, columns, rows, right=(4, 5, 6))


def password_link(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Print a link with which a user sets her password once, within seven days."""
    from weft.configuration import configuration

    with opened(home) as weft:
        issued = weft.accounts.password_link(name)
        url = configuration(weft.home).web_url
    link = f"{url or ''}/password/{issued.secret}"
    if json:
        print_json({"user": name, "link": link, "expires_at": iso(issued.record.expires_at)})
        return
    echo(link)
    where = "" if url else " Put the address of the page before it, or set web.url."
    echo(f"{name} sets a password with this link until {_expiry(issued.record.expires_at)}.{where}", err=True)


def add_group(
    name: GroupArgument,
    members: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Its first members.")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Add a group of users."""
    with opened(home) as weft:
        group = weft.accounts.add_group(name)
        for each in members or ():
            group = weft.accounts.add_member(name, each)
    _print_groups([group], json, group._brief())


def join_group(name: GroupArgument, users: UsersArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Add users to a group."""
    with opened(home) as weft:
        groups = [weft.accounts.add_member(name, each) for each in users]
    _print_groups(groups[-1:], json, groups[-1]._brief())


def leave_group(name: GroupArgument, users: UsersArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Remove users from a group."""
    with opened(home) as weft:
        groups = [weft.accounts.remove_member(name, each) for each in users]
    _print_groups(groups[-1:], json, groups[-1]._brief())


def remove_group(name: GroupArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Remove a group with its rights.  Its members stay users."""
    with opened(home) as weft:
        group = weft.accounts.remove_group(name)
    _print_groups([group], json, f"The group {group.name} is removed.")


def list_groups(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the groups with their members."""
    with opened(home) as weft:
        groups = weft.accounts.groups()
    _print_groups(list(groups), json)


def _print_groups(groups: list[GroupRecord], json: bool, words: str | None = None) -> None:
    from weft.api.json.accounts import group_json

    if words is not None:
        print_result(json, group_json(groups[0]), words)
        return
    rows = ((each.name, ", ".join(each.members) or "-") for each in groups)
    none = "There are no groups. Add one: weft group add GROUP NAME…"
    print_list(json, map(group_json, groups), none, ("group", "members"), rows)


def grant(
    name: SubjectArgument,
    right: RightArgument,
    about: AboutArgument,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Give a user, a group, or everyone a right."""
    with opened(home) as weft:
        weft.accounts.grant(name, right, about)
    print_result(
        json, {"to": name, "right": right, "on": about, "granted": True}, f"{name} may {_words(right, about)}."
    )


def revoke(
    name: SubjectArgument,
    right: RightArgument,
    about: AboutArgument,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Take a right back.  The next tick pauses the queries that needed it."""
    with opened(home) as weft:
        weft.accounts.revoke(name, right, about)
    words = f"Revoked from {name}: {_words(right, about)}."
    print_result(json, {"to": name, "right": right, "on": about, "granted": False}, words)


def _words(right: str, about: str) -> str:
    return {"channel": f"add {about}: channels", "load": f"load rows into {about}"}.get(right, f"read {about}")


def grants(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A user or a group (default: all).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the rights that were granted."""
    from weft.api.json.accounts import grant_json

    with opened(home) as weft:
        granted = weft.accounts.grants(name)
    none = "No rights were granted. Grant one: weft grant NAME read TABLE"
    print_list(json, map(grant_json, granted), none, ("to", "right", "on", "by", "at"), map(_grant_row, granted))


def _grant_row(grant: GrantRecord) -> tuple[str, ...]:
    return grant.subject, grant.right.value, plain(grant.about), plain(grant.granted_by), moment(grant.granted_at)


def create_token(
    name: NameArgument,
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="read, load, install or admin; repeat it for several."),
    ] = None,
    expires: Annotated[str, typer.Option(metavar="LENGTH", help="How long the token is valid, or never.")] = "90d",
    label: Annotated[str | None, typer.Option(metavar="TEXT", help="What the token is for.")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Create a token with which a program works as a user.  Weft shows it once."""
    from weft.api.json.accounts import issued_json
    from weft.rights.principal import Scope

    lasting = None if expires == "never" else expires
    with opened(home) as weft:
        chosen = cast("list[Scope]", scopes or ["read"])
        issued = weft.accounts.create_token(name, scopes=chosen, expires=lasting, label=label)
        names = _names(weft)
    if json:
        print_json(issued_json(issued, names))
        return
    echo(issued.secret)
    echo(_issued_text(issued, name), err=True)


def _expiry(expires_at: int | None) -> str:
    return "never" if expires_at is None else moment(expires_at)


def _issued_text(issued: Issued, name: str) -> str:
    until = "" if issued.record.expires_at is None else f", until {_expiry(issued.record.expires_at)}"
    scopes = ", ".join(sorted(issued.record.scopes or ()))
    return f"Token {issued.record.secret_id} works as {name} with the scopes {scopes}{until}. It is not shown again."


def _names(weft: Weft) -> dict[int, str]:
    return {each.user_id: each.name for each in weft.accounts.users()}


def list_tokens(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the valid tokens of all users, without their secrets."""
    from weft.api.json.accounts import secret_json

    with opened(home) as weft:
        tokens, names = weft.accounts.tokens(), _names(weft)
    rows = (
        (
            str(each.secret_id),
            names.get(each.user_id or 0, "-"),
            ", ".join(sorted(each.scopes or ())),
            _expiry(each.expires_at),
            plain(each.label or "-"),
        )
        for each in tokens
    )
    none = "There are no tokens. Create one: weft token create NAME --scope read"
    values = (secret_json(each, names) for each in tokens)
    print_list(json, values, none, ("id", "user", "scopes", "expires", "label"), rows, right=(0,))


def withdraw_token(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="The ID that `weft token list` shows.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Withdraw a token.  Nobody can use it any more."""
    from weft.api.json.accounts import secret_json

    with opened(home) as weft:
        withdrawn, names = weft.accounts.withdraw_token(token_id), _names(weft)
    print_result(json, secret_json(withdrawn, names), f"Token {token_id} is withdrawn.")


def audit(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only the actions of this user.")] = None,
    since: Annotated[str | None, typer.Option(metavar="T", help="Only the actions from this instant on.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The latest N actions.")] = 100,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show who did what, when and from where.  A home without users keeps no log."""
    from weft.api.json.accounts import audit_json

    begin = None if since is None else micros(since)
    with opened(home) as weft:
        records = weft.accounts.audit(limit, user=user, since=begin)
    rows = (
        (moment(r.at), plain(r.user), r.door, r.address or "-", r.action, plain(r.about or "-"), plain(r.outcome))
        for r in records
    )
    columns = ("at", "user", "door", "address", "action", "about", "outcome")
    print_list(json, map(audit_json, records), "The audit log has no actions.", columns, rows)
