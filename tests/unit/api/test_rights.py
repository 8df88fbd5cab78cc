"""What each principal may see and do: every method, from each role, with each grant."""

from __future__ import annotations

import hashlib
import inspect
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft import Weft
from weft.api.accounts import Accounts
from weft.api.acting import own_limits
from weft.api.requirements import requirement_of
from weft.catalog.users import UserLimits
from weft.errors import Conflict, NotAllowed, NotFound, Refused, SqlError, WeftError
from weft.rights.principal import OWNER, Principal, Right

UNRESTRICTED = {"open", "close", "closed", "opened", "home", "clock", "accounts", "home_id"}
"""Members of ``Weft`` without a right: they open and close the home, and name its folder, its ID and its clock."""
CHECKED_INSIDE = {"catalog"}
"""A property, which raises NotAllowed by itself."""

READ, LOAD, INSTALL, OWN, SELF, ADMIN, ANY, CHANNEL = (
    Right.READ,
    Right.LOAD,
    Right.INSTALL,
    Right.OWN,
    Right.SELF,
    Right.ADMIN,
    Right.ANY,
    Right.CHANNEL,
)
TABLE: dict[str, tuple[Right, tuple[Any, ...]]] = {
    "acting_as": (ADMIN, (OWNER,)),
    "add_source": (ADMIN, ("s", "csv", "x.csv", "id")),
    "add_view": (ADMIN, ("v", "SELECT id FROM open")),
    "answer": (READ, ("{id}", 1)),
    "append": (LOAD, ("{table}", [{"id": 9}])),
    "apply": (ADMIN, ("/nowhere",)),
    "attach_table": (ADMIN, ("a", "/nowhere")),
    "backtest": (INSTALL, ("SELECT id FROM {table}",)),
    "channel_counts": (READ, ()),
    "feed": (READ, ()),
    "copy": (ADMIN, ("/nowhere",)),
    "correct_source": (ADMIN, ("s", {"id": 1}, "1993-04-01", "1993-04-02", None)),
    "current_views": (INSTALL, ("SELECT id FROM {table}", None)),
    "deliver": (ADMIN, ()),
    "deliveries": (OWN, ("{query}",)),
    "describe": (READ, ("{table}",)),
    "destroy": (ADMIN, ()),
    "discarded_tables": (READ, ()),
    "doctor": (ADMIN, ()),
    "drop_table": (ADMIN, ("{table}",)),
    "explain": (INSTALL, ("SELECT id FROM {table}",)),
    "explain_installed": (READ, ("{query}",)),
    "explain_tick": (OWN, ("{query}",)),
    "explain_view": (READ, ("{view}",)),
    "export": (ADMIN, ("/nowhere",)),
    "figures": (ADMIN, ()),
    "fill_query": (READ, ("{saved}",)),
    "health": (ADMIN, ()),
    "history": (READ, ("{table}",)),
    "index_answers": (ADMIN, ()),
    "ingest_file": (LOAD, (io.BytesIO(b"id\n1\n"), "{table}")),
    "ingest_log": (ADMIN, ("log", "sig")),
    "ingest_mail": (ADMIN, ("x.mbox",)),
    "install": (INSTALL, ("new", "SELECT id FROM {table}")),
    "install_all": (INSTALL, ([],)),
    "install_saved": (READ, ("{saved}", "new")),
    "keep_views": (ADMIN, ()),
    "latest_answers": (READ, ([],)),
    "latest_ticks": (READ, ()),
    "leases": (ADMIN, ()),
    "load_past": (ADMIN, ("s", "x.csv", "at")),
    "known": (INSTALL, ("SELECT id FROM nothing",)),
    "lies_ahead": (ANY, (None,)),
    "loads": (READ, ("{table}",)),
    "one_state": (ANY, ()),
    "maintain": (ADMIN, ()),
    "make_table": (ADMIN, ("t", "a INT")),
    "message_page": (OWN, ()),
    "mute": (OWN, ("{query}",)),
    "news_page": (READ, ()),
    "news_since": (READ, (0, [])),
    "pause": (OWN, ("{query}",)),
    "plan_tree": (READ, ("{query}",)),
    "poll_feed": (ADMIN, ("s",)),
    "poll_source": (ADMIN, ("s",)),
    "preview_file": (LOAD, (io.BytesIO(b"id\n1\n"), "{table}")),
    "quarantine_counts": (READ, ()),
    "quarantine_page": (LOAD, ("{table}",)),
    "quarantined": (LOAD, ()),
    "quarantined_bytes": (LOAD, (7,)),
    "query": (READ, ("{id}",)),
    "query_counts": (READ, ()),
    "query_page": (READ, ()),
    "queries": (READ, ()),
    "redeliver": (OWN, ("{query}",)),
    "refresh_views": (READ, ("{view}",)),
    "remove": (OWN, ("{query}",)),
    "remove_saved": (OWN, ("{saved}",)),
    "remove_source": (ADMIN, ("s",)),
    "remove_view": (ADMIN, ("{view}",)),
    "rename_table": (ADMIN, ("{table}", "u")),
    "replacement": (OWN, ("{query}", "SELECT id FROM open")),
    "results": (READ, ("{query}",)),
    "require_load": (LOAD, ("{table}",)),
    "resume": (OWN, ("{query}",)),
    "retry_quarantine": (LOAD, ([7],)),
    "run": (ADMIN, ()),
    "save_query": (INSTALL, ("s", "SELECT id FROM {table} WHERE id = {{x}}", ["x:int"])),
    "saved_by_id": (READ, (1,)),
    "saved_queries": (READ, ()),
    "saved_query": (READ, ("{saved}",)),
    "schemas": (READ, ()),
    "search": (READ, ("x",)),
    "session": (ADMIN, ()),
    "settings": (ADMIN, ()),
    "show": (READ, ("{query}",)),
    "show_view": (READ, ("{view}",)),
    "source": (ADMIN, ("s",)),
    "source_page": (ADMIN, ()),
    "sources": (ADMIN, ()),
    "sources_of": (ADMIN, ([],)),
    "table_page": (READ, ()),
    "subscribe": (OWN, ("{query}", "email:x@example.com")),
    "synopsis_sizes": (READ, ("{query}",)),
    "table": (READ, ("{table}",)),
    "tables": (READ, ()),
    "test_channel": (CHANNEL, ("email:x@example.com",)),
    "tick": (ADMIN, ()),
    "time_driven": (READ, ([],)),
    "troubled_channels": (OWN, ()),
    "try_query": (INSTALL, ("SELECT id FROM {table}",)),
    "undo_load": (LOAD, ("{load}",)),
    "unmute": (OWN, ("{query}",)),
    "unsubscribe": (OWN, ("{query}", "email:x@example.com")),
    "view_page": (READ, ()),
    "views": (READ, ()),
    "warnings_of_view": (READ, ("{view}",)),
    "why": (READ, ("{query}", 1)),
    "writing": (ADMIN, ("test",)),
}
"""The right that each method of ``Weft`` needs, and arguments that name an object."""
ACCOUNTS: dict[str, tuple[Right, tuple[Any, ...]]] = {
    "add_group": (ADMIN, ("g",)),
    "add_member": (ADMIN, ("g", "anna")),
    "add_user": (ADMIN, ("new",)),
    "audit": (ADMIN, ()),
    "change_password": (SELF, ("one", "another one")),
    "change_user": (ADMIN, ("anna",)),
    "create_token": (SELF, ()),
    "grant": (ANY, ("bo", "read", "results.{query}")),
    "grants": (ANY, ()),
    "groups": (ADMIN, ()),
    "in_use": (ANY, ()),
    "reach": (ANY, ()),
    "mark_read": (READ, (99,)),
    "mark_unread": (READ, (99, [1])),
    "me": (ANY, ()),
    "of_proxy": (ADMIN, ("anna", "127.0.0.1")),
    "of_session": (ANY, ("x",)),
    "of_share": (ANY, ("x",)),
    "of_token": (ANY, ("x",)),
    "password_link": (ADMIN, ("anna",)),
    "prefer": (SELF, ()),
    "read_ordinals": (READ, ({99: (1, 2)},)),
    "remove_group": (ADMIN, ("g",)),
    "remove_member": (ADMIN, ("g", "anna")),
    "remove_user": (ADMIN, ("anna",)),
    "revoke": (ANY, ("bo", "read", "results.{query}")),
    "set_password": (ANY, ("x", "a good password")),
    "share_link": (OWN, ("{query}",)),
    "share_links": (OWN, ("{query}",)),
    "sign_in": (ANY, ("nobody", "x")),
    "sign_out": (ANY, ("x",)),
    "tokens": (SELF, ()),
    "unread": (READ, ([],)),
    "unsubscribe_by": (ANY, ("1.x",)),
    "user": (ADMIN, ("anna",)),
    "users": (ADMIN, ()),
    "withdraw_link": (OWN, ("{query}", 1)),
    "withdraw_token": (SELF, (1,)),
}
"""The same for ``Weft.accounts``."""


def _public(owner: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(owner) if not name.startswith("_")}


def test_every_method_is_in_the_table_with_the_right_that_it_declares() -> None:
    assert _public(Weft) - UNRESTRICTED - CHECKED_INSIDE == TABLE.keys()
    assert _public(Accounts) == ACCOUNTS.keys()
    for owner, table in ((Weft, TABLE), (Accounts, ACCOUNTS)):
        declared = {name: requirement_of(getattr(owner, name)) for name in table}
        assert {name: each and each.right for name, each in declared.items()} == {
            name: right for name, (right, _) in table.items()
        }


def test_a_method_names_its_objects_by_arguments_that_it_has() -> None:
    for owner, table in ((Weft, TABLE), (Accounts, ACCOUNTS)):
        for name in table:
            needed = requirement_of(getattr(owner, name))
            assert needed is not None
            assert needed.arguments.keys() <= inspect.signature(needed.method).parameters.keys(), name


def test_passwords_and_secrets_are_not_logged() -> None:
    for name in ("change_password", "set_password", "sign_in"):
        needed = requirement_of(getattr(Accounts, name))
        assert needed is not None
        given = dict.fromkeys(("old", "new", "link", "password"), "hidden")
        assert "hidden" not in (needed.about(given) or "")


def test_the_log_shows_the_kind_of_a_channel_and_no_url() -> None:
    needed = requirement_of(Weft.subscribe)
    assert needed is not None
    hook = "webhook:https://hooks.example.com/a-secret"
    assert needed.about({"name": "q", "to": hook}) == "q webhook:"
    assert needed.about({"name": "q", "to": ["email:a@b.c", hook]}) == "q email: webhook:"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Weft]:
    yield from _made(tmp_path / "home")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weft]:
    """The same home, for calls that are refused and therefore change nothing."""
    yield from _made(tmp_path_factory.mktemp("unchanged") / "home")


def _made(folder: Path) -> Iterator[Weft]:
    """A home with the tables open and secret, a view, and a query of the owner over each of the tables."""
    with Weft.open(folder, clock="replay", create=True) as made:
        made.tick(now="2026-03-01")
        for name in ("open", "secret"):
            made.make_table(name, "id INT")
            made.append(name, [{"id": 1}])
            made.install(f"over_{name}", f"SELECT id FROM {name}", user="owner")
        tracked = folder / "staff.csv"
        tracked.write_text("id,hired\n1,2026-02-28 12:00:00\n")
        made.add_source("staff", "csv", tracked, "id")
        made.add_view("view_secret", "SELECT id FROM staff")
        made.save_query("saved_secret", "SELECT id FROM secret WHERE id = {{id}}", ["id:int=1"])
        made.accounts.add_user("root", "admin", inherit=True)
        made.accounts.add_user("anna", "author")
        made.accounts.add_user("bo", "reader")
        yield made


def acting(home: Weft, name: str, scopes: frozenset[Any] | None = None) -> Weft:
    user = home.accounts.user(name)
    return home.acting_as(Principal(name, user.user_id, scopes=scopes))


def _filled(arguments: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
    names = {"{table}": kind, "{query}": f"over_{kind}", "{view}": f"view_{kind}", "{saved}": f"saved_{kind}"}

    def fill(given: Any) -> Any:
        if isinstance(given, io.BytesIO):
            return io.BytesIO(given.getvalue())
        if given in ("{load}", "{id}"):
            return 2 if kind == "secret" else 99
        for key, name in names.items():
            given = given.replace(key, name) if isinstance(given, str) else given
        return given

    return tuple(fill(each) for each in arguments)


def _outcome(call: Callable[[], Any]) -> WeftError | Any:
    try:
        done = call()
        if hasattr(done, "__enter__") and not isinstance(done, Weft):
            done.__enter__()
        return next(done, None) if inspect.isgenerator(done) else done
    except WeftError as error:
        return error


@pytest.mark.parametrize("user", ["anna", "bo"])
@pytest.mark.parametrize("name", [each for each in TABLE if TABLE[each][0] is ADMIN])
def test_actions_of_administrators_are_refused_to_others(unchanged: Weft, user: str, name: str) -> None:
    outcome = _outcome(lambda: getattr(acting(unchanged, user), name)(*_filled(TABLE[name][1], "secret")))
    assert isinstance(outcome, NotAllowed)
    assert outcome.message == "only an administrator may do this"


@pytest.mark.parametrize("user", ["anna", "bo"])
@pytest.mark.parametrize("name", [each for each in ACCOUNTS if ACCOUNTS[each][0] is ADMIN])
def test_accounts_are_changed_by_administrators_only(unchanged: Weft, user: str, name: str) -> None:
    outcome = _outcome(lambda: getattr(acting(unchanged, user).accounts, name)(*ACCOUNTS[name][1]))
    assert isinstance(outcome, NotAllowed)


NAMING = [
    name for name, (right, given) in TABLE.items() if right is not ADMIN and any("{" in str(each) for each in given)
]


@pytest.mark.parametrize("user", ["anna", "bo"])
@pytest.mark.parametrize("name", NAMING)
def test_an_object_that_one_may_not_see_is_refused_like_a_missing_one(unchanged: Weft, user: str, name: str) -> None:
    method = getattr(acting(unchanged, user), name)
    hidden, missing = (
        _outcome(lambda kind=kind: method(*_filled(TABLE[name][1], kind)))  # type: ignore[misc]
        for kind in ("secret", "absent")
    )
    if name == "current_views":
        assert not isinstance(hidden, WeftError) or isinstance(hidden, NotAllowed)
        return
    assert isinstance(hidden, Refused) and type(hidden) is type(missing)
    assert isinstance(hidden, NotFound | SqlError) or TABLE[name][0] in (INSTALL, OWN)
    written = str(hidden).replace("secret", "absent").replace("load 2", "load 99").replace("#2", "#99")
    assert written == str(missing)
    assert "open" not in written


@pytest.mark.parametrize("name", ["share_link", "share_links", "withdraw_link", "grant", "revoke"])
def test_a_hidden_query_is_not_shared(unchanged: Weft, name: str) -> None:
    method = getattr(acting(unchanged, "anna").accounts, name)
    hidden, missing = (
        _outcome(lambda kind=kind: method(*_filled(ACCOUNTS[name][1], kind)))  # type: ignore[misc]
        for kind in ("secret", "absent")
    )
    assert isinstance(hidden, NotFound)
    assert str(hidden).replace("secret", "absent") == str(missing)


def test_lists_show_only_what_one_may_see(home: Weft) -> None:
    for user in ("anna", "bo"):
        seen = acting(home, user)
        assert (seen.tables(), seen.queries(), seen.loads(), seen.views(), dict(seen.schemas("results over_open"))) == (
            (),
            (),
            (),
            (),
            {},
        )
        home.accounts.grant(user, "read", "open")
        home.accounts.grant(user, "read", "results.over_open")
        assert [each.name for each in seen.tables()] == ["open"]
        assert [each.name for each in seen.queries()] == ["over_open"]
        assert set(seen.schemas("results over_open over_secret")) == {"open", "results.over_open"}
        assert seen.loads() == home.loads("open")
        assert seen.describe("open").samples == home.describe("open").samples  # type: ignore[union-attr]
        assert list(seen.results("over_open")) == []
        assert seen.show("over_open").subscriptions == ()
        with pytest.raises(NotAllowed):
            seen.append("open", {"id": 2})
        with pytest.raises(NotAllowed):
            seen.pause("over_open")


def test_only_administrators_see_the_folders_of_loads(home: Weft, tmp_path: Path) -> None:
    paths = [tmp_path / "a, b.csv", tmp_path / "c.csv"]
    for number, path in enumerate(paths):
        path.write_text(f"id\n1{number}\nx{number}\n")
    whole, names = ", ".join(map(str, paths)), "a, b.csv, c.csv"
    home.ingest_file(paths, "open")
    bo, anna, root = (acting(home, name) for name in ("bo", "anna", "root"))
    home.accounts.grant("bo", "read", "open")
    home.accounts.grant("anna", "load", "open")
    scoped = acting(home, "root", frozenset({"read"}))
    for seen, shown in ((bo, names), (anna, names), (scoped, names), (root, whole), (home, whole)):
        assert [each.load.source for each in seen.loads("open" if seen is not anna else None)] == [shown, "these rows"]
        assert shown in [each.load.source for each in seen.loads()]
    for seen, each_shown in ((anna, [each.name for each in paths]), (root, [str(each) for each in paths])):
        assert [each.source for each in seen.quarantined()] == each_shown
        assert [each.source for each in seen.quarantine_page("open")] == each_shown
    assert anna.undo_load(anna.loads()[0].load.load_id).load.load.source == names


def test_an_upload_does_not_show_the_folder_of_an_unfinished_load(home: Weft) -> None:
    content = b"id\n7\n"
    files = [("/srv/a.csv", hashlib.sha256(content).hexdigest()), ("/srv/b.csv", "0")]
    with home.writing("a test") as writer:
        writer.loads.begin(home.table("open").table_id, "/srv/a.csv, /srv/b.csv", "file", "1", 0, files)
    home.accounts.grant("anna", "load", "open")
    for seen, shown in ((home, "a load of /srv/a.csv, /srv/b.csv into"), (acting(home, "anna"), "a load of a.csv, b")):
        with pytest.raises(Conflict, match=shown):
            seen.ingest_file(io.BytesIO(content), "open")


def test_an_administrator_sees_and_does_everything(home: Weft) -> None:
    root = acting(home, "root")
    assert (len(root.tables()), len(root.queries())) == (4, 2)
    root.append("secret", {"id": 2})
    root.pause("over_secret")
    root.accounts.change_user("bo", role="author")
    assert root.install("mine", "SELECT id FROM secret").user == "root"


def listed(seen: Weft) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the names of the tables, of the views by two lists, and of the saved queries on the pages of somebody."""
    return (
        [each.name for each in seen.table_page()],
        [each.name for each in seen.table_page(kind="view")],
        [view.name for view, _ in seen.view_page()],
        [each.name for each in seen.saved_queries(limit=5)],
    )


def test_pages_have_only_visible_objects(home: Weft) -> None:
    """A page compares IDs in SQL, where ``tables``, ``views`` and ``saved_query`` ask for the right to each object."""
    bo, anna, root = (acting(home, name) for name in ("bo", "anna", "root"))
    view = ["view_secret"]
    assert listed(root) == (["open", "secret", "staff", *view], view, view, ["saved_secret"])
    assert listed(bo) == listed(anna) == ([], [], [], [])
    home.accounts.grant("bo", "load", "open")
    home.accounts.grant("anna", "read", "view_secret")
    home.accounts.grant("anna", "read", "saved.saved_secret")
    assert listed(bo) == (["open"], [], [], [])
    assert listed(anna) == (view, view, view, ["saved_secret"])
    assert anna.saved_by_id(1) == root.saved_query("saved_secret")
    for seen in (bo, anna, root):
        assert listed(seen)[0] == sorted(each.name for each in seen.tables())
        assert listed(seen)[2] == sorted(each.name for each in seen.views())
    with pytest.raises(NotFound):
        bo.saved_by_id(1)
    unscoped = acting(home, "root", frozenset({Right.SELF}))
    with pytest.raises(NotAllowed):
        unscoped.table_page()


def test_rights_come_from_groups_and_from_everyone(home: Weft) -> None:
    home.accounts.add_group("team")
    home.accounts.grant("team", "read", "secret")
    bo = acting(home, "bo")
    assert bo.tables() == ()
    home.accounts.add_member("team", "bo")
    assert [each.name for each in bo.tables()] == ["secret"]
    home.accounts.remove_member("team", "bo")
    assert bo.tables() == ()
    home.accounts.grant("everyone", "load", "open")
    assert [each.name for each in bo.tables()] == ["open"]
    bo.append("open", {"id": 5})
    with pytest.raises(NotAllowed):
        bo.describe("open")
    home.accounts.revoke("everyone", "load", "open")
    with pytest.raises(NotFound):
        bo.append("open", {"id": 6})


def test_a_change_by_another_process_has_an_effect_at_once(home: Weft) -> None:
    """Roles and grants are kept in memory, but each change is noticed, also that of a catalog opened elsewhere."""
    anna = acting(home, "anna")
    home.make_table("hidden", "id INT")
    with Weft.open(home.home) as other:
        for change, sees in (
            (lambda: other.accounts.grant("anna", "read", "hidden"), True),
            (lambda: other.accounts.revoke("anna", "read", "hidden"), False),
            (lambda: other.accounts.add_group("team"), False),
            (lambda: other.accounts.grant("team", "read", "hidden"), False),
            (lambda: other.accounts.add_member("team", "anna"), True),
            (lambda: other.accounts.remove_group("team"), False),
            (lambda: other.accounts.change_user("anna", role="admin"), True),
            (lambda: other.accounts.change_user("anna", role="author"), False),
            (lambda: other.accounts.grant("everyone", "read", "hidden"), True),
        ):
            change()
            assert ("hidden" in {each.name for each in anna.tables()}) == sees
        other.drop_table("hidden")
        other.make_table("later", "id INT")
        assert "later" not in {each.name for each in anna.tables()}, "a grant ends with its object"


def test_an_author_installs_over_what_she_may_read(home: Weft) -> None:
    anna = acting(home, "anna")
    with pytest.raises(SqlError, match="secret"):
        anna.install("mine", "SELECT id FROM secret")
    home.accounts.grant("anna", "read", "secret")
    assert anna.install("mine", "SELECT id FROM secret").user == "anna"
    with pytest.raises(NotAllowed, match="cannot work as bo"):
        anna.install("other", "SELECT id FROM secret", user="bo")
    with pytest.raises(NotAllowed, match="may not add email: channels"):
        anna.subscribe("mine", "email:x@example.com")
    for channel in ("exec:true", "file:x.csv", "delta:x", "imaps://a@h/x?password_env=HOME"):
        with pytest.raises(NotAllowed):
            anna.install("third", "SELECT id FROM secret", to=channel)
    with pytest.raises(NotAllowed):
        anna.install("third", "SELECT id FROM secret", keep="synopsis", discard_history=True)
    anna.pause("mine")
    anna.resume("mine")
    anna.remove("mine")


@pytest.mark.parametrize("kind", ["exec", "file", "delta", "imap", "imaps"])
def test_channels_that_touch_the_server_are_never_granted(home: Weft, kind: str) -> None:
    with pytest.raises(Refused, match="cannot be granted"):
        home.accounts.grant("anna", "channel", kind)


def test_a_loader_gives_bytes_and_no_path(home: Weft) -> None:
    home.accounts.grant("bo", "load", "open")
    bo = acting(home, "bo")
    assert bo.ingest_file(io.BytesIO(b"id\n7\n"), "open").stored == 1
    for given, options in (("/etc/passwd", {}), (io.BytesIO(b"id,x\n8,1\n"), {"evolve": True})):
        with pytest.raises(NotAllowed):
            bo.ingest_file(given, "open", **options)  # type: ignore[arg-type]
    with pytest.raises(NotAllowed, match="cannot work as anna"):
        bo.append("open", {"id": 9}, user="anna")
    load = next(each.load.load_id for each in bo.loads())
    bo.undo_load(load)


def test_the_quarantine_is_for_those_who_load(home: Weft) -> None:
    home.ingest_file(io.BytesIO(b"id\n3\nno number\n"), "secret")
    bo = acting(home, "bo")
    home.accounts.grant("bo", "read", "secret")
    with pytest.raises(NotAllowed, match="bo may load rows into no table"):
        bo.quarantined()
    home.accounts.grant("bo", "load", "open")
    assert (len(home.quarantined()), bo.quarantined(), dict(bo.quarantine_counts())) == (1, (), {})
    other, own = home.table("open").table_id, home.table("secret").table_id
    assert [dict(home.quarantine_counts(each)) for each in (None, [own, other], [other], [])] == [{own: 1}] * 2 + [
        {}
    ] * 2
    key = home.quarantined()[0].quarantine_id
    for missing in (key, 99):
        with pytest.raises(NotFound, match=f"no open record {missing}"):
            bo.quarantined_bytes(missing)
    home.accounts.grant("bo", "load", "secret")
    assert bo.quarantined() == home.quarantined()
    assert bo.quarantined_bytes(key) == home.quarantined_bytes(key) == b"no number\n"
    assert bo.quarantined_bytes(key, 2) == b"no"


def test_the_owner_of_a_query_shares_it(home: Weft) -> None:
    home.accounts.grant("anna", "read", "secret")
    anna, bo = acting(home, "anna"), acting(home, "bo")
    anna.install("mine", "SELECT id FROM secret")
    with pytest.raises(NotFound):
        bo.results("mine")
    anna.accounts.grant("bo", "read", "results.mine")
    assert list(bo.results("mine")) == []
    assert [each.subject for each in anna.accounts.grants(about="results.mine")] == ["bo"]
    for about in ("secret", "open"):
        with pytest.raises(NotAllowed):
            anna.accounts.grant("bo", "read", about)
    anna.accounts.revoke("bo", "read", "results.mine")
    with pytest.raises(NotFound):
        bo.results("mine")


def test_a_link_shows_one_query_until_it_is_withdrawn(home: Weft) -> None:
    issued = home.accounts.share_link("over_open")
    principal = home.accounts.of_share(issued.secret)
    assert principal is not None
    visitor = home.acting_as(principal)
    assert list(visitor.results("over_open")) == []
    assert [each.name for each in visitor.queries()] == ["over_open"]
    assert visitor.tables() == ()
    for refused in (lambda: visitor.results("over_secret"), lambda: visitor.describe("open")):
        with pytest.raises(NotFound):
            refused()
    with pytest.raises(NotAllowed):
        visitor.install("mine", "SELECT id FROM results.over_open")
    home.accounts.withdraw_link("over_open", issued.record.secret_id)
    assert home.accounts.of_share(issued.secret) is None


def test_a_token_has_the_rights_of_its_scopes_only(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    home.accounts.grant("anna", "load", "open")
    reading = acting(home, "anna", frozenset({"read"}))
    assert [each.name for each in reading.tables()] == ["open"]
    for refused in (
        lambda: reading.append("open", {"id": 2}),
        lambda: reading.install("mine", "SELECT id FROM open"),
    ):
        with pytest.raises(NotAllowed, match="the token does not include the right to"):
            refused()
    with pytest.raises(NotAllowed, match="a token gives no access to the account of its user"):
        reading.accounts.create_token()
    with pytest.raises(NotAllowed, match="only an administrator may do this"):  # anna has no better token
        reading.drop_table("open")
    with pytest.raises(NotAllowed, match="the token does not include the right to admin"):
        acting(home, "root", frozenset({"read"})).drop_table("open")
    loading = acting(home, "anna", frozenset({"load"}))
    loading.append("open", {"id": 2})
    with pytest.raises(NotAllowed):
        loading.describe("open")
    root = acting(home, "root", frozenset({"read"}))
    assert len(root.tables()) == 4
    with pytest.raises(NotAllowed):
        root.drop_table("open")
    assert root.home and _outcome(lambda: root.catalog).__class__ is NotAllowed


def test_a_removed_user_may_do_nothing(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    anna = acting(home, "anna")
    home.accounts.remove_user("anna")
    assert anna.tables() == anna.queries() == ()
    for refused in (lambda: anna.accounts.me(), lambda: anna.install("mine", "SELECT id FROM open")):
        with pytest.raises(NotAllowed):
            refused()
    home.accounts.add_user("anna", "author")
    assert anna.tables() == ()


def test_a_new_user_inherits_no_queries_by_her_name_alone(home: Weft) -> None:
    home.install("old", "SELECT id FROM secret", user="zoe")
    with pytest.raises(Conflict, match="1 query belongs to the name zoe"):
        home.accounts.add_user("zoe")
    home.accounts.grant("anna", "read", "open")
    acting(home, "anna").install("mine", "SELECT id FROM open")
    home.accounts.remove_user("anna")
    with pytest.raises(Conflict, match="--inherit"):
        home.accounts.add_user("anna", "author")
    home.accounts.add_user("anna", "author", inherit=True)
    assert [each.name for each in acting(home, "anna").queries()] == ["mine"]


def test_a_paused_query_shows_its_answers_and_its_reason_to_few(home: Weft) -> None:
    home.accounts.grant("anna", "read", "secret")
    anna, bo, root = (acting(home, name) for name in ("anna", "bo", "root"))
    anna.install("mine", "SELECT id FROM secret")
    anna.accounts.grant("bo", "read", "results.mine")
    anna.install("above", "SELECT id FROM results.mine")
    home.accounts.revoke("anna", "read", "secret")
    home.catalog.queries.named("mine")
    with home.writing("test") as writer:
        writer.rechecks.run()
    with pytest.raises(NotAllowed, match="mine is paused: its owner anna may not read secret"):
        anna.results("mine")
    with pytest.raises(NotAllowed) as refused:
        bo.results("mine")
    assert "secret" not in str(refused.value)
    assert [each.reason for each in bo.queries()] == ["its owner has lost a right"]
    assert [each.reason for each in anna.queries()] == [
        "its owner anna may not read secret",
        "it reads results.mine, whose owner has lost a right",
    ]
    assert set(anna.schemas("results.mine")) == set()
    assert list(root.results("mine")) == []
    with pytest.raises(NotAllowed):
        anna.resume("mine")
    with pytest.raises(NotAllowed):
        root.resume("mine")
    home.accounts.grant("anna", "read", "secret")
    anna.resume("mine")
    assert list(bo.results("mine")) == []


def test_readers_that_one_may_not_see_have_no_name(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    anna = acting(home, "anna")
    anna.install("mine", "SELECT id FROM open")
    home.install("hidden", "SELECT id FROM results.mine", user="owner")
    assert anna.show("mine").read_by == ()
    with pytest.raises(Conflict) as refused:
        anna.remove("mine")
    assert "hidden" not in str(refused.value)
    with pytest.raises(Conflict, match="hidden"):
        home.remove("mine")


def test_limits_are_those_of_the_user(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    home.accounts.change_user("anna", limits=UserLimits(queries=1))
    anna = acting(home, "anna")
    anna.install("one", "SELECT id FROM open")
    with pytest.raises(Refused, match="anna has 1 query of at most 1"):
        anna.install("two", "SELECT id + 1 AS b FROM open")
    with pytest.raises(Refused):
        home.install("two", "SELECT id + 1 AS b FROM open", user="anna")


def test_a_query_with_more_rows_than_its_owner_may_add_fails(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    home.accounts.change_user("anna", limits=UserLimits(rows=2))
    acting(home, "anna").install("hers", "SELECT id FROM open", keep="synopsis")
    home.install("others", "SELECT id FROM open", keep="synopsis", user="owner")
    home.append("open", [{"id": 20 + n} for n in range(2)])
    home.tick(["hers", "others"], now="2026-03-02")
    found = {each.name: each for each in home.queries() if each.name in ("hers", "others")}
    assert (found["others"].state, found["others"].rows) == ("active", 3)
    assert (found["hers"].state, found["hers"].rows) == ("failed", 0)
    assert "the limit of its owner is 2" in (found["hers"].reason or "")


def test_a_query_that_one_tries_has_her_limit_of_time(home: Weft) -> None:
    home.accounts.change_user("anna", limits=UserLimits(seconds=3))
    home.accounts.change_user("bo", limits=UserLimits(seconds=1_000_000))
    assert own_limits(acting(home, "anna").opened).seconds == 3
    assert own_limits(acting(home, "bo").opened) == own_limits(home.opened)


def test_a_right_to_a_view_needs_none_to_its_tables(home: Weft) -> None:
    """A standing query reads the definition of a view that depends on NOW, and therefore the tables below it."""
    home.add_view("recent", "SELECT id FROM staff WHERE hired > NOW() - INTERVAL 1 DAY")
    home.accounts.grant("anna", "read", "recent")
    anna = acting(home, "anna")
    installed = anna.install("mine", "SELECT id FROM recent")
    tables = {each.name: each.table_id for each in home.tables()}
    assert installed.needs == (tables["recent"],)
    with pytest.raises(SqlError):
        anna.install("other", "SELECT id FROM staff")
    with home.writing("test") as writer:
        writer.rechecks.run()
    assert [each.state for each in anna.queries()] == ["active"]
    home.accounts.grant("anna", "read", "staff")
    both = "SELECT r.id FROM recent r JOIN staff s ON s.id = r.id"
    assert anna.install("both", both).needs == tuple(sorted((tables["recent"], tables["staff"])))
    home.accounts.revoke("anna", "read", "staff")
    with home.writing("test") as writer:
        writer.rechecks.run()
    assert {each.name: each.state for each in anna.queries()} == {"mine": "active", "both": "paused"}


def test_an_administrator_installs_for_an_owner_who_has_the_rights(home: Weft) -> None:
    with pytest.raises(NotAllowed, match="its owner anna may not read open"):
        home.install("hers", "SELECT id FROM open", user="anna")
    with pytest.raises(NotAllowed, match="is a reader"):
        home.install("his", "SELECT id FROM open", user="bo")
    home.accounts.grant("anna", "read", "open")
    assert home.install("hers", "SELECT id FROM open", user="anna").needs == (1,)


def test_actions_are_logged_with_their_outcome(home: Weft) -> None:
    home.accounts.grant("anna", "read", "open")
    user = home.accounts.user("anna")
    anna = home.acting_as(Principal("anna", user.user_id, door="api", address="192.0.2.7"))
    anna.install("mine", "SELECT id FROM open")
    with pytest.raises(NotAllowed):
        anna.drop_table("open")
    with pytest.raises(Conflict):
        anna.install("mine", "SELECT id FROM open")
    logged = [
        (each.user, each.door, each.address, each.action, each.about, each.outcome)
        for each in home.accounts.audit(3, user="anna")
    ]
    where = ("anna", "api", "192.0.2.7")
    assert logged == [
        (*where, "install", "mine", "there is already a query 'mine'"),
        (*where, "drop_table", "open", "only an administrator may do this"),
        (*where, "install", "mine", "done"),
    ]


def stays(root: Weft, message: str) -> None:
    """The administrator ``root`` can neither be removed nor get another role, by any spelling of the name."""
    for last in (
        lambda: root.accounts.remove_user("root"),
        lambda: root.accounts.change_user("ROOT", role="author"),
        lambda: root.accounts.change_user("root", role="reader"),
    ):
        with pytest.raises(Conflict, match=message):
            last()


def test_an_administrator_stays(home: Weft) -> None:
    """Only the owner of the folder, who is always an administrator, may remove the last one."""
    root = acting(home, "root")
    stays(root, "root is the only administrator")
    root.accounts.change_user("root", role="admin", limits=UserLimits(queries=5))
    root.accounts.change_user("bo", role="admin")
    root.accounts.change_user("root", role="author")
    with pytest.raises(Conflict, match="bo is the only administrator"):
        acting(home, "bo").accounts.remove_user("bo")
    home.accounts.remove_user("bo")
    assert {each.role for each in home.accounts.users()} == {"author"}


def test_an_administrator_who_can_sign_in_stays(home: Weft) -> None:
    for name in ("root", "bo"):
        home.accounts.change_user(name, role="admin")
    home.accounts.set_password(home.accounts.password_link("root").secret, "a long enough password")
    root = acting(home, "root")
    stays(root, "root is the only administrator with a password")
    home.accounts.set_password(home.accounts.password_link("bo").secret, "a long enough password")
    root.accounts.remove_user("root")


def test_an_administrator_whom_a_proxy_signs_in_needs_no_password(home: Weft) -> None:
    (home.home / "weft.toml").write_text('[web]\nproxy = ["192.0.2.1"]\n')
    home.accounts.change_user("bo", role="admin")
    home.accounts.set_password(home.accounts.password_link("root").secret, "a long enough password")
    acting(home, "root").accounts.remove_user("root")
    with pytest.raises(Conflict, match="bo is the only administrator"):
        acting(home, "bo").accounts.remove_user("bo")


def test_reading_the_quarantine_is_no_action(home: Weft) -> None:
    home.ingest_file(io.BytesIO(b"id\nseven\n"), "open")
    (record,) = home.quarantined()
    home.accounts.grant("anna", "read", "open")
    home.accounts.grant("anna", "load", "open")
    anna = acting(home, "anna")
    assert anna.quarantine_page("open") and anna.quarantined_bytes(record.quarantine_id)
    assert home.accounts.audit(user="anna") == ()


def test_a_home_without_users_keeps_no_log(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as plain:
        plain.make_table("t", "a INT")
        assert plain.accounts.audit() == ()
        assert not plain.accounts.in_use()


def test_acting_weft_is_closed_with_the_home(home: Weft) -> None:
    anna = acting(home, "anna")
    home.close()
    assert anna.closed
