"""Bytes that are not UTF-8, in arguments, variables and stdin, are refused by every command with a message."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from weft import Weft
from weft.cli.app import app
from weft.errors import Refused

Call = Callable[..., Any]
BAD = "caf\udce9"


def _commands(group: typer.Typer, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for each in group.registered_commands:
        assert each.callback is not None
        yield (*names, each.name or each.callback.__name__), each.callback
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from _commands(below.typer_instance, *names, str(below.name))


@pytest.mark.parametrize("command", [each for _, each in _commands(app)], ids=[" ".join(n) for n, _ in _commands(app)])
def test_every_command_refuses_an_argument_that_is_not_utf_8(command: Any) -> None:
    with pytest.raises(Refused, match=r"an argument is not UTF-8 text: caf\\xe9"):
        command(one=1, other=["a", BAD])


@pytest.mark.parametrize(
    "arguments",
    [
        ("install", "q", f"SELECT a FROM votes WHERE a = '{BAD}'"),
        ("install", BAD, "SELECT a FROM votes"),
        ("table", "create", BAD, "a INT"),
        ("append", "votes", f"a={BAD}"),
        ("append", "votes", "a=1", "--user", BAD),
        ("install", "q", "SELECT a FROM votes", "--to", f"file:{BAD}.csv"),
        ("tables", "--home", BAD),
        ("init", "--home", BAD),
    ],
)
def test_text_that_is_not_utf_8_is_refused_and_changes_nothing(
    weft: Call, home: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    weft("table", "create", "votes", "a STRING")
    before = sorted(os.listdir(tmp_path))
    found = weft(*arguments)
    assert found.code == 2 and "is not UTF-8 text" in found.err and "caf\\xe9" in found.err
    assert sorted(os.listdir(tmp_path)) == before
    assert weft("queries", "--json").json == []
    assert [each["name"] for each in weft("tables", "--json").json] == ["votes"]


@pytest.mark.parametrize("variable", ["WEFT_FILES_ROOT", "WEFT_HOME"])
def test_a_variable_that_is_not_utf_8_is_refused_by_its_name(
    weft: Call, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, BAD)
    found = weft("tables")
    assert found.code == 2 and f"the variable {variable} is not UTF-8 text" in found.err


def test_a_user_whose_name_is_not_utf_8_is_refused(weft: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("table", "create", "votes", "a STRING")
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, BAD)
    found = weft("append", "votes", "a=1")
    assert found.code == 2 and "the user's name is not UTF-8 text" in found.err


@pytest.mark.parametrize("locale", ["C.UTF-8", "C", "en_US.UTF-8"])
def test_a_query_on_stdin_that_is_not_utf_8_is_refused(tmp_path: Path, locale: str) -> None:
    with Weft.open(tmp_path / "home", create=True) as weft:
        weft.make_table("votes", "a STRING")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "install", "q", "--home", str(tmp_path / "home")],
        input=b"SELECT a FROM votes WHERE a = 'caf\xe9'",
        env={**os.environ, "LC_ALL": locale},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and b"stdin is not UTF-8 text" in done.stderr and b"Traceback" not in done.stderr


def test_a_log_on_stdin_that_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.extraction.logs import opened_text

    stdin = io.TextIOWrapper(io.BytesIO(b"@1 P(caf\xe9)"), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(Refused, match="not UTF-8 text"), opened_text(Path("-")) as stream:
        stream.read()


def test_half_of_a_character_from_python_is_refused(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True) as weft:
        weft.make_table("votes", "a STRING")
        for change in (
            lambda: weft.make_table("t\ud800", "a INT"),
            lambda: weft.append("votes", {"a": "x"}, user="u\ud800"),
            lambda: weft.append("votes", {"a": "x\ud800"}),
        ):
            with pytest.raises(Refused):
                change()
        assert [(each.name, each.rows) for each in weft.tables()] == [("votes", 0)]


def test_a_defect_is_logged_though_an_argument_is_not_utf_8(
    weft: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft("init")
    monkeypatch.setattr("weft.api.weft.Weft.open", lambda *_, **__: 1 / 0)
    found = weft("ingest", "file", f"{BAD}.csv", "--table", "t")
    assert found.code == 1 and "The traceback is in" in found.err
    assert "caf\\udce9" in (home / "logs" / "weft.log").read_text()


def test_a_file_may_have_any_name(weft: Call, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    with open(path, "wb") as file:
        file.write(b"id\n1\n")
    found = weft("ingest", "file", os.fsdecode(path), "--table", "t", "--json")
    assert found.json["stored"] == 1
