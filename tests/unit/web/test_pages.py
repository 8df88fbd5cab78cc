"""Every page is shown with and without data, needs no script, and escapes what comes from data."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from shown_pages import assert_safe
from weft.api.weft import Weft

LISTS = ("/queries", "/tables")


@pytest.mark.parametrize("path", LISTS)
def test_a_list_of_an_empty_home_says_what_to_do(browser: TestClient, path: str) -> None:
    shown = browser.get(path)
    assert shown.status_code == 200
    assert 'class="empty"' in shown.text


@pytest.mark.parametrize("path", LISTS)
def test_a_list_shows_what_is_there(browser: TestClient, filled: Weft, path: str) -> None:
    shown = browser.get(path)
    assert shown.status_code == 200
    assert 'class="empty"' not in shown.text
    assert_safe(shown.text)
