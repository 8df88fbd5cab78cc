"""docs/reference/rights.md says what each role may do through each door, as the server answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT
from docs.rights import page
from weft.web import visits
from weft.web.api_v1 import endpoints

PAGE = ROOT / "docs" / "reference" / "rights.md"


def test_each_cell_is_what_the_server_answers(tmp_path: Path, bless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((endpoints, "PATIENCE_SECONDS"), (visits, "_PATIENCE_SECONDS")):
        monkeypatch.setattr(module, name, 60.0)  # what a job does is known when it ends
    found = page(tmp_path / "home")
    if bless:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), "run `make bless`, and read the difference"
