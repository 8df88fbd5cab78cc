"""The API with users: who has which token sees what she may see, and the rest is as if it did not exist."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from starlette.testclient import TestClient

from weft.algebra.schema import BIGINT, DOUBLE
from weft.api import why as why_module
from weft.api.weft import Weft
from weft.execution.home import OpenHome
from weft.execution.why import Combination, Witness
from weft.runtime import cancelling
from weft.web.api_v1.openapi import document
from weft.web.api_v1.operations import OPERATIONS

Sent = Callable[..., Any]
FORM = {"name": "x", "sql": "SELECT o.id FROM orders o WHERE o.total > {{least}}", "parameters": ["least:int=1"]}


@pytest.fixture(scope="module")
def tokens(full: Weft) -> dict[str, str]:
    """Tokens of an administrator, of the author anna, who may read orders, and of the reader bo, who may read dear."""
    accounts = full.accounts
    for name, role in (("root", "admin"), ("anna", "author"), ("bo", "reader")):
        accounts.add_user(name, role)  # type: ignore[arg-type]
    accounts.grant("anna", "read", "orders")
    accounts.grant("bo", "read", "results.dear")
    full.save_query("form", FORM["sql"], FORM["parameters"])
    accounts.grant("bo", "read", "saved.form")
    everything = ("read", "load", "install", "admin")
    made = {name: accounts.create_token(name, scopes=everything).secret for name in ("root", "anna", "bo")}
    made["anna reads"] = accounts.create_token("anna", scopes=("read",)).secret
    withdrawn = accounts.create_token("anna", scopes=everything)
    made["anna loads"] = accounts.create_token("anna", scopes=("load",)).secret
    made["root administers"] = accounts.create_token("root", scopes=("admin",)).secret
    accounts.withdraw_token(withdrawn.record.secret_id)
    return {**made, "withdrawn": withdrawn.secret, "unknown": "weft_unknown"}


@pytest.fixture
def send(reader: TestClient, tokens: dict[str, str]) -> Sent:
    def call(who: str | None, method: str, path: str, **more: Any) -> Any:
        headers = {} if who is None else {"authorization": f"Bearer {tokens[who]}"}
        return reader.request(method, path, headers=headers, **more)

    return call


@pytest.mark.parametrize("who", [None, "withdrawn", "unknown"])
def test_nothing_is_done_without_a_token(send: Sent, who: str | None) -> None:
    for operation in OPERATIONS:
        path = operation.path.replace("{query}", "dear").replace("{ordinal}", "1").replace("{", "").replace("}", "")
        response = send(who, operation.method, f"/api/v1{path}")
        assert response.status_code == 401, path
        assert response.headers["www-authenticate"] == "Bearer"
    for path in ("/metrics", "/queries/1/answers.csv", "/queries/1/answers.atom", "/feeds/news.atom", "/queries.ics"):
        response = send(who, "GET", path)
        assert response.status_code == 401, path
        assert response.headers["www-authenticate"].startswith("Basic")
    assert send(who, "GET", "/queries.json").status_code == 401
    assert send(who, "GET", "/healthz").text == "ok\n"
    assert send(who, "GET", "/api/v1/openapi.json").status_code == 200


def test_lists_have_only_visible_objects(send: Sent) -> None:
    def names(who: str, area: str) -> list[str]:
        return [each["name"] for each in send(who, "GET", f"/api/v1/{area}").json()["items"]]

    assert names("root", "queries") == ["all-orders", "dear"]
    [news] = send("bo", "GET", "/api/v1/inbox").json()["items"]
    assert news["query"] == "dear" and news["unread"] == news["rows"] > 0
    assert names("anna", "queries") == []
    assert names("bo", "queries") == ["dear"]
    assert names("root", "tables") == ["empty", "orders"]
    assert names("anna", "tables") == ["orders"]
    assert names("bo", "tables") == []


@pytest.mark.parametrize(
    ("who", "method", "path", "sent", "status"),
    [
        ("bo", "GET", "/api/v1/queries/dear/answers", None, 200),
        ("bo", "GET", "/queries/2/answers.csv", None, 200),
        ("bo", "GET", "/queries/1/answers.csv", None, 404),
        ("bo", "GET", "/queries/1/answers.atom", None, 404),
        ("bo", "GET", "/queries/1.json", None, 404),
        ("bo", "GET", "/api/v1/queries/all-orders", None, 404),
        ("bo", "GET", "/api/v1/queries/id:1/answers", None, 404),
        ("bo", "GET", "/api/v1/tables/orders", None, 404),
        ("bo", "POST", "/api/v1/queries/dear/pause", None, 403),
        ("bo", "POST", "/api/v1/queries/all-orders/pause", None, 404),
        ("bo", "POST", "/api/v1/queries/no-such/pause", None, 404),
        ("anna", "POST", "/api/v1/queries/all-orders/pause", None, 404),
        ("bo", "POST", "/api/v1/queries", {"name": "x", "sql": "SELECT o.id FROM orders o"}, 403),
        ("anna", "POST", "/api/v1/explain", {"sql": "SELECT o.id FROM orders o"}, 200),
        ("anna", "POST", "/api/v1/explain", {"sql": "SELECT e.note FROM empty e"}, 422),
        ("anna reads", "POST", "/api/v1/queries", {"name": "x", "sql": "SELECT o.id FROM orders o"}, 403),
        ("anna", "GET", "/api/v1/status", None, 403),
        ("anna", "GET", "/metrics", None, 403),
        ("anna", "GET", "/api/v1/sources", None, 403),
        ("anna", "POST", "/api/v1/tick", {}, 403),
        ("anna", "POST", "/api/v1/sources", {"name": "x", "kind": "maildir", "at": "/tmp"}, 403),
        ("bo", "POST", "/api/v1/saved", FORM, 403),
        ("anna reads", "POST", "/api/v1/saved", FORM, 403),
        ("bo", "POST", "/api/v1/saved/form/text", {}, 200),
        ("bo", "PUT", "/api/v1/saved/form", {"sql": FORM["sql"], "parameters": FORM["parameters"]}, 403),
        ("bo", "DELETE", "/api/v1/saved/form", None, 403),
        ("anna", "GET", "/api/v1/saved/form", None, 404),
        ("anna", "POST", "/api/v1/saved/form/install", {"name": "x"}, 404),
        ("anna", "PUT", "/api/v1/saved/form", {"sql": FORM["sql"], "parameters": FORM["parameters"]}, 404),
        ("anna", "DELETE", "/api/v1/saved/form", None, 404),
        ("root", "GET", "/api/v1/status", None, 200),
        ("root", "GET", "/metrics", None, 200),
    ],
)
def test_each_right_holds_at_the_api_and_its_formats(
    send: Sent, who: str, method: str, path: str, sent: Any, status: int
) -> None:
    response = send(who, method, path, **({} if sent is None else {"json": sent}))
    assert response.status_code == status, response.text


def test_a_token_that_only_reads_shows_no_channels_and_no_messages(send: Sent, full: Weft) -> None:
    full.accounts.grant("anna", "channel", "feed")
    own = full.install("of-anna", "SELECT o.id FROM orders o", user="anna", to="feed:anna").query_id
    shown = {who: send(who, "GET", f"/queries/{own}.json").json()["channels"] for who in ("anna", "anna reads")}
    assert (len(shown["anna"]), shown["anna reads"]) == (1, [])
    for path in ("/deliveries.json", "/api/v1/messages", "/api/v1/deliveries"):
        assert send("anna", "GET", path).status_code == 200, path
        refused = send("anna reads", "GET", path)
        assert refused.status_code == 403, path
        assert "the token does not include the right to own" in refused.text
    full.remove("of-anna", purge=True)
    full.accounts.revoke("anna", "channel", "feed")


def test_a_hidden_object_is_refused_like_a_missing_one(send: Sent) -> None:
    for path in ("/api/v1/queries/{}", "/api/v1/queries/{}/answers", "/api/v1/explanations/{}"):
        hidden, missing = (send("bo", "GET", path.format(name)) for name in ("all-orders", "no-such-1"))
        assert hidden.text.replace("all-orders", "no-such-1") == missing.text
        assert "orders" not in missing.text


def test_a_feed_reader_sends_its_token_as_a_password(reader: TestClient, tokens: dict[str, str]) -> None:
    given = base64.b64encode(f"bo:{tokens['bo']}".encode()).decode()
    assert reader.get("/queries/2/answers.atom", headers={"authorization": f"Basic {given}"}).status_code == 200
    assert reader.get("/queries/2/answers.atom", headers={"authorization": "Basic !"}).status_code == 401


def test_a_feed_has_the_rights_of_its_query(reader: TestClient, full: Weft, send: Sent, tokens: dict[str, str]) -> None:
    full.subscribe("dear", "feed:news", from_start=True)
    assert b"<entry>" not in send("bo", "GET", "/feeds/news.atom").content
    full.deliver()
    shown = send("bo", "GET", "/feeds/news.atom")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "application/atom+xml")
    assert shown.content.count(b"<entry>") == full.query(2).rows
    assert shown.content == (full.home / "files/news.atom").read_bytes() == full.feed("news")
    given = {"authorization": f"Bearer {tokens['bo']}", "if-none-match": shown.headers["etag"]}
    assert reader.get("/feeds/news.atom", headers=given).status_code == 304
    for who, path in (("anna", "/feeds/news.atom"), ("root", "/feeds/other.atom"), ("root", "/feeds/..%2Fx.atom")):
        assert send(who, "GET", path).status_code in (404, 422), path
    link = full.accounts.share_link("dear")
    by_link = f"/shared/{link.secret}/feeds/news.atom"
    assert reader.get(by_link).content == shown.content
    other = full.accounts.share_link("all-orders")
    assert reader.get(f"/shared/{other.secret}/feeds/news.atom").status_code == 404
    full.accounts.withdraw_link("dear", link.record.secret_id)
    assert reader.get(by_link).status_code == 404


def test_jobs_belong_to_who_started_them(send: Sent) -> None:
    assert send("anna", "POST", "/api/v1/queries/dear/pause").status_code == 404
    jobs = send("anna", "GET", "/api/v1/jobs").json()["items"]
    assert jobs
    assert send("anna", "GET", f"/api/v1/jobs/{jobs[0]['id']}").status_code == 200
    assert send("bo", "GET", f"/api/v1/jobs/{jobs[0]['id']}").status_code == 404


def test_an_administrator_sees_the_jobs_of_all_as_on_the_page(send: Sent) -> None:
    send("anna", "POST", "/api/v1/queries/dear/pause")  # refused, but the job is there
    own = {each["id"] for each in send("anna", "GET", "/jobs.json").json()["items"]}
    assert own
    for path in ("/jobs.json", "/api/v1/jobs"):
        assert own <= {each["id"] for each in send("root", "GET", path).json()["items"]}
        assert send("root administers", "GET", path).json()["items"] == []
        assert own.isdisjoint(each["id"] for each in send("bo", "GET", path).json()["items"])
    one = next(iter(own))
    assert send("root", "GET", f"/jobs/{one}.json").json()["id"] == one
    assert send("bo", "GET", f"/jobs/{one}.json").status_code == 404


@pytest.mark.parametrize("who", ["root", "bo"])
def test_rows_of_tables_that_one_may_not_read_are_hidden(
    send: Sent, full: Weft, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """The reader bo may read the answers of dear, but not orders.  Spark is not started: it would find this row."""
    columns = (("id", BIGINT), ("total", DOUBLE))
    row = Witness("driver", "orders", "o", columns, (5, 52.5))
    state = Witness("joined", None, "s", columns, (5, 52.5), members=(row,), count=1)
    found = Combination("a new row of orders arrives", (row, state), ("there is no row of orders with id = 6",))
    monkeypatch.setattr(why_module, "combinations", lambda *_, **__: ((found,), False))
    monkeypatch.setattr(OpenHome, "session", lambda *_: None)
    monkeypatch.setattr(cancelling, "cancellable", lambda *_: nullcontext())
    shown = send(who, "GET", "/api/v1/queries/dear/answers/1/why").json()
    (cause,) = shown["causes"]
    hides = who == "bo"
    assert shown["hides"] == hides
    assert cause["why"] == "a new row of orders arrives"
    assert [each["row"] for each in cause["witnesses"]] == 2 * [None if hides else {"id": 5, "total": 52.5}]
    assert [len(each["members"]) for each in cause["witnesses"]] == ([0, 0] if hides else [0, 1])
    assert (cause["absent"] == []) == hides
    assert ("52.5" in str(cause)) == (not hides)
    described = document(OPERATIONS)["paths"]["/queries/{query}/answers/{ordinal}/why"]["get"]["description"]
    assert "`hides` is true" in described
    assert "`row`" in described


def test_a_token_sees_only_jobs_that_it_could_have_started(send: Sent) -> None:
    for who in ("anna", "anna reads"):
        sent = send(who, "POST", "/api/v1/queries/dear/pause")  # refused, but the job is there
        assert sent.status_code in (403, 404)
    listed = {who: send(who, "GET", "/api/v1/jobs").json()["items"] for who in ("anna", "anna reads", "anna loads")}
    assert len(listed["anna"]) > len(listed["anna reads"]) > len(listed["anna loads"]) == 0
    known = {each["id"] for each in listed["anna reads"]}
    for each in listed["anna"]:
        path = f"/api/v1/jobs/{each['id']}"
        assert send("anna", "GET", path).status_code == 200
        assert send("anna reads", "GET", path).status_code == (200 if each["id"] in known else 404)
        for who, method, shown in (("anna loads", "GET", path), ("anna loads", "DELETE", path)):
            assert send(who, method, shown).status_code == 404
        assert send("anna loads", "GET", f"/jobs/{each['id']}").status_code == 404
        assert send("root administers", "GET", f"/jobs/{each['id']}").status_code == 404
