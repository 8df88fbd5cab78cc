"""Answers as CSV, JSON lines and Atom; the calendar; figures; pages as JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

from starlette.testclient import TestClient

from shown_pages import MARKUP
from weft.api.weft import Weft
from weft.execution.windows import NEVER
from weft.instants import parse_instant
from weft.web.formats import calendar

ATOM = "{http://www.w3.org/2005/Atom}"


def test_answers_as_csv_and_json_lines(reader: TestClient, full: Weft) -> None:
    query = full.show("all-orders").query
    expected = [(row.ordinal, *row.values) for row in full.results("all-orders")]
    shown = reader.get(f"/queries/{query.query_id}/answers.csv")
    assert shown.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(shown.text)))
    assert [(int(each["_ordinal"]), int(each["id"]), each["customer"]) for each in rows] == expected
    lines = reader.get(f"/queries/{query.query_id}/answers.jsonl?after=2&limit=3").text.splitlines()
    assert [json.loads(line)["_ordinal"] for line in lines] == [3, 4, 5]
    assert reader.get(f"/queries/{query.query_id}/answers.csv?after=x").status_code == 422
    assert reader.get("/queries/99/answers.csv").status_code == 404


def test_pages_lead_to_their_formats(browser: TestClient, filled: Weft) -> None:
    for page, formats in (("/queries/2/answers", ("csv", "jsonl", "atom")), ("/queries", ("ics", "json"))):
        shown = browser.get(page).text
        for each in formats:
            assert f'href="{page}.{each}"' in shown
            assert browser.get(f"{page}.{each}").status_code == 200


def test_the_feed_has_stable_ids_and_changes_only_with_answers(browser: TestClient, filled: Weft) -> None:
    query = filled.show("all-orders").query
    path = f"/queries/{query.query_id}/answers.atom"
    shown = browser.get(path)
    feed = ElementTree.fromstring(shown.content)
    entries = feed.findall(f"{ATOM}entry")
    about = f"urn:weft:{filled.home_id}:{query.query_id}"
    assert [each.findtext(f"{ATOM}id") for each in entries] == [f"{about}:{n}" for n in range(7, 0, -1)]
    assert MARKUP in "".join(each.findtext(f"{ATOM}content") or "" for each in entries)
    assert entries[0].find(f"{ATOM}link").attrib["href"].endswith(f"/queries/{query.query_id}/answers/7")  # type: ignore[union-attr]
    unchanged = browser.get(path, headers={"if-none-match": shown.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    filled.append("orders", [{"id": 8, "customer": "\x07bell"}])
    filled.tick(now="2026-03-11")
    again = browser.get(path, headers={"if-none-match": shown.headers["etag"]})
    newer = ElementTree.fromstring(again.content).findall(f"{ATOM}entry")
    assert [each.findtext(f"{ATOM}id") for each in newer][1:] == [each.findtext(f"{ATOM}id") for each in entries]


def test_the_calendar_has_the_next_dates_of_queries(reader: TestClient, full: Weft) -> None:
    assert reader.get("/queries.ics").text.startswith("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n")
    query = replace(full.show("dear").query, sql=f"SELECT 'x, y; z' AS a, '{'é' * 80}' AS b")
    due = replace(query, next_due=parse_instant("2026-03-11T12:00"))
    never, paused = replace(query, next_due=NEVER), replace(due, state="paused")
    text = calendar([never, due, paused, query], "home", 0, "http://h")
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    unfolded = text.replace("\r\n ", "")
    assert unfolded.count("BEGIN:VEVENT") == unfolded.count("END:VEVENT") == 1
    assert "DTSTART:20260311T120000Z\r\nSUMMARY:dear\r\nDESCRIPTION:SELECT 'x\\, y\\; z' AS a\\, 'éé" in unfolded
    assert f"UID:home-{query.query_id}@weft\r\n" in unfolded


def test_figures_for_prometheus(browser: TestClient, filled: Weft) -> None:
    filled.subscribe("dear", "file:dear.jsonl")
    filled.mute("dear")
    text = browser.get("/metrics").text
    figures = dict(re.findall(r"^(weft_\S+) (\S+)$", text, re.MULTILINE))
    assert figures['weft_queries{state="active"}'] == "2"
    assert figures["weft_answers"] == str(sum(len(filled.results(name)) for name in ("all-orders", "dear")))
    assert figures["weft_ticks_total"] == "1"
    assert figures['weft_channels{state="muted"}'] == "1"
    assert float(figures["weft_tick_duration_seconds"]) > 0
    assert figures['weft_lease_held_seconds{lease="write"}'] == "0"
    for name in {each.partition("{")[0] for each in figures}:
        assert f"# TYPE {name} " in text
    with filled.writing("a test"):
        held = dict(re.findall(r"^(weft_lease\S+) (\S+)$", browser.get("/metrics").text, re.MULTILINE))
        assert float(held['weft_lease_held_seconds{lease="write"}']) > 0


def test_the_server_says_that_it_is_well(reader: TestClient) -> None:
    assert reader.get("/healthz").text == "ok\n"


def test_lists_and_objects_as_json(reader: TestClient, full: Weft) -> None:
    query = full.show("all-orders").query
    saved = full.save_query("above", "SELECT o.id FROM orders o WHERE o.total > {{least}}", ["least:decimal"])
    for path, expected in (
        ("/inbox.json?limit=1", "/inbox?limit=1"),
        ("/queries.json?limit=1", "/queries?limit=1"),
        (f"/queries/{query.query_id}.json", "/queries/all-orders"),
        (f"/queries/{query.query_id}/answers.json", "/queries/all-orders/answers"),
        (f"/queries/{query.query_id}/answers/3.json", "/queries/all-orders/answers/3"),
        ("/tables.json", "/tables"),
        ("/tables/orders.json", "/tables/orders"),
        ("/tables/results.dear.json", "/tables/results.dear"),
        ("/views.json", "/views"),
        ("/deliveries.json", "/messages"),
        ("/loads.json", "/loads"),
        ("/saved.json", "/saved"),
        (f"/saved/{saved.saved_id}.json", "/saved/above"),
        ("/audit.json", "/audit"),
        ("/tables/orders/quarantine.json", "/quarantine?table=orders"),
    ):
        assert reader.get(path).json() == reader.get(f"/api/v1{expected}").json(), path
    assert reader.get(f"/saved/{saved.saved_id}.json").json()["name"] == "above"
    assert reader.get("/saved/99.json").status_code == 404
    assert reader.get("/queries/99.json").status_code == 404
