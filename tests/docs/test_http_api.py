"""docs/reference/http-api.md lists the operations that the program has."""

from __future__ import annotations

from docs.http_api import page
from docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "http-api.md"


def test_the_page_lists_the_operations(bless: bool) -> None:
    found = page()
    if bless:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), "run `make bless`, and read the difference"
