"""A real browser (chromium of the system's packages) at the page of a home, which a server of this process serves."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from weft.api.weft import Weft
from weft.rights.principal import Role
from weft.web.serving import Address, page_served

PASSWORD: Final = "a long enough password"
PATIENCE_MS: Final = 20_000
"""The time that a page or an element may take to appear, on a busy machine."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Run chromium.  Skip the test if the machine has none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@dataclass(frozen=True)
class Served:
    """A home, the address of its page without the slash at the end, and a browser."""

    weft: Weft
    url: str
    browser: Browser
    opening: str = "/"

    def add(self, name: str, role: Role) -> str:
        """Add a user with the password of the tests, and return the name."""
        self.weft.accounts.add_user(name, role)
        self.weft.accounts.set_password(self.weft.accounts.password_link(name).secret, PASSWORD)
        return name

    def window(self, **how: Any) -> Page:
        """Open a browser with cookies of its own.  ``how`` are options of the browser, such as its width."""
        context = self.browser.new_context(base_url=self.url, **how)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        if not self.weft.accounts.in_use():
            page.goto(self.opening)
        return page

    def signed_in(self, name: str, **how: Any) -> Page:
        """Open a browser in which a user has signed in."""
        page = self.window(**how)
        sign_in(page, name)
        return page


@contextlib.contextmanager
def served(weft: Weft, browser: Browser) -> Iterator[Served]:
    """Serve the page of a home."""
    with page_served(weft, Address("127.0.0.1", 0)) as address:
        yield Served(weft, address.url.rstrip("/"), browser, address.opening)


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """Fill in the form of the sign-in and send it.  Wait until the next page is there."""
    if not page.url.split("?")[0].endswith("/sign-in"):
        page.goto("/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()


def closed(browser: Browser) -> None:
    """Close all windows."""
    contexts: list[BrowserContext] = list(browser.contexts)
    for context in contexts:
        context.close()


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return max(width, 0)
