"""The commands for users, groups, rights, tokens and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import Weft

Run = Callable[..., Any]


@pytest.fixture
def made(weft: Run) -> Run:
    for line in ("init --clock replay", "tick --now 2026-03-01", "user add anna --role author", "user add bo"):
        assert weft(*line.split()).code == 0
    assert weft("table", "create", "orders", "id INT").code == 0
    return weft


def test_users_are_added_changed_and_removed(made: Run) -> None:
    assert [each["name"] for each in made("user", "list", "--json").json] == ["anna", "bo"]
    changed = made("user", "change", "anna", "--rows", "7", "--json").json
    assert (changed["role"], changed["limits"]) == ("author", {"queries": None, "rows": 7, "seconds": None})
    changed = made("user", "change", "anna", "--role", "reader", "--seconds", "3", "--json").json
    assert (changed["role"], changed["limits"]) == ("reader", {"queries": None, "rows": 7, "seconds": 3})
    assert made("user", "change", "anna", "--no-limits", "--json").json["limits"]["rows"] is None
    assert made("user", "add", "ANNA").code == 2
    assert "there is already a user 'anna'" in made("user", "add", "ANNA").err
    assert made("user", "add", "everyone").code == 2
    assert made("user", "remove", "bo").out == "bo is removed. The next tick pauses her queries.\n"
    assert "Did you mean anna?" in made("user", "remove", "ana").err


def test_groups_have_members_and_rights(made: Run) -> None:
    assert made("group", "add", "sales", "anna").out == "group sales: anna\n"
    assert made("group", "join", "sales", "bo", "--json").json["members"] == ["anna", "bo"]
    assert made("grant", "sales", "read", "orders").out == "sales may read orders.\n"
    assert made("grant", "sales", "read", "orders").code == 2
    (granted,) = made("grants", "sales", "--json").json
    assert (granted["to"], granted["right"], granted["on"]) == ("sales", "read", "orders")
    assert made("group", "leave", "sales", "anna").out == "group sales: bo\n"
    assert made("revoke", "sales", "read", "orders").code == 0
    assert made("grants", "--json").json == []
    assert made("group", "remove", "sales").code == 0
    assert made("group", "list").out.startswith("There are no groups")


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("grant anna own orders", "not a right that can be granted"),
        ("grant anna read nowhere", "there is no table 'nowhere'"),
        ("grant anna read results.nowhere", "there is no query 'nowhere'"),
        ("grant nobody read orders", "there is no user or group 'nobody'"),
        ("grant anna channel exec", "cannot be granted"),
        ("grant anna channel pigeon", "not a kind of channels"),
        ("revoke anna read orders", "was not granted this right"),
        ("token create anna --scope write", "not a scope"),
        ("token create nobody", "there is no user 'nobody'"),
        ("token withdraw 7", "there is no token 7"),
    ],
)
def test_mistakes_are_refused_in_words(made: Run, line: str, output: str) -> None:
    refused = made(*line.split())
    assert refused.code == 2
    assert output in refused.err


def test_a_query_whose_owner_loses_a_right_is_paused_and_resumed(made: Run) -> None:
    made("grant", "everyone", "read", "orders")
    assert made("install", "q", "SELECT id FROM orders", "--user", "anna").code == 0
    made("revoke", "everyone", "read", "orders")
    made("tick", "--now", "2026-03-02")
    (query,) = made("queries", "--json").json
    assert (query["state"], query["reason"]) == ("paused", "its owner anna may not read orders")
    assert "paused because the owner has lost a right" in made("status").out
    assert made("resume", "q").code == 2
    made("grant", "anna", "read", "orders")
    assert made("resume", "q").code == 0
    assert made("queries", "--json").json[0]["state"] == "active"


def test_tokens_and_links_are_shown_once(made: Run, home: Any) -> None:
    made_token = made(
        "token", "create", "anna", "--scope", "read", "--scope", "load", "--expires", "never", "--json"
    ).json
    with Weft.open(home) as opened:
        principal = opened.accounts.of_token(made_token["secret"])
        assert principal is not None and principal.scopes == {"read", "load"}
    (listed,) = made("token", "list", "--json").json
    assert (listed["user"], listed["expires_at"], "secret" in listed) == ("anna", None, False)
    assert made("token", "withdraw", str(listed["id"])).code == 0
    link = made("user", "password-link", "anna", "--json").json["link"]
    with Weft.open(home) as opened:
        opened.accounts.set_password(link.removeprefix("/password/"), "a good password")
    actions = [each["action"] for each in made("audit", "--limit", "4", "--json").json]
    assert actions == ["set_password", "password_link", "withdraw_token", "create_token"]
    assert made_token["secret"] not in made("audit").out


def test_a_copy_has_the_users_and_their_rights(made: Run, tmp_path: Any) -> None:
    made("grant", "anna", "read", "orders")
    secret = made("token", "create", "anna", "--json").json["secret"]
    assert made("copy", "weft-home", "copied").code == 0
    listed = [made(*words, "--json").json for words in (("user", "list"), ("grants",), ("token", "list"))]
    copied = [
        made(*words, "--json", "--home", "copied").json for words in (("user", "list"), ("grants",), ("token", "list"))
    ]
    assert copied == listed
    with Weft.open(tmp_path / "copied") as opened:
        assert opened.accounts.of_token(secret) is not None
