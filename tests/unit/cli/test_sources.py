"""The commands about sources, as a person types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from unit.cli.conftest import Told
from weft.api import Weft
from weft.catalog.sources import SourceKind, Stamps
from weft.cli.sources import KindOption, StampsOption, print_poll
from weft.extraction.sources.source_lease import Polled


def write(*lines: str) -> None:
    Path("staff.csv").write_text("".join(f"{line}\n" for line in lines))


def test_a_source_is_added_polled_shown_and_removed(weft: Callable[..., Told], home: Path) -> None:
    write("id,name", "1,Ann", "2,Ben")
    added = weft("source", "add", "staff", "--kind", "csv", "--at", "staff.csv", "--key", "id", "--every", "1h")
    assert added.code == 0 and "id BIGINT, name STRING" in added.out and "every 1h" in added.out
    assert "never" in weft("sources").out
    assert "2 began, 0 ended, 2 rows now" in weft("source", "poll").out
    assert "no change" in weft("source", "poll", "staff").out
    write("id,name", "1,Ann")
    told = weft("source", "poll", "--json").json
    (polled,), views = told["sources"], told["views"]
    assert views == []
    assert (polled["name"], polled["ended"], polled["rows"], polled["trouble"]) == ("staff", 1, 1, None)
    (listed,) = weft("sources", "--json").json
    assert (listed["key"], listed["rows"], listed["last_change"]) == (["id"], 1, polled["at"])
    shown = weft("source", "show", "STAFF")
    assert "1 row now, 3 begins and ends recorded" in shown.out and "1h" in shown.out
    (table,) = weft("tables", "--json").json
    assert (table["tracked"], table["rows"]) == (True, 3)
    assert "begins and ends of rows" in weft("describe", "staff").out
    assert weft("describe", "staff", "--json").json["samples"][0]["valid_to"] is not None
    assert "its table is left unchanged" in weft("source", "remove", "staff").out
    assert weft("sources", "--json").json == []


def test_trouble_is_told_and_stops_no_other(weft: Callable[..., Told], home: Path) -> None:
    write("id,name", "1,Ann")
    for name in ("staff", "people"):
        weft("source", "add", name, "--kind", "csv", "--at", "staff.csv", "--key", "id")
    weft("source", "poll", "staff")
    write("id,name")
    both = weft("source", "poll")
    assert both.code == 1
    assert "staff: the source of staff is empty" in both.out and "people: no change" in both.out
    assert "is empty, but had 1 row " in weft("sources").out
    alone = weft("source", "poll", "staff")
    assert alone.code == 2 and "--allow-empty" in alone.err
    assert weft("source", "poll", "staff", "--allow-empty").code == 0


def test_what_is_wrong_is_refused_with_what_to_do(weft: Callable[..., Told], home: Path) -> None:
    write("id,name", "1,Ann")
    add = ("source", "add", "staff", "--kind", "csv", "--at", "staff.csv", "--key", "id")
    assert weft(*add, "--columns", "id NUMBER").code == 2
    assert "more often than once a second" in weft(*add, "--every", "1us").err
    assert weft(*add).code == 0
    assert "Did you mean staff?" in weft("source", "poll", "staf").err
    assert "--now" in weft("source", "poll", "staff", "--now", "1993-01-01").err
    assert "is a tracked table" in weft("ingest", "file", "staff.csv", "--table", "staff").err


def test_a_history_is_drawn(weft: Callable[..., Told], home: Path) -> None:
    weft("init", "--clock", "replay")
    write("id,name", "1,Ann", "2,=Ben<b>")
    weft("source", "add", "staff", "--kind", "csv", "--at", "staff.csv", "--key", "id")
    weft("source", "poll", "--now", "2026-01-01")
    write("id,name", "1,Anna", "2,=Ben<b>")
    weft("source", "poll", "--now", "2026-01-03")
    drawn = weft("history", "staff")
    lines = [line for line in drawn.out.splitlines() if "█" in line or "▶" in line]
    assert [("▶" in line, "now" in line) for line in lines] == [(False, False), (True, True), (True, True)]
    assert lines[1].split()[0] == "Anna"  # the key stands once
    assert "is from 2026-01-01 00:00:00 UTC to 2026-01-03" in drawn.out
    told = weft("history", "staff", "--json", "--limit", "1").json
    (period,) = told["periods"]
    assert (told["count"], period["name"], period["valid_to"]) == (3, "Ann", "2026-01-03T00:00:00Z")
    known = weft("history", "staff", "--known", "2026-01-02", "--format", "json").json["periods"]
    assert [each["valid_to"] for each in known] == [None, None]
    assert "2,'=Ben<b>,2026-01-01T00:00:00Z,\n" in weft("history", "staff", "--format", "csv").out
    for form in ("svg", "html"):
        page = weft("history", "staff", "--format", form).out
        assert "=Ben&lt;b&gt;" in page and "<b>" not in page and page.count("<rect") == 3
    assert weft("history", "staff", "--known", "1999-01-01").out == "staff: no such period.\n"


def test_what_has_no_history_is_refused(weft: Callable[..., Told], home: Path) -> None:
    write("id,name", "1,Ann")
    weft("ingest", "file", "staff.csv", "--table", "loaded")
    assert "is not a tracked table" in weft("history", "loaded").err
    assert "there is no table" in weft("history", "nothing").err


def test_run_tells_what_came_late_or_went_to_quarantine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Weft.open(home, create=True) as opened:
        print_poll(opened, False, Polled("staff", 2, 1, 1, 5, late=2, quarantined=1))
    told = capsys.readouterr().out
    assert "staff: 2 began, 1 ended" in told and "Late: 2 transactions" in told and "1 line is quarantined" in told


def test_the_choices_are_those_of_the_catalog() -> None:
    stamps, _ = get_args(get_args(StampsOption)[0])
    assert get_args(stamps) == get_args(Stamps)
    assert get_args(get_args(KindOption)[0]) == get_args(SourceKind)
