"""Every page is shown with and without data, needs no script, and escapes what comes from data."""

from __future__ import annotations

import datetime as dt
import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from shown_pages import MARKUP, assert_safe, sent
from weft.api.weft import Weft
from weft.catalog.records import Choice, Count
from weft.errors import CatalogError, StorageError
from weft.execution.windows import NEVER
from weft.instants import parse_instant
from weft.web.rendering import environment

LISTS = ("/", "/queries", "/tables")
STATES = ("/views", "/synopses", "/deliveries", "/system", "/tables/-/upload")


@pytest.mark.parametrize("path", LISTS)
def test_a_list_of_an_empty_home_names_the_next_step(browser: TestClient, path: str) -> None:
    shown = browser.get(path)
    assert shown.status_code == 200
    assert 'class="empty"' in shown.text


@pytest.mark.parametrize("path", LISTS)
def test_a_list_shows_the_objects(reader: TestClient, path: str) -> None:
    shown = reader.get(path)
    assert shown.status_code == 200
    assert 'class="empty"' not in shown.text
    assert_safe(shown.text)


OF_QUERIES = (
    "/queries/1",
    "/queries/1/answers",
    "/queries/1/answers/1",
    "/queries/1/plan",
    "/queries/1/change",
    "/queries/2",
    "/queries/2/plan",
)


@pytest.mark.parametrize("path", OF_QUERIES)
def test_a_query_has_its_pages(reader: TestClient, path: str) -> None:
    shown = reader.get(path)
    assert shown.status_code == 200
    assert_safe(shown.text)


@pytest.mark.parametrize(
    "path", ["/queries/99", "/queries/1/answers/99", "/queries/1/answers/0", "/queries/99/plan", f"/queries/{9**30}"]
)
def test_missing_objects_are_not_found(reader: TestClient, path: str) -> None:
    shown = reader.get(path)
    assert shown.status_code == 404
    assert_safe(shown.text)


@pytest.mark.parametrize("path", STATES)
def test_an_area_is_shown_with_and_without_data(browser: TestClient, reader: TestClient, path: str) -> None:
    for client in (browser, reader):
        shown = client.get(path)
        assert shown.status_code == 200
        assert_safe(shown.text)


@pytest.mark.parametrize("path", ["/tables/orders", "/tables/orders/quarantine", "/tables/empty"])
def test_a_table_has_its_pages(reader: TestClient, path: str) -> None:
    shown = reader.get(path)
    assert shown.status_code == 200
    assert_safe(shown.text)


@pytest.mark.parametrize("path", ["/tables/none", "/tables/none/quarantine", "/views/none", "/views/orders", "/jobs/x"])
def test_an_unknown_name_is_not_found(reader: TestClient, path: str) -> None:
    assert reader.get(path).status_code == 404


def test_the_inbox_shows_answers_as_new_until_they_are_read(browser: TestClient, filled: Weft) -> None:
    shown = browser.get("/").text
    assert_safe(shown)
    assert "7 new" in shown
    assert "7 new" in browser.get("/?show=unread").text
    read = sent(browser, "/", shown)
    assert " new</span>" not in read
    assert "Nothing unread" in browser.get("/?show=unread").text


def test_an_error_is_a_page_also_if_the_clock_fails(
    browser: TestClient, filled: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise CatalogError("no clock")

    def defect(*_: object) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(Weft, "clock", property(fails))
    monkeypatch.setattr(Weft, "table_page", defect)
    assert browser.get("/tables/none").status_code == 404
    assert browser.get("/tables").status_code == 500
    assert "(no time) GET /tables" in (filled.home / "logs" / "weft.log").read_text()


def test_an_instant_of_the_data_is_not_rounded(browser: TestClient, filled: Weft) -> None:
    at = "2026-03-10 12:00:00.5"
    orders = {"id": 9, "customer": "late", "total": 99.0, "ts": dt.datetime(2026, 3, 10, 11, 0, 0, 250_000)}
    filled.append("orders", [orders], ts_from="ts")
    filled.tick(now=at)
    shown = browser.get("/queries/2").text
    for fact in ("<dt>Checked up to</dt><dd>", '<th scope="row">'):
        assert f"{fact}<time" in shown and f"{at} UTC" in shown.partition(fact)[2].partition("</time>")[0]
    assert "2026-03-10 11:00:00.25 UTC" in shown.partition("<dt>Last answer</dt>")[2].partition("</time>")[0]


def test_the_instants_of_a_try_and_a_backtest_are_not_rounded() -> None:
    module: Any = environment().get_template("ask_parts.html").module
    tried, tested = (
        SimpleNamespace(count=0, at=500_000),
        SimpleNamespace(count=0, since=250_000, until=750_000, nothing=""),
    )
    shown = module.outcome(tried, tested, None, [])
    assert [each for each in (25, 5, 75) if f"1970-01-01 00:00:00.{each} UTC" not in shown] == []


def test_the_system_says_that_a_channel_failed(
    browser: TestClient, filled: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Everything is well" in browser.get("/system").text
    filled.subscribe("dear", "file:x.jsonl", from_start=True)
    (filled.home / "files" / "x.jsonl").mkdir(parents=True)  # nothing can be appended to it
    filled.tick(now="2026-03-11")
    shown = browser.get("/system").text
    assert "Everything is well" not in shown
    assert "1 channel failed" in shown


def test_answers_that_cannot_be_read_leave_the_others_and_the_page(browser: TestClient, filled: Weft) -> None:
    """The first tick has a file for both queries, and the second one for the query ``late``."""
    filled.install("late", "SELECT o.id FROM orders o WHERE o.id > 5", user="ben", keep="synopsis")
    filled.tick(now="2026-03-11")
    first, *_ = sorted((filled.home / "ledger").glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    first.unlink()
    shown = browser.get("/")
    assert shown.status_code == 200
    assert_safe(shown.text)
    assert shown.text.count('role="alert"') == 2
    assert "Rows of the latest" not in shown.text and "Latest answers of late" in shown.text
    for path, damaged in (("/queries/2", True), ("/queries/3", False)):
        shown = browser.get(path)
        assert shown.status_code == 200
        assert ("is missing" in shown.text) == damaged
        assert "Remove this query" in shown.text


def test_a_word_of_a_query_is_found_in_any_case(reader: TestClient) -> None:
    for word, found in (("TOTAL", ["dear"]), ("select", ["all-orders", "dear"]), ("BEN", ["dear"]), ("o_total", [])):
        shown = reader.get("/queries.json", params={"text": word}).json()
        assert [each["name"] for each in shown["items"]] == found


def test_the_next_page_of_the_inbox_after_a_query_that_was_removed(browser: TestClient, filled: Weft) -> None:
    """The inbox is open while somebody removes the query after which its next page begins."""
    last = filled.show("dear").query.query_id
    filled.remove("dear")
    shown = browser.get(f"/?before={last}", follow_redirects=True)
    assert shown.status_code == 200
    assert "all-orders" in shown.text and "this is the beginning of the inbox" in shown.text
    assert browser.get("/?before=99&show=unread", follow_redirects=False).headers["location"] == "/?show=unread"


def test_letters_beyond_ascii_are_found_in_any_case(browser: TestClient, filled: Weft) -> None:
    filled.install("ärger-groß", "SELECT o.id FROM orders o WHERE o.customer = 'Größe Żubr 100%'", user="Ömer")
    text = "SELECT o.id FROM orders o WHERE o.id > {{least}}"
    filled.save_query("above", text, ["least:int"], description="Übersicht")
    for word in ("ÄRGER", "GROSS", "GRÖßE", "żubr", "ÖMER", "ömer", "Ŏ"):
        shown = browser.get("/queries.json", params={"text": word}).json()
        assert [each["name"] for each in shown["items"]] == ([] if word == "Ŏ" else ["ärger-groß"]), word
    for word, found in (("übersicht", True), ("ÜBER", True), ("ü%sicht", False)):
        assert ("above" in browser.get("/saved", params={"q": word}).text) is found, word


def test_the_inbox_is_searched(reader: TestClient) -> None:
    found = reader.get("/", params={"q": "customer 3"}).text
    assert_safe(found)
    assert "/queries/1/answers/3" in found
    marked = reader.get("/", params={"q": MARKUP}).text
    assert_safe(marked)
    assert "No answer has these words" in reader.get("/", params={"q": "nowhere"}).text


@pytest.mark.parametrize(
    ("due", "old", "new"),
    [
        (None, "the next tick checks", "when rows arrive"),
        (NEVER, "when rows arrive", "when rows arrive"),
        (parse_instant("2026-03-12"), "2026-03-12 00:00:00 UTC", "2026-03-12 00:00:00 UTC"),
    ],
)
def test_the_list_says_whether_time_alone_can_make_an_answer_appear(
    browser: TestClient, filled: Weft, due: int | None, old: str, new: str
) -> None:
    filled.install("old", "SELECT o.id FROM orders o WHERE o.ts < NOW() - INTERVAL 1 WEEK", user="ben")
    filled.install("new", "SELECT o.id FROM orders o WHERE o.total > 1", user="ben")
    at = parse_instant("2026-03-11")
    with filled.writing("tick") as writer:
        tick = writer.ticks.plan(at, Choice(), at)
        counts = {query.query_id: Count(0, None, due, at) for query, _ in writer.ticks.members(tick.tick_id)}
        writer.ticks.commit(tick.tick_id, counts, [], at)
    rows = browser.get("/queries").text.split('<th scope="row">')[1:]
    for name, words in (("old", old), ("new", new)):
        row = next(each for each in rows if f">{name}</a>" in each)
        assert words in row.partition('data-label="Next due">')[2]


def test_a_query_that_cannot_be_explained_says_when_it_is_due_as_the_list_does(
    browser: TestClient, filled: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query without a condition on time is due when rows arrive, also if nothing else can be said."""
    filled.install("new", "SELECT o.id FROM orders o WHERE o.total > 1", user="ben")
    at = parse_instant("2026-03-11")
    with filled.writing("tick") as writer:
        tick = writer.ticks.plan(at, Choice(), at)
        counts = {query.query_id: Count(0, None, None, at) for query, _ in writer.ticks.members(tick.tick_id)}
        writer.ticks.commit(tick.tick_id, counts, [], at)

    def refused(*_: object) -> None:
        raise StorageError("the table cannot be read")

    monkeypatch.setattr(type(filled), "explain_installed", refused)
    shown = browser.get("/queries/3").text
    assert "the table cannot be read" in shown
    assert "<dt>Next due</dt><dd>when rows arrive</dd>" in shown


def test_a_query_and_its_table_lead_to_each_other(reader: TestClient, full: Weft) -> None:
    assert '<dt>Reads</dt><dd><a href="/tables/orders">orders</a></dd>' in reader.get("/queries/2").text
    table = reader.get("/tables/orders").text
    assert 'href="/queries?q=orders"' in table
    found = re.search(r'href="(/ask\?sql=[^"]+)"', table)
    assert found is not None
    asked = reader.get(unescape(found[1])).text
    assert "SELECT t.id, t.customer, t.total, t.ts FROM orders t" in asked


def test_notes_about_a_query_are_sentences() -> None:
    module: Any = environment().get_template("parts.html").module
    shown = module.meaning(
        "An answer appears when a < b\nNOTE: a row may return\nAnswers so far: 3\nWARNING: it reads <all>"
    )
    assert '<p class="words">An answer appears when a &lt; b\nAnswers so far: 3</p>' in shown
    assert '<p class="note">A row may return.</p>' in shown
    assert '<p class="warning">It reads &lt;all&gt;.</p>' in shown
