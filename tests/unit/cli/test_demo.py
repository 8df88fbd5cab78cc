"""The demo from the command line: in which folder it plays, and what is said of it elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.cli.conftest import Output
from weft.demo import play

ROOT = Path(__file__).resolve().parents[3]


def test_a_second_demo_leaves_the_first_one_and_says_so(
    weft: Callable[..., Output], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Path] = []
    monkeypatch.setattr(play, "play", lambda folder, stage: played.append(folder))
    assert weft("demo").out == ""
    Path("demo-home").mkdir()
    assert "demo-home exists and is left unchanged; this demo creates demo-home-2." in weft("demo").out
    assert played == [Path("demo-home"), Path("demo-home-2")]


def test_the_demo_is_described_alike_everywhere(weft: Callable[..., Output]) -> None:
    number = {5: "five", 6: "six"}[len(play.QUERIES)]
    assert f"{number} standing queries" in " ".join(weft("demo", "--help").out.split())
    for name in ("Makefile", "docs/how-to/upgrade-and-uninstall.md"):
        found = re.findall(r"(\w+) standing queries", (ROOT / name).read_text())
        assert found[:1] == [number], name
    seconds = "75 s the first time"
    assert seconds in (ROOT / "README.md").read_text() and seconds in (ROOT / "Makefile").read_text()
