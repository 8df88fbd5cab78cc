"""Export saved queries with the rights to them, and apply them to a home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP
from weft.api import Weft
from weft.api.portable.described import described
from weft.errors import Refused
from weft.rights.principal import Principal

BUYER = "SELECT o.id\nFROM orders o\nWHERE o.buyer = {{who}} AND o.id > {{least}}"
RECENT = "SELECT r.id FROM results.late r WHERE r.id < {{most}}"


def _home(folder: Path) -> Weft:
    opened = Weft.open(folder, create=True)
    opened.catalog.tables.create("orders", (("id", BIGINT), ("buyer", STRING), ("ts", TIMESTAMP)), ("id",))
    return opened


def _acting(weft: Weft, name: str) -> Weft:
    return weft.acting_as(Principal(name, weft.accounts.user(name).user_id))


@pytest.fixture
def forms(tmp_path: Path) -> Iterator[Weft]:
    """A home with two saved queries of ann, of which bo may fill in one."""
    with _home(tmp_path / "home") as opened:
        opened.accounts.add_user("ann", "author")
        opened.accounts.add_user("bo")
        opened.accounts.grant("ann", "read", "orders")
        ann = _acting(opened, "ann")
        ann.install("late", "SELECT o.id FROM orders o WHERE o.ts < NOW() - INTERVAL 2 DAYS")
        ann.save_query("Buyer", BUYER, ["least:int=7", "who:string= =x:y "], description='of "one"\nbuyer')
        ann.save_query("recent", RECENT, ["most:int"])
        opened.accounts.grant("bo", "read", "saved.Buyer")
        yield opened


def _files(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def _write(folder: Path, name: str, sql: str, settings: str) -> None:
    (folder / "saved" / f"{name}.sql").write_text(sql)
    (folder / "saved" / f"{name}.toml").write_text(settings)


def test_saved_queries_and_the_rights_to_them_move_to_another_home(forms: Weft, tmp_path: Path) -> None:
    forms.export(tmp_path / "out")
    files = _files(tmp_path / "out")
    assert files["saved/Buyer.sql"] == BUYER + "\n"
    assert files["saved/Buyer.toml"] == (
        'user = "ann"\ndescription = "of \\"one\\"\\nbuyer"\nparameters = ["who:string= =x:y ", "least:int=7"]\n'
    )
    assert files["saved/recent.toml"] == 'user = "ann"\nparameters = ["most:int"]\n'
    assert files["users/bo.toml"] == 'role = "reader"\nread = ["saved.Buyer"]\n'
    assert forms.apply(tmp_path / "out", prune=True) == ()
    with _home(tmp_path / "new") as new:
        new.apply(tmp_path / "out")
        new.export(tmp_path / "back")
        assert _files(tmp_path / "back") == files
        assert described(new.opened) == described(forms.opened)
        assert new.apply(tmp_path / "out", prune=True) == ()
        filled = "WHERE o.buyer = 'z' AND o.id > 7"
        assert filled in _acting(new, "bo").fill_query("buyer", {"who": "z"})
        assert [each.name for each in _acting(new, "bo").saved_queries()] == ["Buyer"]


def test_each_change_of_a_saved_query(forms: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forms.export(out)
    _write(out, "Buyer", BUYER + " AND o.id < {{most}}", 'parameters = ["most:int", "least:int=8", "who:string=z"]')
    _write(out, "recent", RECENT, 'user = "bo"\ndescription = "new"\nparameters = ["most:int"]')
    _write(out, "extra", "SELECT o.id FROM orders o WHERE o.id = {{id}}", 'parameters = "id:int"')
    (out / "users" / "bo.toml").write_text('read = ["saved.buyer", "saved.extra"]')
    before = described(forms.opened)
    planned = forms.apply(out, dry_run=True)
    assert [(each.kind, each.name, each.action, each.detail) for each in planned] == [
        (
            "saved query",
            "Buyer",
            "text replaced",
            "parameters who:string= =x:y , least:int=7 → who:string=z, least:int=8, most:int, "
            'description of "one"\nbuyer → -',
        ),
        ("saved query", "extra", "added", ""),
        ("saved query", "recent", "settings changed", "user ann → bo, description - → new"),
        ("user", "bo", "right granted", "read saved.extra"),
    ]
    assert described(forms.opened) == before
    assert forms.apply(out) == planned and forms.apply(out) == ()
    assert [each.name for each in _acting(forms, "bo").saved_queries()] == ["Buyer", "extra", "recent"]
    assert forms.saved_query("Buyer").owner == "ann"
    assert [each.name for each in _acting(forms, "ann").saved_queries()] == ["Buyer"]


def test_prune_removes_saved_queries_with_the_rights_to_them(forms: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forms.export(out)
    forms.remove_saved("recent")
    assert forms.export(out).left == ("saved/recent.sql", "saved/recent.toml")
    assert forms.export(out, prune=True).removed == ("saved/recent.sql", "saved/recent.toml")
    for suffix in (".sql", ".toml"):
        (out / "saved" / f"Buyer{suffix}").unlink()
    (out / "users" / "bo.toml").write_text("")
    (out / "users" / "ann.toml").write_text('role = "author"\nread = ["orders", "saved.Buyer"]')
    with pytest.raises(Refused, match=r"ann has a right on saved\.Buyer, which does not exist") as refused:
        forms.apply(out, prune=True)
    assert refused.value.where == str(out / "users" / "ann.toml")
    (out / "users" / "ann.toml").write_text('role = "author"\nread = ["orders"]')
    assert [(each.name, each.action) for each in forms.apply(out)] == [("bo", "right revoked")]
    assert [(each.name, each.action) for each in forms.apply(out, dry_run=True, prune=True)] == [("Buyer", "removed")]
    assert [each.name for each in forms.saved_queries()] == ["Buyer"]
    forms.apply(out, prune=True)
    assert forms.saved_queries() == () and forms.apply(out, prune=True) == ()


def test_saved_queries_that_are_refused(forms: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forms.export(out)
    before = described(forms.opened)
    _write(out, "column", "SELECT o.id\nFROM orders o WHERE o.client = {{id}}", 'parameters = ["id:int"]')
    _write(out, "missing", "SELECT o.id FROM orders o WHERE o.id = {{id}}", "")
    _write(out, "form", "SELECT o.id FROM orders o WHERE o.id = {{id}}", 'parameters = ["id"]')
    _write(out, "key", "SELECT o.id FROM orders o WHERE o.id = {{id}}", 'parameters = ["id:int"]\nowner = "ann"')
    _write(out, "two words", "SELECT o.id FROM orders o WHERE o.id = {{id}}", 'parameters = ["id:int"]')
    (out / "saved" / "only.sql").write_text("SELECT 1")
    with pytest.raises(Refused) as caught:
        forms.apply(out)
    result = [(str(reason.where), reason.message) for reason in caught.value.reasons]
    for file, words in (
        ("column.sql, line 2", "client"),
        ("missing.toml", "the parameter id has no type"),
        ("form.toml", "declares no parameter"),
        ("key.toml", "no key 'owner'"),
        ("two words.toml", "two words"),
        ("only.sql", "no settings file"),
    ):
        assert [each for each in result if file in each[0] and words in each[1]], (file, result)
    assert len(result) == 6 and described(forms.opened) == before


def _origins(weft: Weft) -> dict[str, str | None]:
    return {each.name: each.saved for each in described(weft.opened).queries}


def test_a_query_that_a_reader_installed_moves_with_its_origin(forms: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forms.accounts.grant("bo", "read", "orders")
    _acting(forms, "bo").install_saved("buyer", "mine", {"who": "z"})
    forms.export(out)
    settings = (out / "queries" / "mine.toml").read_text()
    assert settings == 'user = "bo"\nsaved = "Buyer"\n'
    with _home(tmp_path / "new") as new:
        new.apply(out)
        assert _origins(new) == _origins(forms) == {"late": None, "mine": "Buyer"}
        assert new.apply(out, prune=True) == ()
        (out / "queries" / "mine.toml").write_text(settings.replace("Buyer", "BUYER"))
        assert new.apply(out) == ()
        new.accounts.revoke("bo", "read", "saved.Buyer")
        with new.opened.writing("check the rights") as writer:
            writer.rechecks.run()
        assert new.show("mine").query.reason == "its owner bo is a reader, and readers install no queries"


def test_the_origin_belongs_to_the_text(forms: Weft, tmp_path: Path) -> None:
    out, own = tmp_path / "out", "SELECT o.id FROM orders o WHERE o.id > 1"
    _acting(forms, "ann").install_saved("buyer", "mine", {"who": "z"})
    forms.export(out)
    (out / "queries" / "mine.toml").write_text('user = "ann"\nevery = "1h"')
    assert [each.detail for each in forms.apply(out)] == ["every - → 1h"]
    assert _origins(forms)["mine"] == "Buyer"
    (out / "queries" / "mine.sql").write_text(own)
    assert [each.detail for each in forms.apply(out)] == ["saved Buyer → -"]
    (out / "queries" / "mine.toml").write_text('user = "ann"\nevery = "1h"\nsaved = "recent"')
    assert [(each.action, each.detail) for each in forms.apply(out)] == [("settings changed", "saved - → recent")]
    assert _origins(forms)["mine"] == "recent" and forms.apply(out) == ()
    _acting(forms, "ann").install("mine", own + " AND o.id < 9", replace=True)
    assert _origins(forms)["mine"] is None


def test_the_origin_of_a_query_must_be_there(forms: Weft, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forms.accounts.grant("bo", "read", "orders")
    _acting(forms, "bo").install_saved("buyer", "mine", {"who": "z"})
    forms.export(out)
    (out / "queries" / "mine.toml").write_text('user = "bo"\nsaved = "byer"')
    with pytest.raises(Refused, match=r"no saved query 'byer'") as caught:
        forms.apply(out)
    assert str(caught.value.where).endswith("mine.toml")
    (out / "queries" / "mine.toml").write_text('user = "bo"\nevery = "1h"')
    for suffix in (".sql", ".toml"):
        (out / "saved" / f"Buyer{suffix}").unlink()
    (out / "users" / "bo.toml").write_text('role = "author"\nread = ["orders"]')
    assert [each.action for each in forms.apply(out, prune=True)].count("removed") == 1
    assert _origins(forms)["mine"] is None and forms.show("mine").query.every_us is not None
