"""The commands about sources, as a person types them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from weft.api import Weft
from weft.catalog.records import ATTACHED
from weft.catalog.sources import SourceKind, Stamps
from weft.cli.sources import KindOption, StampsOption, print_poll
from weft.extraction.sources.source_lease import Polled


def test_run_tells_what_came_late_or_went_to_quarantine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Weft.open(home, create=True) as opened:
        print_poll(opened, False, Polled("staff", 2, 1, 1, 5, late=2, quarantined=1))
    told = capsys.readouterr().out
    assert "staff: 2 began, 1 ended" in told and "Late: 2 transactions" in told and "1 line is quarantined" in told


def test_the_choices_are_those_of_the_catalog() -> None:
    stamps, _ = get_args(get_args(StampsOption)[0])
    assert get_args(stamps) == get_args(Stamps)
    # `weft table attach` adds sources of the last kind.
    assert (*get_args(get_args(KindOption)[0]), ATTACHED) == get_args(SourceKind)
