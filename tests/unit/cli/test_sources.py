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


def test_run_reports_late_and_quarantined_rows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Weft.open(home, create=True) as opened:
        print_poll(opened, False, Polled("staff", 2, 1, 1, 5, late=2, quarantined=1))
    output = capsys.readouterr().out
    assert (
        "staff: 2 began, 1 ended" in output and "Late: 2 transactions" in output and "1 record is quarantined" in output
    )


def test_run_reports_new_messages(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Weft.open(home, create=True) as opened:
        print_poll(opened, False, Polled("lists", 2, 0, 7, 5, late=1, appends=True))
        print_poll(opened, False, Polled("lists", 0, 0, 7, None, quarantined=2, appends=True))
    output = capsys.readouterr().out
    assert "lists: 2 new rows\n" in output and "Late: 1 row" in output and "ended" not in output
    assert "lists: 0 new rows\n  2 records are quarantined" in output


def test_the_choices_are_those_of_the_catalog() -> None:
    stamps, _ = get_args(get_args(StampsOption)[0])
    assert get_args(stamps) == get_args(Stamps)
    # `weft table attach` adds sources of the last kind.
    assert (*get_args(get_args(KindOption)[0]), ATTACHED) == get_args(SourceKind)
