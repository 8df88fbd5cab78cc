"""The statements of the pages use indexes: none reads all that is stored, but for those that count."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from weft.api.weft import Weft
from weft.catalog import layout

GROWING = (
    *("queries", "plans", "ticks", "tick_queries", "tick_plans", "shared_ticks", "replaced"),
    *("outbox", "subscriptions", "marks", "read_marks", "audit", "loads", "load_files", "quarantine", "secrets"),
)
"""The tables that grow with what people do.  The others have a row for each table, user, group or grant."""
PAGES = (
    *("/", "/?show=unread", "/?q=customer", "/queries", "/queries?state=failed", "/queries?state=troubled"),
    *("/queries/1", "/queries/1/answers", "/queries/1/answers/2", "/queries/1/plan", "/queries/1/change"),
    *("/queries/1/share", "/queries/1/answers.atom", "/queries/1/answers.json", "/queries.json", "/queries.ics"),
    *("/ask", "/saved", "/tables", "/tables/orders", "/tables/orders/quarantine", "/views", "/synopses"),
    *("/deliveries", "/users", "/audit", "/system", "/metrics"),
)
FEW = ("queries_reading", "queries_removed", "subscriptions_unwell", "subscriptions_behind", "outbox_unsent")
"""Indexes with the few rows that a condition selects."""
WHOLE = {
    "queries": ("sum(queries.next_ordinal",),  # those with answers, from an index
    "subscriptions": ("SELECT count(*) AS count_1 \nFROM subscriptions",),
    "ticks": ("count(*)",),
}
"""What reads a whole table or index: to count, or to find few rows that no index has.  By a part of the statement."""


def is_bounded(statement: str, step: str) -> bool:
    """Whether a scan ends with the limit of the page, or reads an index that has few of the rows."""
    return ("ORDER BY" in statement and "LIMIT" in statement) or any(f"INDEX {each}" in step for each in FEW)


@pytest.fixture
def statements(full: Weft) -> Iterator[dict[str, Any]]:
    """The SELECT statements that the catalog runs, with the parameters of one run."""
    found: dict[str, Any] = {}

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            found[statement] = parameters

    engine = full.opened.catalog._database._engine
    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_by_indexes(reader: TestClient, full: Weft, statements: dict[str, Any], path: str) -> None:
    assert reader.get(path).status_code == 200
    with closing(sqlite3.connect(layout.catalog_file(full.home))) as catalog:
        wrong = [
            f"{step}: {statement}"
            for statement, parameters in statements.items()
            for *_, step in catalog.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            if step.startswith("SCAN") and (table := step.split()[1]) in GROWING
            if not is_bounded(statement, step) and not any(part in statement for part in WHOLE.get(table, ()))
        ]
    assert statements, "the page reads nothing"
    assert not wrong, "\n".join(wrong)
