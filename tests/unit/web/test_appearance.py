"""Every page is accessible, light and dark, and fits a telephone, in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page
from starlette.routing import compile_path

from mail_server import free_port
from real_browser import Served, chromium, overflow, served
from shown_pages import MARKUP
from weft.api.weft import Weft
from weft.rights.principal import Principal
from weft.web.pages import ROUTES

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 380, "height": 800}
PAGES = (
    "/",
    "/?q=customer",
    "/?q=nothing",
    "/queries",
    "/queries?state=troubled",
    "/queries/1",
    "/queries/2",
    "/queries/1/answers",
    "/queries/1/answers/2",
    "/queries/1/plan",
    "/queries/1/change",
    "/queries/2/share",
    "/ask",
    "/saved",
    "/saved/1",
    "/tables",
    "/tables/orders",
    "/tables/empty",
    "/tables/staff",
    "/tables/orders/quarantine",
    "/tables/orders/quarantine/1",
    "/tables/-/upload",
    "/views",
    "/views/staff",
    "/synopses",
    "/deliveries",
    "/users",
    "/audit",
    "/account",
    "/system",
    "/jobs/none",
)
FOR_STRANGERS = ("/sign-in", "/password/x", "/unsubscribe/1.x", "/shared/none", "/open/x")


@pytest.fixture(scope="module")
def site(filled_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A home with something for each page to show: also what is wrong, and what is long."""
    folder = tmp_path_factory.mktemp("appearance")
    shutil.copytree(filled_home, folder / "home")
    with chromium() as browser, Weft.open(folder / "home") as weft, served(weft, browser) as site:
        furnish(weft, folder)
        site.add("ada", "admin")
        acting(weft, "ada").accounts.prefer(zone="Europe/Berlin")
        site.add("rea", "reader")
        weft.accounts.add_group("analysts")
        weft.accounts.grant("analysts", "read", "orders")
        yield site


def acting(weft: Weft, name: str) -> Weft:
    """Return the home as a user sees it."""
    return weft.acting_as(Principal(name, weft.accounts.user(name).user_id))


def furnish(weft: Weft, folder: Path) -> None:
    staff = folder / "staff.csv"
    staff.write_text("name,room\nanna,1\nben,2\n")
    weft.add_source("staff", "csv", staff, "name")
    weft.poll_source("staff", now="2026-03-11")
    staff.write_text("name,room\nanna,1\n")
    weft.poll_source("staff", now="2026-03-12")
    bad = folder / "bad.jsonl"
    bad.write_text('{"id": "seven", "customer": "x", "total": 1}\n{"id": 8, "customer": "y", "total": 1}\n')
    weft.ingest_file(bad, "orders")
    (weft.home / "weft.toml").write_text(
        f'[smtp]\nhost = "127.0.0.1"\nport = {free_port()}\ntls = "none"\nfrom = "weft@example.com"\n'
    )
    weft.install("long" * 16, "SELECT o.id, o.customer, o.total, o.ts FROM orders o", user="cyd")
    weft.subscribe("dear", "email:" + "a" * 60 + "@example.com", from_start=True)
    weft.subscribe("all-orders", "file:" + "long" * 30 + ".jsonl", from_start=True)
    weft.tick(now="2026-03-13")
    weft.pause("all-orders")
    weft.save_query("above", "SELECT o.id FROM orders o WHERE o.total > {{least}}", ["least:decimal=10"])


def test_no_page_is_left_out() -> None:
    wanted = {each.path for each in ROUTES if "GET" in (each.methods or ()) and not each.path.endswith(".json")}
    visited = [urlsplit(path).path for path in (*PAGES, *FOR_STRANGERS)]
    missing = {path for path in wanted if not any(compile_path(path)[0].fullmatch(each) for each in visited)}
    assert missing == set()


@pytest.fixture(scope="module")
def ada(site: Served) -> Page:
    return site.signed_in("ada", viewport=WIDE)


@pytest.fixture(scope="module")
def stranger(site: Served) -> Page:
    return site.window(viewport=WIDE)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_and_fits_a_telephone(ada: Page, path: str) -> None:
    look_at(ada, path)


@pytest.mark.parametrize("path", FOR_STRANGERS)
def test_a_page_for_strangers_is_accessible_and_fits_a_telephone(stranger: Page, path: str) -> None:
    look_at(stranger, path)


def test_names_from_right_to_left_leave_their_surroundings_in_order(site: Served, ada: Page) -> None:
    site.weft.install("שלום", "SELECT o.id FROM orders o")
    site.weft.tick(now="2026-03-14")
    ada.goto("/")
    name, count = ada.get_by_role("link", name="שלום"), ada.locator("h2", has_text="שלום").locator(".count")
    assert count.evaluate("each => each.getClientRects().length") == 1
    right = name.evaluate("each => each.getBoundingClientRect().right")
    assert right <= count.evaluate("each => each.getBoundingClientRect().left")
    site.weft.remove("שלום", purge=True)


def test_the_results_of_forms_are_accessible_and_fit_a_telephone(ada: Page) -> None:
    """Pages that no address shows: what is refused, what a step found, and links that are shown once."""
    press = Pressing(ada)
    ada.goto("/ask")
    ada.locator(".cm-content").fill("SELECT o.totl FROM orders o WHERE o.custmer = 'x'")
    press("Explain", "2 reasons against this")
    ada.locator(".cm-content").fill("SELECT o.id FROM orders o WHERE o.total > {{least}}")
    press("Explain", "The text has parameters")
    ada.locator(".cm-content").fill("SELECT o.id FROM orders o")
    press("Explain", "An answer appears when")
    press("Install", "the query has no name")
    ada.goto("/saved/1")
    ada.get_by_label("least", exact=True).fill("many")
    press("Show the text", "is not a decimal")
    ada.goto("/tables/-/upload")
    ada.get_by_label("File", exact=True).set_input_files(
        [{"name": "more.csv", "mimeType": "text/csv", "buffer": b"id,customer,total\n9,x,1\nten,y,2\n"}]
    )
    ada.get_by_label("Table", exact=True).fill("orders")
    press("Show the types", "Some records cannot be read")
    ada.get_by_label("Column with the time of each row").fill("totl")
    press("Show the types", "the file has no column")
    ada.goto("/users")
    ada.locator("#user").fill("new")
    press("Add", "A link for new")
    ada.goto("/queries/2/share")
    ada.get_by_label("For whom").fill("the board")
    press("Make a link", "shown once")
    ada.goto("/account")
    ada.get_by_text("New token").click()
    press("Create", "Your new token")
    ada.goto("/queries/1")
    ada.get_by_text("Add a channel").click()
    ada.get_by_label("Channel", exact=True).fill("pigeon:home")
    press("Add", "is not a channel")
    ada.goto("/system")
    press("Examine", "What the examination found")


@dataclass(frozen=True)
class Pressing:
    """Press a button of a page, wait until the next page has some words, and examine it."""

    page: Page

    def __call__(self, button: str, words: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).first.click()
        self.page.get_by_text(words).first.wait_for(timeout=60_000)
        look(self.page)


def look_at(page: Page, path: str) -> None:
    """Examine a page in both schemes, wide and narrow, with everything that it folds."""
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == (404 if path.endswith("/none") else 200)
    look(page)


def look(page: Page) -> None:
    """Examine the page that is open, as ``look_at`` does."""
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.evaluate(AXE_SCRIPT)
    examine(page, ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])
    page.emulate_media(color_scheme="dark")
    examine(page, ["color-contrast"])
    assert overflowing_cells(page) == []
    page.set_viewport_size(NARROW)
    assert overflow(page) == 0
    assert overflowing_cells(page) == []
    examine(page, ["target-size"])
    assert MARKUP not in page.content()


def overflowing_cells(page: Page) -> list[str]:
    """Return the texts of cells that are wider than their cell, so that they cover the next one or leave the table."""
    cells = "[...document.querySelectorAll('tbody td, tbody th')]"
    wide = f"{cells}.filter(each => each.scrollWidth > each.clientWidth + 1)"
    found: list[str] = page.evaluate(f"{wide}.map(each => each.innerText)")
    return found


def examine(page: Page, rules: list[str]) -> None:
    """Fail if axe-core finds something by these rules, or by the rules with these tags."""
    response = page.evaluate("given => axe.run(given)", {"runOnly": rules, "resultTypes": ["violations"]})
    found = AxeResults(response)
    assert found.violations_count == 0, found.generate_report()
    assert response["passes"], "axe-core has examined nothing"
