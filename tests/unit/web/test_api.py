"""The HTTP API over a home that ticks without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate
from starlette.testclient import TestClient

from imap_server import PASSWORD, imap_server
from news_server import GROUP, news_server
from shown_pages import MARKUP
from weft.api.weft import Weft
from weft.web.api_v1.operation import Operation
from weft.web.api_v1.operations import OPERATIONS

API = "/api/v1"
LETTER = "Message-ID: <1@x>\nFrom: a@x.example\nDate: Sun, 01 Mar 2026 07:00:00 +0000\nSubject: Hello\n\nText\n"


def got(browser: TestClient, path: str, status: int = 200) -> Any:
    response = browser.get(API + path)
    assert response.status_code == status, response.text
    return response.json()


def test_many_rows_are_appended(browser: TestClient, filled: Weft) -> None:
    row = json.dumps({"note": "x" * 1_000}).encode() + b"\n"
    headers = {"content-type": "application/x-ndjson"}
    response = browser.post(f"{API}/tables/empty/rows", content=row * 5_000, headers=headers)
    assert (response.status_code, filled.table("empty").rows) == (201, 5_000), response.text


def test_the_document_is_openapi(reader: TestClient) -> None:
    document = got(reader, "/openapi.json")
    validate(document)
    assert document["openapi"] == "3.1.0"
    assert sum(len(each) for each in document["paths"].values()) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_each_operation_is_explained(operation: Operation) -> None:
    assert operation.summary
    named = {name for name in operation.parameters if name in operation.in_path}
    assert named == operation.in_path, "each part of the path is a parameter"


def test_queries_are_paged_by_name(reader: TestClient, full: Weft) -> None:
    first = got(reader, "/queries?limit=1")
    assert [each["name"] for each in first["items"]] == ["all-orders"]
    second = got(reader, f"/queries?limit=1&after={first['next']}")
    assert [each["name"] for each in second["items"]] == ["dear"]
    assert second["next"] is None
    assert got(reader, "/queries?text=DEAR")["items"] == second["items"]


def test_answers_are_paged_by_ordinal(reader: TestClient, full: Weft) -> None:
    found: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = got(reader, f"/queries/all-orders/answers?limit=3&after={after}")
        found, after = found + page["items"], page["next"]
    assert [each["_ordinal"] for each in found] == list(range(1, 8))
    assert MARKUP in {each["customer"] for each in found}
    assert got(reader, "/queries/all-orders/answers/3") == found[2]
    query_id = got(reader, "/queries/all-orders")["id"]
    assert got(reader, f"/queries/id:{query_id}/answers/3") == found[2]
    assert "no answer 8" in got(reader, "/queries/all-orders/answers/8", 404)["detail"]


def test_a_query_is_installed_paused_resumed_replaced_and_removed(browser: TestClient, filled: Weft) -> None:
    text = {"name": "late", "sql": "SELECT o.id FROM orders o WHERE o.total > 60"}
    made = browser.post(f"{API}/queries", json=text)
    assert made.status_code == 201, made.text
    assert made.json()["state"] == "active"
    again = browser.post(f"{API}/queries", json=text)
    assert again.status_code == 409
    assert again.headers["content-type"] == "application/problem+json"
    assert browser.post(f"{API}/queries/late/pause").json()["state"] == "paused"
    assert browser.post(f"{API}/queries/late/resume", json={"skip": False}).json()["state"] == "active"
    changed = browser.put(f"{API}/queries/late", json={"sql": "SELECT o.id FROM orders o WHERE o.total > 70"})
    assert changed.status_code == 200, changed.text
    assert "> 70" in changed.json()["sql"]
    assert got(browser, "/queries/late")["replaced"][0]["sql"] == text["sql"]
    assert browser.delete(f"{API}/queries/late?purge=true").json()["state"] == "removed"
    assert got(browser, "/queries/late", 404)["title"] == "not found"


def test_an_error_is_a_problem_with_place_and_hint(reader: TestClient, full: Weft) -> None:
    response = reader.post(f"{API}/explain", json={"sql": "SELECT o.idd FROM orders o"})
    assert response.status_code == 422
    problem = response.json()
    assert problem["where"] == "line 1, column 10"
    assert "idd" in problem["detail"]
    assert problem["hint"]


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("GET", "/queries?limit=0", {}, 400),
        ("GET", "/queries?limit=1.0", {}, 400),
        ("GET", "/queries?limit=1&limit=2", {}, 400),
        ("GET", "/queries?unknown=1", {}, 400),
        ("GET", "/queries?text=%00", {}, 400),
        ("GET", "/queries/all-orders/answers/0", {}, 400),
        ("GET", "/nothing", {}, 404),
        ("PATCH", "/queries", {}, 405),
        ("POST", "/queries", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "/queries", {"json": []}, 400),
        ("POST", "/queries", {"json": {"name": "x"}}, 400),
        ("POST", "/queries", {"json": {"name": "x", "sql": "SELECT 1", "user": 1}}, 400),
        ("POST", "/queries", {"json": {"name": "x", "sql": "SELECT 1", "colour": "red"}}, 400),
        ("POST", "/queries", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ("POST", "/queries/all-orders/pause", {"headers": {"origin": "https://evil.example"}}, 403),
        ("POST", "/queries/all-orders/pause", {"headers": {"origin": "http://["}}, 403),
        ("POST", "/tables/orders/rows", {"json": {}}, 415),
    ],
)
def test_values_that_do_not_fit_are_refused(
    reader: TestClient, full: Weft, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    response = reader.request(method, API + path, **sent)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status
    assert full.show("all-orders").query.state == "active"


def test_rows_are_appended_as_json_lines_and_as_csv(browser: TestClient, filled: Weft) -> None:
    def send(text: str, kind: str, parameters: str = "") -> Any:
        headers = {"content-type": kind}
        return browser.post(f"{API}/tables/orders/rows{parameters}", content=text.encode(), headers=headers)

    lines = '{"id": 20, "customer": "x"}\n{"id": 21, "total": 2.5}\n'
    assert send(lines, "application/x-ndjson").json()["stored"] == 2
    text = 'id,customer,total,ts\n22,"a, b",1.5,2026-03-11\n23,,,2026-03-11T01:00:00Z\n'
    assert send(text, "text/csv", "?ts_from=ts").json()["stored"] == 2
    samples = got(browser, "/tables/orders?samples=2")["samples"]
    assert {(each["id"], each["customer"], each["total"]) for each in samples} == {(22, "a, b", 1.5), (23, None, None)}
    for wrong, words in (
        ("id\nx\n", "x"),
        ("id,id\n1,2\n", "twice"),
        ("id\n1,2\n", "2 cells"),
        ("colour\nred\n", "colour"),
        ('id,customer\n1,"open\n', "CSV"),
    ):
        refused = send(wrong, "text/csv")
        assert refused.status_code == 422
        assert words in refused.text
    assert got(browser, "/tables/orders")["rows"] == 11


def test_loads_are_paged_and_undone(browser: TestClient, filled: Weft) -> None:
    for number in (30, 31):
        filled.append("empty", [{"note": str(number)}])
    newest = got(browser, "/loads?limit=1")
    older = got(browser, f"/loads?limit=1&after={newest['next']}")
    assert newest["items"][0]["id"] > older["items"][0]["id"]
    undone = browser.delete(f"{API}/loads/{newest['items'][0]['id']}")
    assert undone.json()["state"] == "undone"
    assert got(browser, "/tables/empty")["rows"] == 1


def test_everything_of_a_home_can_be_read(reader: TestClient, full: Weft) -> None:
    assert got(reader, "/tables?limit=1")["next"] == "empty"
    assert got(reader, "/tables/results.dear")["query"] == "dear"
    assert got(reader, "/status")["queries"] == {"active": 2}
    assert got(reader, "/settings")[0]["setting"]
    assert "dear" in json.dumps(got(reader, "/explanations/dear"))
    assert got(reader, "/queries/dear/forecast")["name"] == "dear"
    assert [each["query"] for each in got(reader, "/search?text=customer&limit=2")["items"]] == ["all-orders"] * 2
    page = got(reader, "/inbox?limit=1")
    [newest], [older] = page["items"], got(reader, f"/inbox?limit=1&after={page['next']}")["items"]
    assert {newest["query"], older["query"]} == {"all-orders", "dear"}
    assert newest["last_first_at"] >= older["last_first_at"] and newest["unread"] is None
    assert newest["answers"][0]["_ordinal"] == newest["rows"]
    assert [each["name"] for each in got(reader, "/synopses")["items"]] == ["all-orders", "dear"]
    assert got(reader, "/ticks")[0]["state"] == "committed"
    assert got(reader, "/synopses/dear") is not None
    for area in ("views", "sources", "saved", "quarantine", "deliveries", "messages"):
        assert got(reader, f"/{area}") == {"items": [], "next": None}


def test_channels_are_added_muted_and_removed(browser: TestClient, filled: Weft) -> None:
    path = f"{API}/queries/dear/channels"
    assert browser.post(path, json={"to": "file:dear.jsonl"}).status_code == 201
    assert got(browser, "/deliveries?query=dear")["items"][0]["channel"] == "file:dear.jsonl"
    assert browser.post(f"{API}/queries/dear/mute").json()[0]["muted"] is True
    assert browser.post(f"{API}/queries/dear/unmute", json={"skip": True}).json()[0]["muted"] is False
    again = browser.post(f"{API}/queries/dear/redeliver", json={"from_ordinal": 1})
    assert again.json()[0]["query"] == "dear"
    assert browser.delete(path, params={"to": "file:dear.jsonl"}).json()["state"] == "ended"


def test_a_saved_query_is_changed_filled_in_installed_and_removed(browser: TestClient, filled: Weft) -> None:
    text = {"sql": "SELECT o.id FROM orders o WHERE o.total > {{least}}", "parameters": ["least:decimal=10"]}
    made = browser.post(f"{API}/saved", json={"name": "form", **text})
    assert made.status_code == 201, made.text
    assert browser.post(f"{API}/saved", json={"name": "form", **text}).status_code == 409
    assert got(browser, "/saved") == {"items": [made.json()], "next": None}
    assert got(browser, "/saved/FORM")["parameters"] == [{"name": "least", "type": "decimal", "default": "10"}]
    declared = ["least:decimal=60.5", "but:string=none"]
    changed = {"sql": f"{text['sql']} AND o.customer <> {{{{but}}}}", "parameters": declared, "description": "Large."}
    assert browser.put(f"{API}/saved/other", json=changed).status_code == 404
    assert browser.put(f"{API}/saved/form", json=changed).json()["description"] == "Large."
    for values, constants in (
        ({}, ("'60.5'", "'none'")),
        ({"least": 12.25, "but": "it's"}, ("'12.25'", r"'it\'s'")),
        ({"least": 7}, ("'7'", "'none'")),
    ):
        shown = browser.post(f"{API}/saved/form/text", json={"values": values})
        assert shown.json() == {"sql": filled.fill_query("form", values)}, shown.text
        assert all(each in shown.json()["sql"] for each in constants), shown.text
    for wrong, status in (({"least": "1 OR 1=1"}, 422), ({"least": [1]}, 400), ({"but": "\0"}, 400), ({"x": 1}, 422)):
        assert browser.post(f"{API}/saved/form/text", json={"values": wrong}).status_code == status, wrong
    mine = browser.post(f"{API}/saved/form/install", json={"name": "mine", "values": {"least": 70}, "every": "1h"})
    assert mine.status_code == 201, mine.text
    assert (mine.json()["name"], mine.json()["every_us"]) == ("mine", 3_600_000_000)
    assert filled.show("mine").query.sql == filled.fill_query("form", {"least": 70})
    assert browser.delete(f"{API}/saved/form").json()["name"] == "form"
    assert got(browser, "/saved/form", 404)["title"] == "not found"
    assert got(browser, "/queries/mine")["state"] == "active"


def test_sources_of_files_and_of_mail_are_added(browser: TestClient, filled: Weft, tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text("No,name,left\n1,Ann,x\n")
    file = {"name": "staff", "kind": "csv", "at": str(tmp_path / "staff.csv")}
    assert browser.post(f"{API}/sources", json=file).status_code == 422, "a file has a key"
    given = {**file, "key": ["no"], "columns": "no BIGINT, name", "rename": "No=no", "ts": "file"}
    assert browser.post(f"{API}/sources", json=given).status_code == 201
    columns = got(browser, "/tables/staff")["columns"]
    assert [(each["name"], each["type"]) for each in columns[:2]] == [("no", "BIGINT"), ("name", "STRING")]
    for folder in ("cur", "new", "tmp"):
        (tmp_path / "Lists" / folder).mkdir(parents=True)
    (tmp_path / "Lists" / "new" / "1772300001.M1P1.host").write_text(LETTER)
    mail = {"name": "lists", "kind": "maildir", "at": str(tmp_path / "Lists")}
    assert browser.post(f"{API}/sources", json={**mail, "key": ["id"]}).status_code == 422, "mail has none"
    made = browser.post(f"{API}/sources", json=mail)
    assert (made.status_code, made.json()["kind"]) == (201, "maildir"), made.text
    polled = browser.post(f"{API}/sources/lists/poll")
    assert polled.status_code == 200, polled.text
    assert filled.table("lists").rows == 1, polled.text


def test_mail_and_news_of_servers_are_added(browser: TestClient, filled: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANA_PASSWORD", PASSWORD)
    with imap_server() as dovecot, news_server() as inn:
        dovecot.append(LETTER.encode())
        article = f"Path: x.example!not-for-mail\nNewsgroups: {GROUP}\n{LETTER.replace('<1@', '<2@')}"
        inn.offer("<2@x>", article.encode())
        for kind, place in (("imap", dovecot.uri()), ("nntp", inn.uri())):
            made = browser.post(f"{API}/sources", json={"name": kind, "kind": kind, "at": place})
            assert (made.status_code, made.json()["kind"]) == (201, kind), made.text
            assert PASSWORD not in made.text
            assert browser.post(f"{API}/sources/{kind}/poll").status_code == 200
            assert filled.table(kind).rows == 1
        for kind, place in (("nntp", dovecot.uri()), ("imap", "imap://ana:secret@127.0.0.1/INBOX")):
            refused = browser.post(f"{API}/sources", json={"name": "other", "kind": kind, "at": place})
            assert refused.status_code == 422 and "secret" not in refused.text, refused.text


def test_a_tick_through_the_api(browser: TestClient, filled: Weft) -> None:
    ticked = browser.post(f"{API}/tick", json={"now": "2026-03-12"})
    assert ticked.status_code == 200, ticked.text
    assert [each["name"] for each in ticked.json()["ticks"][0]["queries"]]
