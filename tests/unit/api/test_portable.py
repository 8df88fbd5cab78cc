"""Export the definitions of a home as text files, and apply such files to a home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP
from weft.api import Weft
from weft.api.portable.described import Definitions, described
from weft.api.portable.folder import read_folder
from weft.catalog.users import UserLimits
from weft.errors import Conflict, NotFound, Refused
from weft.rights.principal import Principal

LATE = "SELECT o.id, o.buyer\nFROM orders o\nWHERE o.ts < NOW() - INTERVAL 2 DAYS"
HOOK = "webhook:https://hooks.example.com/services/T0/B0/s3cr3t-token#as=slack"


def _tables(weft: Weft) -> None:
    columns = (("id", BIGINT), ("buyer", STRING), ("ts", TIMESTAMP))
    weft.catalog.tables.create("orders", columns, ("id",))


@pytest.fixture
def staff(tmp_path: Path) -> str:
    (tmp_path / "staff.csv").write_text("id,name,dept,hired\n1,Ann,Dev,2026-01-01\n2,Ben,Ops,2026-02-01\n")
    return str(tmp_path / "staff.csv")


@pytest.fixture
def full(tmp_path: Path, staff: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    """A home with a source, two views, and queries of every kind."""
    monkeypatch.setenv("WEFT_SMTP_HOST", "mail.example.com")
    monkeypatch.setenv("WEFT_SMTP_FROM", "weft@example.com")
    with Weft.open(tmp_path / "full", create=True) as opened:
        _tables(opened)
        opened.add_source(
            "staff",
            "csv",
            staff,
            "id",
            every="1h",
            rename={"dept": "team"},
            columns=[("id", BIGINT), ("name", None), ("team", STRING)],
        )
        opened.add_view("z_names", "SELECT s.name, s.team FROM staff s")
        opened.add_view("a_devs", "SELECT v.name FROM z_names v WHERE v.team = 'Dev'", batched=True)
        opened.install("late", LATE, user="ann", every="90m", to=["file:late.csv", HOOK], digest="daily@08:00")
        opened.subscribe("late", "email:bo@example.com", digest="weekly@mon-09:30", zone="Europe/Berlin")
        opened.mute("late", "email:bo@example.com")
        opened.install("again", "SELECT r.buyer FROM results.late r", user="ann", start="now")
        opened.install("v.1", "SELECT d.name FROM a_devs d", user="zoë")
        opened.install(
            "pairs", "SELECT a.id FROM orders a, orders b WHERE a.id = b.id AND a.ts < b.ts", keep="synopsis"
        )
        opened.install("seen", LATE, user="ann")
        opened.pause("seen")
        yield opened


def _files(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def _read(folder: Path) -> Definitions:
    errors: list[Refused] = []
    read = read_folder(folder, errors)
    for error in errors:
        raise error
    return read


def _token(folder: Path) -> dict[str, str]:
    """Return the secret of the webhook, under the name that the files give it."""
    text = (folder / "queries" / "late.toml").read_text()
    name = text.partition("${")[2].partition("}")[0]
    return {name: "services/T0/B0/s3cr3t-token"}


def test_the_files(full: Weft, tmp_path: Path, staff: str) -> None:
    full.export(tmp_path / "out")
    files = _files(tmp_path / "out")
    assert files["queries/late.sql"] == LATE + "\n"
    (variable,) = _token(tmp_path / "out")
    assert files["queries/late.toml"] == (
        'user = "ann"\nevery = "1h30m"\n'
        '\n[[channel]]\nto = "email:bo@example.com"\ndigest = "weekly@mon-09:30"\n'
        'zone = "Europe/Berlin"\nmuted = true\n'
        '\n[[channel]]\nto = "file:late.csv"\ndigest = "daily@08:00"\n'
        f'\n[[channel]]\nto = "webhook:https://hooks.example.com/${{{variable}}}#as=slack"\ndigest = "daily@08:00"\n'
    )
    assert files["views/a_devs.toml"] == 'mode = "batched"\n'
    assert files["sources/staff.toml"] == (
        f'kind = "csv"\nat = "{staff}"\nkey = ["id"]\nevery = "1h"\nts = "clock"\n'
        'columns = [\n    ["id", "BIGINT"],\n    ["name"],\n    ["team", "STRING"],\n]\n'
        'rename = [\n    ["dept", "team"],\n]\n'
    )
    assert "s3cr3t" not in "".join(files.values())


def test_an_export_describes_the_home(full: Weft, tmp_path: Path) -> None:
    full.export(tmp_path / "out")
    assert _read(tmp_path / "out") == described(full.opened)


def test_an_empty_home_becomes_equal(full: Weft, tmp_path: Path) -> None:
    full.export(tmp_path / "out")
    with Weft.open(tmp_path / "new", create=True) as new:
        _tables(new)
        new.apply(tmp_path / "out", secrets=_token(tmp_path / "out"))
        new.export(tmp_path / "back")
        assert _files(tmp_path / "back") == _files(tmp_path / "out")
        assert {each.channel for each in new.show("late").subscriptions} == {
            each.channel for each in full.show("late").subscriptions
        }
        assert new.apply(tmp_path / "out") == ()


def test_applying_an_export_to_its_home_changes_nothing(full: Weft, tmp_path: Path) -> None:
    full.export(tmp_path / "out")
    assert full.apply(tmp_path / "out", prune=True) == ()


def test_a_second_export_writes_only_what_changed(full: Weft, tmp_path: Path) -> None:
    first = full.export(tmp_path / "out")
    assert len(first.written) == 2 * 5 + 2 * 2 + 1 and not first.unchanged
    full.resume("seen")
    full.remove("again")
    second = full.export(tmp_path / "out")
    assert second.written == ("queries/seen.toml",)
    assert second.left == ("queries/again.sql", "queries/again.toml")
    third = full.export(tmp_path / "out", prune=True)
    assert third.removed == second.left and not (tmp_path / "out" / "queries" / "again.sql").exists()


def _change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_each_change_of_a_query(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.export(out)
    queries = out / "queries"
    _change(queries / "late.sql", "2 DAYS", "3 DAYS")
    _change(queries / "late.toml", 'digest = "weekly@mon-09:30"\nzone = "Europe/Berlin"\nmuted = true\n', "")
    _change(queries / "late.toml", "file:late.csv", "file:later.csv")
    _change(queries / "seen.toml", "paused = true\n", 'every = "1d"\n')
    (queries / "v.1.toml").write_text("paused = true\n")
    planned = full.apply(out, dry_run=True)
    assert [(each.name, each.action, each.detail) for each in planned] == [
        ("late", "channel ended", "file:late.csv"),
        ("late", "text replaced", ""),
        ("late", "channel changed", "email:bo@example.com: weekly@mon-09:30 → at once"),
        ("late", "channel unmuted", "email:bo@example.com"),
        ("late", "channel added", "file:later.csv"),
        ("seen", "settings changed", "every - → 1d"),
        ("seen", "resumed", ""),
        ("v.1", "paused", ""),
    ]
    assert full.show("late").query.sql == LATE
    assert full.apply(out) == planned
    assert "3 DAYS" in full.show("late").query.sql and len(full.show("late").replaced) == 1
    assert full.show("seen").query.every_us == 86_400_000_000
    assert full.apply(out) == ()
    _change(queries / "seen.toml", 'every = "1d"\n', "")
    full.apply(out)
    assert full.show("seen").query.every_us is None and full.apply(out) == ()


def test_an_owner_that_the_file_does_not_name_stays(full: Weft, tmp_path: Path) -> None:
    full.export(tmp_path / "out")
    _change(tmp_path / "out" / "queries" / "late.toml", 'user = "ann"\n', "")
    assert full.apply(tmp_path / "out") == ()


def test_prune_removes_readers_first(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.export(out)
    for name in ("queries/late", "queries/again", "queries/v.1", "views/a_devs", "views/z_names", "sources/staff"):
        for suffix in (".sql", ".toml"):
            (out / (name + suffix)).unlink(missing_ok=True)
    assert full.apply(out) == ()
    removed = [(each.kind, each.name, each.action) for each in full.apply(out, prune=True)]
    assert removed == [
        ("query", "again", "removed"),
        ("query", "late", "removed"),
        ("query", "v.1", "removed"),
        ("view", "a_devs", "removed"),
        ("view", "z_names", "removed"),
        ("source", "staff", "removed"),
    ]
    assert {each.name for each in full.queries()} == {"pairs", "seen"} and not full.views() and not full.sources()
    assert full.apply(out, prune=True) == ()


def test_a_file_moves_from_a_removed_query_to_a_new_one(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.remove("again")
    full.export(out)
    for suffix in (".sql", ".toml"):
        (out / "queries" / f"late{suffix}").rename(out / "queries" / f"overdue{suffix}")
    with pytest.raises(Refused, match="late and overdue write to file:late"):
        full.apply(out)
    actions = [(each.name, each.action) for each in full.apply(out, prune=True)]
    assert actions == [("late", "removed"), ("overdue", "added")]
    assert len(full.show("overdue").subscriptions) == 3


def test_all_refusals_come_at_once_and_nothing_changes(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.export(out)
    before = described(full.opened)
    (out / "queries" / "first.toml").write_text("")
    (out / "queries" / "first.sql").write_text("SELECT o.nothing\nFROM orders o, unknown u\n")
    (out / "queries" / "fine.toml").write_text("")
    (out / "queries" / "fine.sql").write_text("SELECT o.id FROM orders o\n")
    (out / "views" / "bad.toml").write_text("")
    (out / "views" / "bad.sql").write_text("SELECT s.salary FROM staff s\n")
    _change(out / "views" / "a_devs.sql", "Dev", "Ops")
    _change(out / "sources" / "staff.toml", "staff.csv", "missing.csv")
    _change(out / "queries" / "late.toml", "file:late.csv", "fax:12345")
    _change(out / "queries" / "pairs.sql", "a.ts < b.ts", "a.ts > b.ts")
    _change(out / "queries" / "v.1.toml", "user", "usr")
    with pytest.raises(Refused) as caught:
        full.apply(out)
    result = [(str(reason.where), reason.message) for reason in caught.value.reasons]
    for file, words in (
        ("first.sql, line 1", "nothing"),
        ("first.sql, line 2", "unknown"),
        ("bad.sql, line 1", "salary"),
        ("a_devs.toml", "another text"),
        ("staff.toml", "missing.csv"),
        ("late.toml", "fax"),
        ("pairs.toml", "differs from the home"),
        ("v.1.toml", "no key 'usr'"),
    ):
        assert [each for each in result if file in each[0] and words in each[0] + each[1]], (file, result)
    assert described(full.opened) == before


def test_queries_that_read_each_other_are_refused_before_anything_changes(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.export(out)
    before = described(full.opened)
    (out / "queries" / "late.sql").write_text("SELECT o.id, m.buyer FROM orders o, results.middle m\n")
    (out / "queries" / "middle.toml").write_text("")
    (out / "queries" / "middle.sql").write_text("SELECT r.buyer FROM results.late r\n")
    with pytest.raises(Conflict, match="would read its own results"):
        full.apply(out)
    assert described(full.opened) == before


def test_the_rights_of_owners_are_checked_before_anything_changes(full: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    full.export(out)
    full.accounts.add_user("bo", "author")
    for name in ("new", "newer"):
        (out / "queries" / f"{name}.toml").write_text('user = "bo"\n')
        (out / "queries" / f"{name}.sql").write_text("SELECT o.id FROM orders o\n")
    with pytest.raises(Refused, match=r"(?s)new cannot run: .*newer cannot run: "):
        full.apply(out)
    full.accounts.grant("bo", "read", "orders")
    assert [each.name for each in full.apply(out)] == ["new", "newer"]


def test_a_query_may_read_what_the_same_folder_adds(full: Weft, tmp_path: Path, staff: str) -> None:
    out = tmp_path / "out"
    for folder in ("sources", "views", "queries"):
        (out / folder).mkdir(parents=True)
    (out / "sources" / "people.toml").write_text(f'kind = "csv"\nat = "{staff}"\nkey = "id"\nevery = "1h"\n')
    for name, text in (
        ("a_top", "SELECT n.name FROM b_now n"),
        ("b_now", "SELECT p.name, p.id FROM people p WHERE p.hired + INTERVAL 6 MONTHS > NOW()"),
    ):
        (out / "views" / f"{name}.toml").write_text("")
        (out / "views" / f"{name}.sql").write_text(text)
    for name, text in (("a", "SELECT r.name FROM results.b r"), ("b", "SELECT t.name FROM a_top t")):
        (out / "queries" / f"{name}.toml").write_text('user = "ann"\n')
        (out / "queries" / f"{name}.sql").write_text(text)
    assert [each.name for each in full.apply(out)] == ["people", "b_now", "a_top", "b", "a"]
    assert full.apply(out) == ()


def test_a_source_of_snapshots_keeps_its_periods(full: Weft, tmp_path: Path) -> None:
    full.poll_source("staff")
    full.export(tmp_path / "out")
    _change(tmp_path / "out" / "sources" / "staff.toml", 'every = "1h"', 'every = "5m"')
    (changed,) = full.apply(tmp_path / "out")
    assert (changed.action, changed.detail) == ("changed", "every 1h → 5m")
    polled = full.poll_source("staff")
    assert (polled.began, polled.ended) == (0, 0) and full.catalog.sources.named("staff").every_us == 300_000_000


def test_a_source_of_mail_has_no_key(full: Weft, tmp_path: Path) -> None:
    for each in ("cur", "new", "tmp"):
        (tmp_path / "mail" / each).mkdir(parents=True)
    out = tmp_path / "out"
    for folder, name, text in (
        ("sources", "mail.toml", f'kind = "maildir"\nat = "{tmp_path / "mail"}"\nevery = "5m"\nts = "clock"\n'),
        ("queries", "q.sql", "SELECT m.subject FROM mail m\n"),
        ("queries", "q.toml", 'user = "ann"\n'),
    ):
        (out / folder).mkdir(parents=True, exist_ok=True)
        (out / folder / name).write_text(text)
    assert [each.name for each in full.apply(out)] == ["mail", "q"]
    before = _files(out)
    full.export(out)
    assert {name: _files(out)[name] for name in before} == before and full.apply(out) == ()


def test_a_change_feed_is_not_replaced(full: Weft, tmp_path: Path) -> None:
    (tmp_path / "feed.jsonl").write_text('{"op":"c","ts_ms":1700000000000,"after":{"id":1,"name":"a"}}\n')
    full.add_source("feed", "changes", tmp_path / "feed.jsonl", "id")
    full.export(tmp_path / "out")
    _change(tmp_path / "out" / "sources" / "feed.toml", 'every = "10m"', 'every = "5m"')
    with pytest.raises(Conflict, match="a feed, whose position a change would lose: every 10m → 5m"):
        full.apply(tmp_path / "out")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("queries/q.toml", "usr = 'ann'", "there is no key 'usr'"),
        ("queries/q.toml", "every = 5", "every has the value 5"),
        ("queries/q.toml", "from = 'later'", "from has the value 'later'"),
        ("queries/q.toml", "paused = 'yes'", "paused has the value 'yes'"),
        ("queries/q.toml", "[[channel]]\ndigest = 'hourly'", "to is missing"),
        ("queries/q.toml", "channel = 'file:x.csv'", "channel has the value"),
        ("queries/q.toml", "user = ", "not valid TOML"),
        ("queries/only.sql", "SELECT 1", "this text has no settings file"),
        ("sources/s.toml", "kind = 'csv'\nat = 's.csv'\nevery = '1h'", "key is missing"),
        (
            "sources/s.toml",
            "kind = 'csv'\nat = 's.csv'\nevery = '1h'\nkey = 'id'\nrename = [['a']]",
            "rename has the value",
        ),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, file: str, text: str, message: str) -> None:
    for folder in ("queries", "sources"):
        (tmp_path / folder).mkdir()
    if file.startswith("queries/q."):
        (tmp_path / "queries" / "q.sql").write_text("SELECT 1")
    (tmp_path / file).write_text(text)
    with pytest.raises(Refused, match=message) as caught:
        _read(tmp_path)
    assert file in str(caught.value.where)


def test_two_files_with_one_name_and_a_folder_without_definitions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no definitions"):
        _read(tmp_path)
    (tmp_path / "queries").mkdir()
    assert _read(tmp_path) == Definitions()
    for name in ("q", "Q"):
        (tmp_path / "queries" / f"{name}.toml").write_text("")
        (tmp_path / "queries" / f"{name}.sql").write_text("SELECT 1")
    with pytest.raises(Refused, match="has the same name"):
        _read(tmp_path)


def test_a_secret_that_nobody_gives_is_asked_for(full: Weft, tmp_path: Path) -> None:
    full.export(tmp_path / "out")
    with Weft.open(tmp_path / "new", create=True) as new:
        _tables(new)
        with pytest.raises(Refused) as caught:
            new.apply(tmp_path / "out")
        assert "has a variable without a value" in str(caught.value) and "--secrets" in str(caught.value)
        with pytest.raises(NotFound):
            new.show("late")


def _access(weft: Weft) -> None:
    accounts = weft.accounts
    accounts.add_user("ann", "author", UserLimits(queries=9), inherit=True)
    accounts.add_user("bo")
    accounts.add_group("ops")
    accounts.add_member("ops", "bo")
    for name, right, about in (
        ("ann", "read", "orders"),
        ("ann", "load", "orders"),
        ("ann", "channel", "email"),
        ("ann", "channel", "webhook"),
        ("ops", "read", "results.late"),
        ("ops", "read", "z_names"),
        ("everyone", "read", "staff"),
    ):
        accounts.grant(name, right, about)


def _owned(full: Weft) -> None:
    """Leave only channels that a user may have, and owners who are users or nobody."""
    full.unsubscribe("late", "file:late.csv")


def test_users_groups_and_rights_move_to_another_home(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    full.export(tmp_path / "out")
    files = _files(tmp_path / "out")
    assert files["users/ann.toml"] == (
        'role = "author"\nqueries = 9\nread = ["orders"]\nload = ["orders"]\nchannel = ["email", "webhook"]\n'
    )
    assert files["users/bo.toml"] == 'role = "reader"\n'
    assert files["groups/ops.toml"] == 'members = ["bo"]\nread = ["results.late", "z_names"]\n'
    assert files["groups/everyone.toml"] == 'read = ["staff"]\n'
    assert _read(tmp_path / "out") == described(full.opened)
    assert full.apply(tmp_path / "out", prune=True) == ()
    with Weft.open(tmp_path / "new", create=True) as new:
        _tables(new)
        new.apply(tmp_path / "out", secrets=_token(tmp_path / "out"))
        new.export(tmp_path / "back")
        assert _files(tmp_path / "back") == files
        assert new.apply(tmp_path / "out", prune=True) == ()


def test_each_change_of_users_and_groups(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    out = tmp_path / "out"
    full.export(out)
    _change(out / "users" / "ann.toml", "queries = 9", "rows = 5")
    _change(out / "users" / "ann.toml", 'load = ["orders"]\n', "")
    (out / "users" / "bo.toml").unlink()
    (out / "users" / "cy.toml").write_text('read = ["staff"]\n')
    _change(out / "groups" / "ops.toml", '["bo"]', '["cy"]')
    (out / "groups" / "everyone.toml").unlink()
    result = [(each.kind, each.name, each.action, each.detail) for each in full.apply(out, prune=True)]
    assert result == [
        ("user", "ann", "role or limits changed", "author"),
        ("user", "cy", "added", "reader"),
        ("group", "ops", "member added", "cy"),
        ("group", "ops", "member removed", "bo"),
        ("user", "ann", "right revoked", "load orders"),
        ("group", "everyone", "right revoked", "read staff"),
        ("user", "cy", "right granted", "read staff"),
        ("user", "bo", "removed", ""),
    ]
    assert full.apply(out, prune=True) == ()
    _change(out / "users" / "cy.toml", "staff", "nothing")
    with pytest.raises(Refused, match="cy has a right on nothing, which does not exist"):
        full.apply(out)


def test_rights_over_what_prune_removes_are_refused(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    full.install("brief", "SELECT s.buyer FROM results.late s")
    full.add_view("teams", "SELECT s.team FROM staff s")
    for name, about in (("bo", "results.brief"), ("everyone", "teams")):
        full.accounts.grant(name, "read", about)
    out = tmp_path / "out"
    full.export(out)
    for name in ("queries/brief.sql", "queries/brief.toml", "views/teams.sql", "views/teams.toml"):
        (out / name).unlink()
    assert full.apply(out) == ()
    with pytest.raises(Refused) as refused:
        full.apply(out, prune=True)
    assert [(each.message, getattr(each, "where", None)) for each in refused.value.reasons] == [
        ("bo has a right on results.brief, which does not exist", str(out / "users" / "bo.toml")),
        ("everyone has a right on teams, which does not exist", str(out / "groups" / "everyone.toml")),
    ]


def test_rights_of_everyone_end_before_their_objects_are_removed(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    full.install("brief", "SELECT s.buyer FROM results.late s")
    full.accounts.grant("everyone", "read", "results.brief")
    out = tmp_path / "out"
    full.export(out)
    for name in ("queries/brief.sql", "queries/brief.toml", "groups/everyone.toml"):
        (out / name).unlink()
    assert [(each.name, each.action, each.detail) for each in full.apply(out, prune=True)] == [
        ("everyone", "right revoked", "read results.brief"),
        ("everyone", "right revoked", "read staff"),
        ("brief", "removed", ""),
    ]


def test_an_error_in_a_query_is_not_one_in_the_rights_on_it(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    out = tmp_path / "out"
    full.export(out)
    (out / "queries" / "brief.sql").write_text("SELECT s.nothing FROM results.late s")
    (out / "queries" / "brief.toml").write_text("")
    (out / "groups" / "few.toml").write_text('read = ["results.brief"]\n')
    with pytest.raises(Refused, match="nothing") as refused:
        full.apply(out)
    assert refused.value.reasons == ()


def test_administrators_are_added_before_others_end(full: Weft, tmp_path: Path) -> None:
    _owned(full)
    _access(full)
    full.accounts.change_user("ann", role="admin")
    full.accounts.change_user("bo", role="author")
    out = tmp_path / "out"
    full.export(out)
    _change(out / "users" / "ann.toml", '"admin"', '"author"')
    _change(out / "users" / "bo.toml", '"author"', '"admin"')
    ann = full.acting_as(Principal("ann", full.accounts.user("ann").user_id))
    assert [(each.name, each.detail) for each in ann.apply(out)] == [("bo", "admin"), ("ann", "author")]
