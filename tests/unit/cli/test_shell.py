"""The shell: what is typed, line after line, becomes commands."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from weft.cli.shell import split_statements

Weft = Callable[..., Any]


@pytest.mark.parametrize(
    ("typed", "commands"),
    [
        ("tables\n", [["tables"]]),
        ("weft tables ;\n", [["tables"]]),
        ("select 1; show a; tables\n", [["try", "select 1"], ["show", "a"], ["tables"]]),
        (
            "SELECT ';' AS a,\n\n  b -- ; no\nFROM c /* ; */ ;\n",
            [["try", "SELECT ';' AS a,\n\n  b -- ; no\nFROM c /* ; */"]],
        ),
        ("-- a comment\n/* another\n one */ (SELECT 1) UNION (SELECT 2);\n", [["try", "(SELECT 1) UNION (SELECT 2)"]]),
        ("-- a comment\n", []),
        ("EXPLAIN VALUES (1);\n", [["explain", "VALUES (1)"]]),
        ("explain --tick news\n", [["explain", "--tick", "news"]]),
        ("selected\n", [["selected"]]),
        ('install a "SELECT 1,\n 2" --every 1h\n', [["install", "a", "SELECT 1,\n 2", "--every", "1h"]]),
        ("results news \\\n  --json\ntables\n", [["results", "news", "--json"], ["tables"]]),
    ],
)
def test_complete_statements_are_split_off(typed: str, commands: list[list[str]]) -> None:
    assert split_statements(typed, ended=False) == (commands, "")


@pytest.mark.parametrize(
    "typed", ["SELECT 1\n", "WITH a AS (SELECT 1)\n", "SELECT 'a;\n", 'install a "SELECT 1\n', "tables \\\n"]
)
def test_an_incomplete_statement_waits(typed: str) -> None:
    assert split_statements(typed, ended=False) == ([], typed)


def test_an_unterminated_quotation_is_reported() -> None:
    with pytest.raises(ValueError, match="quotation"):
        split_statements('install a "SELECT 1\n', ended=True)


def fed(weft: Weft, monkeypatch: pytest.MonkeyPatch, text: str) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return weft("shell")


def test_it_does_all_that_a_pipe_has(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weft("init", "--clock", "replay").code == 0
    output = fed(
        weft, monkeypatch, "help tick\n\n-- nothing\ntables;\nexplain\nSELECT msgid\nFROM msgs;\nshell\nqueries"
    )
    assert output.code == 0, output.err
    for words in ("Run one tick", "weft ingest", "a row of msgs arrives", "already the shell", "No queries yet"):
        assert words in output.out
    assert fed(weft, monkeypatch, "tables\nnonsense\nqueries\n").code == 2
    assert fed(weft, monkeypatch, "quit\nnonsense\n").code == 0


def test_help_says_how_sql_is_typed(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("init")
    assert "ends with ; or an empty line" in fed(weft, monkeypatch, "help;\n").out
