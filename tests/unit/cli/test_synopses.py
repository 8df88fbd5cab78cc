"""Queries that are kept as synopses, typed: explained, installed, shown, and refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BEFORE = "SELECT s.c FROM r, s WHERE r.a = s.a AND r.ts < s.ts"


@pytest.fixture
def weft(weft: Callable[..., Any], home: Path) -> Callable[..., Any]:
    """A home with the tables r and s."""
    weft("init", "--clock", "replay")
    for name, head, row in (("r", "a,ts", "1,1970-01-01T00:00:01Z"), ("s", "a,c,ts", "1,x,1970-01-01T00:00:02Z")):
        (home.parent / f"{name}.csv").write_text(f"{head}\n{row}\n")
        weft("ingest", "file", str(home.parent / f"{name}.csv"), "--table", name, "--ts-from", "ts")
    return weft


def test_a_query_that_may_be_kept_so_is_told_and_explained(weft: Callable[..., Any]) -> None:
    assert "explain --keep synopsis" in weft("explain", BEFORE).out
    assert "--keep synopsis" not in weft("explain", "SELECT c FROM s WHERE a = 1").out
    brief = weft("explain", BEFORE, "--keep", "synopsis")
    assert "verdict: bounded" in brief.out and "where a state is an instant at which rows arrived in" in brief.out
    assert len(brief.out.splitlines()) <= 10 and "--full shows what is stored" in brief.out
    told = weft("explain", BEFORE, "--keep", "synopsis", "--full")
    assert told.code == 0
    assert "ONCE r(" in told.out
    assert "Verdict: bounded" in told.out
    found = weft("explain", BEFORE, "--keep", "synopsis", "--json").json
    assert found["verdict"] == "bounded"
    assert [each["key"] for each in found["relations"]] == [["v1"]] * len(found["relations"])


def test_it_is_installed_ticked_and_shown_without_spark(weft: Callable[..., Any]) -> None:
    assert weft("install", "q", BEFORE, "--keep", "synopsis").code == 0
    assert weft("install", "f", "s(x,y) AND ONCE[1s,5s] r(x)", "--language", "monpoly", "--discard-history").code == 0
    assert weft("tick", "--now", "1970-01-01T00:01:00Z").code == 0
    assert weft("results", "q", "--json").json["c"] == "x"
    told = weft("explain", "q")
    assert told.code == 0 and "Answers so far: 1" in told.out and "Next due: when rows arrive in" in told.out
    found = weft("results", "f", "--json").json
    assert (found["tp"], found["x"], found["y"]) == (1, 1, "x")
    assert all(each["rows"] == 1 for each in weft("show", "q", "--json").json["stored"])
    assert "discarded" in weft("tables").out
    assert weft("describe", "r", "--json").json["discarded"] is True


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("install", "q", BEFORE, "--keep", "synopsis", "--from", "now"), "starts with the whole history"),
        (("install", "q", BEFORE, "--discard-history"), "applies to synopses"),
        (("install", "q", "SELECT a FROM r WHERE ts < NOW() - INTERVAL 1 DAY", "--keep", "synopsis"), "NOW"),
        (("install", "q", "r(x) AND EVENTUALLY s(x,y)", "--language", "monpoly"), "EVENTUALLY"),
        (("explain", BEFORE, "--keep", "synopsis", "--once"), "do not apply to synopses"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], why: str, weft: Callable[..., Any]) -> None:
    told = weft(*arguments)
    assert told.code == 2
    assert why in told.err
    assert told.err.count("^") <= 1


@pytest.mark.parametrize("command", ["try", "backtest"])
def test_a_formula_is_not_tried_and_the_way_is_named(command: str, weft: Callable[..., Any]) -> None:
    told = weft(command, "ONCE failures(id)", "--language", "monpoly")
    assert told.code == 2 and f"`weft {command}` answers SQL" in told.err
    for way in ("weft install NAME … --language monpoly", "weft tick", "weft monitor"):
        assert way in told.err
