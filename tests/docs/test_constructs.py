"""docs/reference/constructs.md says of each construct what the program says."""

from __future__ import annotations

from docs.constructs import SECTIONS, page, verdict
from docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "constructs.md"


def test_the_page_is_what_the_program_says(bless: bool) -> None:
    found = page()
    if bless:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), "run `make bless`, and read the difference"


def test_each_refusal_says_what_to_write() -> None:
    """A refusal has a reason and, in the same or another sentence, a replacement."""
    refused = [verdict(text) for constructs in SECTIONS.values() for text in constructs.values()]
    short = [each for each in refused if each != "stands" and len(each.split()) < 8]
    assert not short
