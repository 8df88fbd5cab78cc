"""Each list has pages: from page to page, every item comes once, and a page has a limited size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from starlette.testclient import TestClient

from shown_pages import assert_safe
from weft.api.weft import Weft
from weft.catalog import saved_queries as catalog_saved
from weft.catalog import sources as catalog_sources
from weft.catalog import tables as catalog_tables
from weft.catalog import views as catalog_views
from weft.errors import Refused
from weft.web.pages import accounts, saved, sharing, tables, views

NAMES = tuple(f"{letter}{number}" for number in range(4) for letter in ("a", "B"))
"""Names whose order depends on the comparison without case."""
SORTED = sorted(NAMES, key=str.casefold)


def pages(browser: TestClient, path: str, words: str) -> Iterator[str]:
    """Yield the page and those that follow it by the link with these words."""
    following: str | None = path
    while following is not None:
        shown = browser.get(following)
        assert shown.status_code == 200
        assert_safe(shown.text)
        yield shown.text
        found = re.search(rf'<a href="([^"]+)" rel="next">{words} →', shown.text)
        following = None if found is None else unescape(found[1])


def assert_paged(browser: TestClient, path: str, words: str, item: str, names: Sequence[str] = SORTED) -> None:
    """Fail if the pages do not have each name once, in order, and at most three on a page."""
    shown = [re.findall(item, text) for text in pages(browser, path, words)]
    assert [name for some in shown for name in some] == list(names)
    assert max(map(len, shown)) == 3


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: tuple[tuple[ModuleType, str], ...] = (
        *((accounts, name) for name in ("_PEOPLE", "_GROUPS", "_MEMBERS")),
        *((module, "_LISTED") for module in (saved, sharing, views)),
        (tables, "_TABLES"),
    )
    for module, name in limits:
        monkeypatch.setattr(module, name, 3)


def test_tables_have_pages(browser: TestClient, weft: Weft) -> None:
    for name in NAMES:
        weft.make_table(name, "id INT")
    assert_paged(browser, "/tables", "Further tables", r'<a href="/tables/(\w+)">')
    assert_paged(browser, "/tables?q=b", "Further tables", r'<a href="/tables/(\w+)">', [f"B{n}" for n in range(4)])
    assert "No table fits" in browser.get("/tables?after=z").text


def test_views_and_tracked_tables_have_pages(browser: TestClient, weft: Weft, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n")
    for name in NAMES:
        weft.add_source(name, "csv", rows, "id")
    weft.poll_source("a0", now="2026-03-01")
    assert_paged(browser, "/views", "Further tracked tables", r'<a href="/views/(\w+)">')
    for name in NAMES:
        weft.add_view(f"of_{name}", "SELECT t.id FROM a0 t")
    assert_paged(browser, "/views", "Further views", r'<a href="/views/of_(\w+)">')
    assert "No further views" in browser.get("/views?after=z").text


def test_saved_queries_have_pages(browser: TestClient, weft: Weft) -> None:
    weft.make_table("orders", "id INT")
    for name in NAMES:
        weft.save_query(name, "SELECT o.id FROM orders o WHERE o.id > {{least}}", ["least:int"])
    assert_paged(browser, "/saved", "Further saved queries", r'<a href="/saved/\d+">(\w+)</a>')
    found = browser.get("/saved.json?limit=3").json()
    assert [each["name"] for each in found["items"]] == SORTED[:3]
    found = browser.get(f"/saved.json?limit=3&after={found['next']}").json()
    assert [each["name"] for each in found["items"]] == SORTED[3:6]


READERS = (
    ("/tables", catalog_tables, "table_schema"),
    ("/tables.json?limit=3", catalog_tables, "table_schema"),
    ("/views", catalog_tables, "table_schema"),
    ("/views", catalog_views, "_record"),
    ("/views.json?limit=3", catalog_views, "_record"),
    ("/saved", catalog_saved, "_record"),
    ("/saved.json?limit=3", catalog_saved, "_record"),
    ("/saved/2", catalog_saved, "_record"),
    ("/api/v1/sources?limit=3", catalog_sources, "_record"),
    ("/tables", catalog_sources, "_record"),
)
"""An address, and the function that makes a record from each row that a list of the catalog reads."""


def test_a_page_reads_only_the_records_that_it_shows(browser: TestClient, weft: Weft, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n")
    for name in NAMES * 2:
        number = len(weft.tables())
        weft.add_source(f"{name}_{number}", "csv", rows, "id")
    first = weft.tables()[0].name
    weft.poll_source(first, now="2026-03-01")
    for name in NAMES:
        weft.add_view(f"of_{name}", f"SELECT t.id FROM {first} t")
        weft.save_query(name, "SELECT o.id FROM a0_0 o WHERE o.id > {{least}}", ["least:int"])
    for path, module, function in READERS:
        # Two lists of three tables, and one item more of each, tell whether another page follows.
        assert 1 <= _calls(module, function, lambda path=path: browser.get(path)) <= 8, path


def _calls(module: ModuleType, function: str, act: Callable[[], Any]) -> int:
    """Return how often ``act`` calls the function of the module, and fail if its answer is an error."""
    with mock.patch.object(module, function, wraps=getattr(module, function)) as counted:
        assert act().status_code == 200
    return counted.call_count


@pytest.fixture
def peopled(weft: Weft) -> Weft:
    """A home with users who may read a table, with groups, and with a shared query of the first user."""
    weft.make_table("orders", "id INT")
    weft.accounts.add_user("ada", "admin")
    for name in NAMES:
        weft.accounts.add_user(name, "author")
        weft.accounts.add_group(f"of_{name}")
        weft.accounts.grant(name, "read", "orders")
    weft.install("late", "SELECT o.id FROM orders o", user="a0")
    for name in NAMES:
        weft.accounts.add_member("of_a0", name)
        weft.accounts.grant(name, "read", "results.late")
        weft.accounts.share_link("late", label=name)
    return weft


@pytest.fixture
def administrator(browser: TestClient, peopled: Weft) -> TestClient:
    """A browser that an administrator uses."""
    token = peopled.accounts.create_token("ada", scopes=["read", "install", "admin"]).secret
    browser.headers["authorization"] = f"Bearer {token}"
    return browser


def test_users_and_groups_have_pages(administrator: TestClient) -> None:
    with_ada = sorted([*NAMES, "ada"], key=str.casefold)
    assert_paged(administrator, "/users", "Further users", r'<th scope="row">(\w+)', with_ada)
    assert_paged(administrator, "/users?q=B", "Further users", r'<th scope="row">(\w+)', [f"B{n}" for n in range(4)])
    assert_paged(administrator, "/users", "Further groups", r"<b>of_(\w+)</b>")
    assert "a0, a1, a2 and 5 more" in administrator.get("/users").text
    assert "No user fits" in administrator.get("/users?q=zoe").text
    for path in ("/users.json", "/api/v1/users", "/api/v1/groups"):
        found = administrator.get(path, params={"limit": 3}).json()
        names, ends = [each["name"] for each in found["items"]], found["next"]
        more = administrator.get(path, params={"limit": 3, "after": ends}).json()
        assert (len(names), ends) == (3, names[-1])
        assert min(each["name"].casefold() for each in more["items"]) > ends.casefold()


def test_rights_have_pages(administrator: TestClient) -> None:
    """They are in the order in which the users were added."""
    shown = [
        re.findall(r"<li>(\w+) may <b>read</b> ([\w.]+)", text)
        for text in pages(administrator, "/users", "Further rights")
    ]
    assert [each for some in shown for each in some] == [
        (name, about) for name in NAMES for about in ("results.late", "orders")
    ]
    assert max(map(len, shown)) == 3
    following, seen = None, []
    while True:
        given = {"limit": 5, "about": "orders", **({} if following is None else {"after": following})}
        found = administrator.get("/api/v1/grants", params=given).json()
        seen += [each["to"] for each in found["items"]]
        following = found["next"]
        if following is None:
            break
    assert seen == list(NAMES)


def test_shares_have_pages(administrator: TestClient) -> None:
    path = "/queries/1/share"
    assert_paged(administrator, path, "Further users and groups", r"<li>(\w+) <span", NAMES)
    assert_paged(administrator, path, "Further links", r"<li>(\w+)<span", NAMES)


@pytest.mark.parametrize(
    "key", ["", "user", "user.x.read.table.1", "user.1.read", "user.1.read.table.1.2", "'.1.a.b.c"]
)
def test_another_text_is_no_key_of_a_right(peopled: Weft, key: str) -> None:
    if key.startswith("'"):
        assert len(peopled.accounts.grants(after=key)) == 2 * len(NAMES)
    else:
        with pytest.raises(Refused, match="is not the key of a right"):
            peopled.accounts.grants(after=key)
