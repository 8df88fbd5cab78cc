"""What every page must keep to, whatever the data is."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.testclient import TestClient

MARKUP: Final = "<script>alert('x')</script>&\"'><img src=x onerror=alert(1)>"
"""A value that a page must escape."""
_ADDRESSES: Final = ("href", "src", "action", "formaction", "hx-get", "hx-post", "poster", "data")


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.forms = self.tokens = 0
        self.head = self.cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("style", "iframe", "object", "embed") or (tag == "script" and "src" not in given):
            self.wrong.append(f"<{tag}>")
        if tag == "img" and not (given.get("src") or "").startswith("/static/"):
            self.wrong.append(f"<img src={given.get('src')}>")
        self.wrong += [f"{name}=" for name in given if name.startswith("on") or name == "style"]
        addresses = ((name, given.get(name)) for name in _ADDRESSES)
        self.wrong += [
            f"{name}={address}"
            for name, address in addresses
            if address is not None and not (address.startswith("/") and not address.startswith("//"))
            if not address.startswith("#")
        ]
        if tag == "thead":
            self.head = 0
        if tag == "tr":
            self.cells = 0
        if tag in ("th", "td"):
            self.head += given.get("scope") == "col"
            self.cells += 1
        if tag == "form" and (given.get("method") or "").lower() == "post":
            self.forms += 1
        if tag == "input" and given.get("name") == "csrf":
            self.tokens += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self.cells != self.head:
            self.wrong.append(f"a row of {self.cells} cells below {self.head} columns")


def assert_safe(text: str) -> None:
    """Fail if a page has a script or a style of its own, an address elsewhere, a form without a token, or a table
    with a row that has more or fewer cells than the head.
    """
    parser = _Elements()
    parser.feed(text)
    parser.close()
    assert parser.wrong == []
    assert parser.tokens == parser.forms
    assert MARKUP not in text


def field(text: str, name: str = "csrf") -> str:
    """Return the value of the first field of this name in a page."""
    return re.findall(rf'name="{name}" value="([\w-]+)"', text)[0]


def sent(browser: TestClient, path: str, shown: str, *, files: Any = None, **fields: str) -> str:
    """Send a form of the page ``shown`` to ``path``.  Return the page at the end, also if a job takes its time."""
    answer = browser.post(path, data={"csrf": field(shown), **fields}, files=files)
    until = time.monotonic() + 120
    while answer.url.path.startswith("/jobs/") and 'hx-trigger="every' in answer.text:
        assert time.monotonic() < until, "the job does not end"
        time.sleep(0.1)
        answer = browser.get(answer.url.path)
    assert_safe(answer.text)
    return answer.text
