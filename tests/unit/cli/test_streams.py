"""What commands print where somebody reads it with a program: errors as JSON, tables into a pipe, options anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from weft.cli import printing
from weft.cli.demo import _Terminal
from weft.cli.ticks import _print_other
from weft.errors import ExecutionError

Weft = Callable[..., Any]
LONG = "a value of more than eighty characters, which a terminal of eighty columns would show on two lines or three"


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("show", "nothing", "--json"), {"outcome": "refused", "message": "there is no query 'nothing'"}),
        (("show", "--jsn", "--json"), {"outcome": "refused", "message": "No such option: --jsn"}),
    ],
)
def test_errors_are_json_where_json_was_asked_for(
    weft: Weft, arguments: tuple[str, ...], output: dict[str, str]
) -> None:
    weft("init")
    found = weft(*arguments)
    assert found.code == 2 and not found.out
    error = json.loads(found.err)["error"]
    assert error["outcome"] == output["outcome"]
    assert error["message"].startswith(output["message"])
    assert error["hint"]


def test_a_defect_is_json_too(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("init")
    monkeypatch.setattr("weft.api.weft.Weft.open", lambda *_, **__: 1 / 0)
    found = weft("queries", "--json")
    error = json.loads(found.err)["error"]
    assert found.code == 1 and error["outcome"] == "failed"
    assert "ZeroDivisionError" in Path(error["log"]).read_text()


def test_a_query_that_begins_with_dashes_asks_for_no_json(weft: Weft) -> None:
    weft("init")
    found = weft("show", "--", "--json")
    assert found.code == 2 and "refused:" in found.err


HOSTILE = "\x1b[2J\x1b]0;gone\x07\x9b31m\u202e"


def _is_clean(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_what_libraries_and_files_say_does_nothing_to_a_terminal(
    weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft("init")
    for error in (
        RuntimeError(HOSTILE),
        OSError(5, f"I/O error {HOSTILE}", f"/tmp/{HOSTILE}"),
        ExecutionError(HOSTILE, hint=HOSTILE, where=HOSTILE, excerpt=HOSTILE),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("weft.api.weft.Weft.open", fail)
        for more in ((), ("--json",)):
            found = weft("queries", *more)
            assert found.code == 1 and "[2J" in found.err
            assert _is_clean(found.out + found.err), found.err


@pytest.mark.parametrize("name", ["x\x1b[31m.csv", "x\x9b31m.csv"])
def test_names_of_files_do_nothing_to_a_terminal(weft: Weft, home: Path, name: str) -> None:
    Path(name).write_text("id,what\x9b31m\n1,\x9b2J\n")
    found = [
        weft("ingest", "file", name, "--table", "t"),
        weft("ingest", "file", f"missing{name}", "--table", "t"),
        weft("loads", "list"),
        weft("loads", "list", "--json"),
        weft("describe", "t"),
        weft("describe", "t", "--json"),
        weft("install", "q", f"SELECT nix FROM t -- {name}"),
        weft("tables", f"--{name}"),
        weft("init", f"folder{name}"),
        weft("doctor"),
    ]
    for each in found:
        assert _is_clean(each.out + each.err), (each.out, each.err)


def test_words_that_are_said_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    printing.echo(f"a{HOSTILE}\n\tb")
    printing.print_json({"a": HOSTILE})
    out = capsys.readouterr().out
    assert _is_clean(out)
    assert json.loads(out.partition("{")[1] + out.partition("{")[2]) == {"a": HOSTILE}


def test_a_list_in_a_pipe_has_lines_of_a_bounded_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    columns, rows = (
        ("query", "rows", "sql", "why"),
        [("q", "1", LONG * 3, "because " * 30), ("other", "2,000", "a", "界" * 90)],
    )
    printing.table(columns, rows, right=(1,))
    listed = capsys.readouterr().out
    printing.table(columns, rows, right=(1,), answers=True)
    answers = capsys.readouterr().out
    assert 190 < max(map(cell_len, listed.splitlines())) <= printing.LIST_WIDTH
    assert len(listed.splitlines()) == len(answers.splitlines()) == 6
    assert [line for line in listed.splitlines() if line != line.rstrip()] == []
    assert listed.count("…") == 3 and "2,000" in listed and "other" in listed
    assert LONG * 3 in answers and "界" * 90 in answers


def test_init_takes_the_folder(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = weft("init", "mine", "--clock", "replay")
    assert (made.code, made.out) == (0, "mine is a home with the replay clock.\n")
    assert weft("queries", "--home", "mine", "--json").json == []
    assert weft("init", "mine", "--home", "./mine").code == 0
    found = weft("init", "one", "--home", "two")
    assert found.code == 2
    assert "the command names two homes: FOLDER is 'one', --home is 'two'" in found.err
    assert "weft init one" in found.err
    monkeypatch.setenv("WEFT_HOME", "elsewhere")
    assert "WEFT_HOME is elsewhere: commands without --home three use that home" in weft("init", "three").out
    assert weft("init", "elsewhere").out == "elsewhere is a home with the wall clock.\n"
    assert weft("init", "").code == 2
    assert not (home.parent / "catalog.sqlite").exists()
    assert sorted(each.name for each in home.parent.iterdir()) == ["elsewhere", "mine", "three"]


def test_init_says_that_it_closes_an_existing_folder_to_others(weft: Weft, home: Path) -> None:
    folder = home.parent / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    assert "The permissions of the folder were 755 and are now 700 (setting home.access)." in weft("init", "shared").out
    assert "permissions" not in weft("init", "shared").out


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


def test_a_second_run_prints_a_note_about_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    _print_other(4711, json=False)
    assert "Process 4711 already ticks this home" in capsys.readouterr().out
    _print_other(4711, json=True)
    captured = capsys.readouterr()
    assert not captured.out and "4711" in captured.err


def test_the_demo_prints_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    stage = _Terminal(Path("home"))
    for spoken in (stage.heading, stage.line, stage.command):
        spoken("a \x1b[31m b")
    stage.table(["a\x1b[31m", "b", "c"], [["\x1b[31m", "b", "c"]])
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out and out.count("\\x1b[31m") >= 3
