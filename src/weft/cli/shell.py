"""The command ``shell``: run many commands with one Spark session.

A SQL statement ends at a semicolon.  Any other command ends at the end of the line.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from weft.cli.frame import HOME_VARIABLE, HomeOption, example, home_folder, opened
from weft.cli.printing import echo
from weft.cli.troubles import REFUSED, run

_HISTORY = 1_000
_LEAVE = ("exit", "quit", "\\q")
_HELP = ("help", "?", "\\?")
_INTRODUCTION = """\
SELECT … or WITH … runs a query; it may have several lines, and ends with ; or an empty line.
explain SELECT … explains it as a standing query.  Any other line is a weft command: tables, describe NAME,
install NAME "SELECT …", tick, results NAME, queries.  help lists all commands, help COMMAND explains one.
Ctrl-C discards the present input; exit or Ctrl-D leaves the shell."""


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``.  The shell runs its commands with the same application."""

    @app.command(epilog=example("weft shell", "weft> SELECT msgid FROM msgs;", "weft> tables"))
    def shell(home: HomeOption = None) -> None:
        """Run many commands with one Spark session: SELECT …; tries a query, anything else is a weft command.

        With input from a file or a pipe, it runs all of it, and the exit code is that of the last failed command.
        """
        folder = home_folder(home)
        with opened(folder):
            pass  # fails here if the home does not exist
        os.environ[HOME_VARIABLE] = str(folder)
        code = _run_input(app, folder)
        if code and not sys.stdin.isatty():
            raise typer.Exit(code)


def _run_input(app: typer.Typer, folder: Path) -> int:
    interactive = sys.stdin.isatty()
    if interactive:
        _remember_lines(folder / "logs" / "shell-history")
        echo(_INTRODUCTION)
    last, typed = 0, ""
    while True:
        try:
            line = input(("  ... " if typed else "weft> ") if interactive else "")
        except EOFError:
            if interactive:
                echo("")
            return _run_statements(app, typed, ended=True)[0] or last
        except KeyboardInterrupt:
            typed = ""
            echo("")
            continue
        words = [] if typed else line.strip("; ").split()
        first = words[0].lower() if words else ""
        if first in _LEAVE and len(words) == 1:
            return last
        if first in _HELP:
            last = _help(app, words[1:]) or last
            continue
        code, typed = _run_statements(app, f"{typed}{line}\n", ended=not line.strip())
        last = code or last


def _help(app: typer.Typer, command: list[str]) -> int:
    code = run(app, [*command, "--help"])
    if not command:
        echo(_INTRODUCTION)
    return code


def _run_statements(app: typer.Typer, typed: str, *, ended: bool) -> tuple[int, str]:
    try:
        statements, rest = split_statements(typed, ended=ended)
    except ValueError as error:
        echo(f"the input cannot be read: {error}", style="red")
        return REFUSED, ""
    last = 0
    for arguments in statements:
        if arguments[:1] == ["shell"]:
            echo("This is already the shell.")
            continue
        last = run(app, arguments) or last
    return last, rest


def _remember_lines(history: Path) -> None:
    try:
        import readline
    except ImportError:  # not on every system; input() works without it
        return
    import atexit

    readline.set_history_length(_HISTORY)
    with suppress(OSError):
        readline.read_history_file(history)

    def save() -> None:
        with suppress(OSError):
            readline.write_history_file(history)

    atexit.register(save)


_COMMENTS: Final = re.compile(r"(?:[\s;]+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_SQL: Final = re.compile(
    r"(?:weft\s+)?(?:(?P<verb>try|explain)\s+(?=(?:select|with|values)\b|\(|\Z)|(?=(?:select|with|values)\b|\())",
    re.IGNORECASE,
)
_END: Final = re.compile(r"(?<!\\)[;\n]")


def split_statements(text: str, *, ended: bool) -> tuple[list[list[str]], str]:
    r"""Split ``text`` into complete command lines and an incomplete rest.

    If ``ended`` is true, the rest is complete, because no more lines follow.  The function skips SQL comments before a
    command line.  Raises ValueError for an unterminated quotation.

    >>> split_statements("SELECT a\n", ended=False)
    ([], 'SELECT a\n')
    >>> split_statements("SELECT a\nFROM b; tables\n", ended=False)
    ([['try', 'SELECT a\nFROM b'], ['tables']], '')
    >>> split_statements("-- all of them\nweft explain WITH b AS (SELECT 1) SELECT a FROM b\n", ended=True)
    ([['explain', 'WITH b AS (SELECT 1) SELECT a FROM b']], '')
    """
    commands: list[list[str]] = []
    while text := _without_comments(text):
        sql = _SQL.match(text)
        statement = _query(sql, text, ended) if sql else _command(text, ended)
        if statement is None:
            break
        words, text = statement
        commands.append(words)
    return commands, text


def _without_comments(text: str) -> str:
    comments = _COMMENTS.match(text)
    return text[comments.end() :] if comments else text


def _query(sql: re.Match[str], text: str, ended: bool) -> tuple[list[str], str] | None:
    from weft.sql.lower.parse import first_statement

    query, rest = first_statement(text[sql.end() :])
    if rest is None and not ended:
        return None
    return [(sql["verb"] or "try").lower(), query.strip()], rest or ""


def _command(text: str, ended: bool) -> tuple[list[str], str] | None:
    """Return the words of the first command and the rest of the text.  The command continues on the next line after a
    backslash or in an open quotation.
    """
    ends = [match.start() for match in _END.finditer(text)]
    for end in [*ends, *([len(text)] if ended else [])]:
        with suppress(ValueError):  # a quotation is open there
            words = shlex.split(text[:end].replace("\\\n", " "))
            return words[words[0].lower() == "weft" :], text[end:]
    if ended:
        raise ValueError("a quotation is not terminated")
    return None
