"""Refusals of the HTTP API name its operations and parameters, where the command line has commands and options."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from weft.api.weft import Weft
from weft.web import operation_names
from weft.web.api_v1.operations import OPERATIONS

API = "/api/v1"
ORDERS = "SELECT o.id FROM orders o"
FAILING: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("POST", "/queries", {"name": "dear", "sql": ORDERS}, "`PUT /api/v1/queries/{query}`"),
    ("POST", "/queries", {"name": "x", "sql": ORDERS, "digest": "hourly"}, "with `to`, or omit `digest`"),
    ("POST", "/queries", {"name": "x", "sql": ORDERS, "zone": "Europe/Berlin"}, "or omit `zone`"),
    ("POST", "/queries", {"name": "x", "sql": ORDERS, "duplicates": True}, "Omit `duplicates`"),
    ("POST", "/queries", {"name": "x", "sql": ORDERS, "discard_history": True}, "Add `keep=synopsis`"),
    ("POST", "/queries", {"name": "x", "sql": ORDERS, "keep": "synopsis", "start": "now"}, "Omit `start=now`"),
    ("POST", "/queries", {"name": "x", "sql": "p(x)", "language": "monpoly", "dialect": "duckdb"}, "Omit `dialect`"),
    ("POST", "/queries", {"name": "x", "sql": f"{ORDERS} INTO t"}, ""),
    ("POST", "/queries", {"name": "x", "sql": "SELECT * FROM results.gone"}, ""),
    ("PUT", "/queries/dear", {"sql": "SELECT o.id, o.total FROM orders o WHERE o.total > 50"}, "/api/v1/queries/dear`"),
    ("POST", "/queries/dear/resume", {}, "See `GET /api/v1/queries/dear`"),
    ("POST", "/queries/dear/redeliver", {"from_ordinal": 1}, "`POST /api/v1/queries/dear/channels` with `to=CHANNEL`"),
    ("POST", "/queries/dear/mute", {}, ""),
    ("DELETE", "/queries/dear?now=true", {}, "`purge=true` and `now=true`"),
    (
        "POST",
        "/backtest",
        {"sql": ORDERS, "since": "2026-03-02", "until": "2026-03-01"},
        "Choose `since` before `until`",
    ),
    ("POST", "/tables/empty/rows?ts_from=nothing", {}, ""),
    ("DELETE", "/tables/orders", {}, "`DELETE /api/v1/queries/QUERY`"),
    ("DELETE", "/loads/99", {}, "`GET /api/v1/loads`"),
    ("POST", "/quarantine/retry", {"ids": [99]}, "`GET /api/v1/quarantine`"),
    ("POST", "/sources", {"name": "x", "kind": "csv", "at": "/nowhere.csv", "key": []}, "`key`"),
    ("POST", "/sources", {"name": "x", "kind": "maildir", "at": "/nowhere", "key": ["a"]}, "Omit `key`"),
    ("POST", "/users", {"name": "ben", "role": "admin"}, "`inherit`"),
    ("POST", "/users", {"name": "zoe"}, "Choose the role admin"),
    ("POST", "/tick", {"now": "2000-01-01"}, ""),
)
"""Requests that are refused, and a part of the refusal."""
OF_A_TERMINAL = re.compile(r"(?<![\w-])--[a-z]|\bweft [a-z]")


@pytest.mark.parametrize(
    ("method", "path", "sent", "part"), FAILING, ids=lambda each: each if str(each)[:1] == "/" else ""
)
def test_a_refusal_names_operations_and_parameters(
    reader: TestClient, full: Weft, method: str, path: str, sent: dict[str, Any], part: str
) -> None:
    given: dict[str, Any] = {"json": sent} if sent else {}
    if path.startswith("/tables/empty/rows"):
        given = {"content": b'{"note": "x"}', "headers": {"content-type": "application/x-ndjson"}}
    response = reader.request(method, API + path, **given)
    assert response.status_code in (404, 409, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    said = response.json()
    texts = [str(each.get(name, "")) for each in (said, *said.get("reasons", ())) for name in ("detail", "hint")]
    assert part in "\n".join(texts), texts
    assert not any(map(OF_A_TERMINAL.search, texts)), texts


def test_the_named_operations_exist() -> None:
    there = {(each.method, re.sub(r"{\w+}", "{}", each.path)): each.parameters for each in OPERATIONS}
    for place in (*operation_names.OPERATIONS.values(), operation_names._REPLACE):
        method, path = place.split(" ")
        path, _, asked = path.partition("?")
        parameters = there[method, re.sub(r"{\w+}", "{}", path)]
        assert not asked or asked.partition("=")[0] in parameters, place


def test_the_named_parameters_exist() -> None:
    assert {name for each in OPERATIONS for name in each.parameters} >= operation_names.PARAMETERS
