"""docs/reference/rights.md says what each role may do through each door, as the server answers."""

from __future__ import annotations

from pathlib import Path

from docs.pages import ROOT
from docs.rights import page

PAGE = ROOT / "docs" / "reference" / "rights.md"


def test_each_cell_is_what_the_server_answers(tmp_path: Path, bless: bool) -> None:
    found = page(tmp_path / "home")
    if bless:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), "run `make bless`, and read the difference"
