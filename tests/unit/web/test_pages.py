"""Every page is shown with and without data, needs no script, and escapes what comes from data."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from shown_pages import assert_safe

LISTS = ("/queries", "/tables")


@pytest.mark.parametrize("path", LISTS)
def test_a_list_of_an_empty_home_says_what_to_do(browser: TestClient, path: str) -> None:
    shown = browser.get(path)
    assert shown.status_code == 200
    assert 'class="empty"' in shown.text


@pytest.mark.parametrize("path", LISTS)
def test_a_list_shows_what_is_there(reader: TestClient, path: str) -> None:
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
def test_what_is_not_there_is_not_found(reader: TestClient, path: str) -> None:
    shown = reader.get(path)
    assert shown.status_code == 404
    assert_safe(shown.text)
