"""The reference documents every command, option, channel, variable, exit code and function of the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from docs.pages import ROOT, blocks
from netnews import TABLES
from weft.algebra.calendar import FIXED
from weft.algebra.schema import STRING, TIMESTAMP, Column, TableSchema
from weft.cli import INTERRUPTED
from weft.cli.app import app
from weft.cli.troubles import REFUSED
from weft.delivery.registry import _CHANNELS, CURSOR
from weft.errors import Refused, SqlError, WeftError
from weft.planning.plan import plan
from weft.sql.functions import FUNCTIONS
from weft.sql.lower.scalar import NOW_NAMES

STAFF = TableSchema(
    9,
    "staff",
    (
        Column(1, "name", STRING),
        Column(2, "dept", STRING),
        Column(3, "valid_from", TIMESTAMP),
        Column(4, "valid_to", TIMESTAMP),
    ),
    "valid_from",
    "valid_to",
)
COMMANDS_PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()
SQL_PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
CHOICE_PAGE = (ROOT / "docs" / "is-weft-for-me.md").read_text()
SOURCES = sorted((ROOT / "src" / "weft").rglob("*.py"))
FOLDERS = sorted({path.relative_to(ROOT / "src" / "weft").parts[0] for path in SOURCES if path.parent.name != "weft"})
SHARED = {"--home", "--json", "--help"}


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in getattr(command, "commands", {}).items():
        if getattr(each, "commands", None):
            yield from _commands(each, (*path, name))
        else:
            yield (*path, name), each


COMMANDS = dict(_commands(typer.main.get_command(app)))


def _section(page: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {heading}"
    return found[1]


def _options(command: Any) -> set[str]:
    """Return the names of a command's options, including short ones. Omit negations such as --no-x."""
    return {name for each in command.params if each.param_type_name == "option" for name in each.opts}


def _section_of(path: tuple[str, ...]) -> str:
    return _section(COMMANDS_PAGE, " ".join(("weft", *path)))


def test_every_command_and_option_is_there() -> None:
    options = [(path, name) for path in COMMANDS for name in _options(COMMANDS[path]) - SHARED]
    assert not [(path, name) for path, name in options if f"`{name}" not in _section_of(path)]
    assert all(_section_of(path) for path in COMMANDS)


def test_every_command_is_in_the_contents() -> None:
    contents = COMMANDS_PAGE.partition("\n## ")[0]
    assert not {" ".join(path) for path in COMMANDS if f"[{' '.join(path)}](#weft-{'-'.join(path)})" not in contents}


def test_no_option_is_there_that_the_command_does_not_have() -> None:
    rows = [(path, line) for path in COMMANDS for line in _section_of(path).splitlines() if line.startswith("| `-")]
    result = [(path, name) for path, row in rows for name in re.findall(r"`(--?[\w-]+)", row.split("|")[1])]
    assert result
    assert not [(path, name) for path, name in result if name not in _options(COMMANDS[path])]


def test_the_options_of_all_commands_are_there() -> None:
    section = _section(COMMANDS_PAGE, "In every command")
    root = {*SHARED, *_options(typer.main.get_command(app))}
    assert not {name for name in root if f"`{name}" not in section}


def test_every_channel_is_there() -> None:
    section = _section(COMMANDS_PAGE, "Channels")
    assert f"| `{CURSOR}` |" in section
    for scheme in _CHANNELS:
        assert f"| `{scheme}:" in section


def test_every_variable_of_the_environment_is_there_and_no_other() -> None:
    section = _section(COMMANDS_PAGE, "Environment variables")
    used = {name for path in SOURCES for name in re.findall(r"\bWEFT_[A-Z_]+\b", path.read_text())}
    assert set(re.findall(r"^\| `(WEFT_\w+)`", section, flags=re.MULTILINE)) == used


def test_every_exit_code_is_there() -> None:
    section = _section(COMMANDS_PAGE, "Exit codes")
    codes = {0, WeftError.exit_code, Refused.exit_code, REFUSED, INTERRUPTED}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section, flags=re.MULTILINE)} == codes


def test_every_failpoint_is_there() -> None:
    used = {name for path in SOURCES for name in re.findall(r'failpoint\("([\w.]+)"\)', path.read_text())}
    section = (ROOT / "docs" / "architecture.md").read_text()
    assert not {name for name in used if f"`{name}`" not in section}


def test_every_stage_is_there() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text()
    assert not {name for name in FOLDERS if f"| `{name}/" not in table}


def test_every_function_is_there_and_no_other() -> None:
    section = _section(SQL_PAGE, "Functions")
    result = {name for line in section.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)\(", line)}
    assert result == {name.upper() for name in FUNCTIONS}


@pytest.mark.parametrize(
    "text", [each.strip() for block in blocks(SQL_PAGE) if block.language == "sql" for each in block.text.split(";")]
)
def test_the_texts_listed_as_accepted_are_accepted(text: str) -> None:
    assert plan(text, {**TABLES, "staff": STAFF}).branches


OUTSIDE = re.findall(r"^\| `{1,2}(.+?) ?`{1,2} \|", _section(SQL_PAGE, "What is refused"), flags=re.MULTILINE)


@pytest.mark.parametrize("text", OUTSIDE)
def test_the_texts_listed_as_refused_are_refused(text: str) -> None:
    with pytest.raises(SqlError):
        plan(text, TABLES)


MISSING = {
    "WITH RECURSIVE": (
        "WITH RECURSIVE s AS (SELECT msgid FROM msgs UNION ALL SELECT a.msgid FROM s a JOIN s b ON a.msgid = b.msgid) "
        "SELECT msgid FROM s"
    ),
}


@pytest.mark.parametrize("construct", MISSING)
def test_missing_sql_is_refused(construct: str) -> None:
    assert construct in _section(CHOICE_PAGE, "What SQL is missing")
    with pytest.raises(SqlError):
        plan(MISSING[construct], TABLES)


def test_every_name_of_now_and_every_unit_is_there() -> None:
    section = _section(SQL_PAGE, "NOW()")
    assert not {name for name in NOW_NAMES if f"`{name.upper()}" not in section}
    section = _section(SQL_PAGE, "Intervals")
    assert not {name for name in FIXED if name not in section}


def test_the_paths_that_are_named_are_there() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for name in re.findall(r"`((?:src/|tests/|\w+/)[\w./-]*\w)`", page.read_text()):
            ours = name.split("/")[0] in ("src", "tests", *FOLDERS)
            there = Path(ROOT, name).exists() or Path(ROOT, "src", "weft", name).exists()
            assert there or not ours, f"{page.name} names {name}"
