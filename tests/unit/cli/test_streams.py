"""What commands print where somebody reads it with a program: errors as JSON, tables into a pipe, options anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.cli import printing
from weft.cli.ticks import _tell_other

Weft = Callable[..., Any]
LONG = "a value of more than eighty characters, which a terminal of eighty columns would show on two lines or three"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nothing", "--json"), {"outcome": "refused", "message": "there is no query 'nothing'"}),
        (("show", "--jsn", "--json"), {"outcome": "refused", "message": "No such option: --jsn"}),
    ],
)
def test_errors_are_json_where_json_was_asked_for(weft: Weft, arguments: tuple[str, ...], told: dict[str, str]) -> None:
    weft("init")
    found = weft(*arguments)
    assert found.code == 2 and not found.out
    error = json.loads(found.err)["error"]
    assert error["outcome"] == told["outcome"]
    assert error["message"].startswith(told["message"])
    assert error["hint"]


def test_a_defect_is_json_too(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("init")
    monkeypatch.setattr("weft.api.home.Weft.open", lambda *_, **__: 1 / 0)
    found = weft("queries", "--json")
    error = json.loads(found.err)["error"]
    assert found.code == 1 and error["outcome"] == "failed"
    assert "ZeroDivisionError" in Path(error["log"]).read_text()


def test_a_query_that_begins_with_dashes_asks_for_no_json(weft: Weft) -> None:
    weft("init")
    found = weft("show", "--", "--json")
    assert found.code == 2 and "refused:" in found.err


@pytest.mark.parametrize("columns", [None, "60"])
def test_a_table_in_a_pipe_has_a_row_on_a_line(
    columns: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    printing.table(("a", "b"), [("1", LONG), ("2", "short")])
    out = capsys.readouterr().out
    assert (f"1   {LONG}" in out) == (columns is None)
    assert len(out.splitlines()) == 6 or columns


def test_the_home_may_stand_before_the_command(tmp_path: Path) -> None:
    for words in (["--home", "mine", "init"], ["--home=mine", "queries", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_second_run_is_told_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    _tell_other(4711, json=False)
    assert "Process 4711 ticks this home already" in capsys.readouterr().out
    _tell_other(4711, json=True)
    captured = capsys.readouterr()
    assert not captured.out and "4711" in captured.err
