"""The command ``shell``: many commands with one Spark session."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import typer

from weft.cli.frame import HOME_VARIABLE, HomeOption, example, home_folder, opened
from weft.cli.printing import echo
from weft.cli.statements import split_statements
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
    """Add the command; the shell runs commands with the same application."""

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
    """Run statements until the input ends; return the last exit code that was not 0."""
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
    """Explain a command, or list all commands and how the shell reads lines; return the exit code."""
    code = run(app, [*command, "--help"])
    if not command:
        echo(_INTRODUCTION)
    return code


def _run_statements(app: typer.Typer, typed: str, *, ended: bool) -> tuple[int, str]:
    """Run the complete statements; return the last exit code that was not 0, and the incomplete rest."""
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
