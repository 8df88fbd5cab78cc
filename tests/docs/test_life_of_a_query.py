"""docs/life-of-a-query.md contains the current output of the program for its query."""

from __future__ import annotations

from pathlib import Path

from docs.life import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "life-of-a-query.md"


def test_the_page_is_what_the_program_says(bless: bool) -> None:
    found = page()
    if bless:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), "run `make bless`, and read the difference"
