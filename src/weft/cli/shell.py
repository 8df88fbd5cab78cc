"""shell: many commands, one Spark session."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import typer

from weft.cli.frame import HOME_VARIABLE, HomeOption, example, home_folder, opened
from weft.cli.printing import say
from weft.cli.statements import cut
from weft.cli.troubles import REFUSED, run

_HISTORY = 1_000
_LEAVE = ("exit", "quit", "\\q")
_HELP = ("help", "?", "\\?")
_TOLD = """\
SELECT … or WITH … asks a query; it may have several lines, and ends with ; or an empty line.
explain SELECT … says how it would stand.  Every other line is a weft command: tables, describe NAME,
install NAME "SELECT …", tick, results NAME, queries.  help lists all of them, help COMMAND explains one.
Ctrl-C drops what is typed, exit or Ctrl-D leaves."""


def add_to(app: typer.Typer) -> None:
    """Adds the command; what is typed in it is run by the same application."""

    @app.command(epilog=example("weft shell", "weft> SELECT msgid FROM msgs;", "weft> tables"))
    def shell(home: HomeOption = None) -> None:
        """Type many commands with one Spark session: SELECT …; tries a query, anything else is a weft command.

        Fed from a file or a pipe it does all that is in it, and its exit code is that of the last command that was not
        well.
        """
        folder = home_folder(home)
        with opened(folder):
            pass  # refused here, where there is no home
        os.environ[HOME_VARIABLE] = str(folder)
        code = _talk(app, folder)
        if code and not sys.stdin.isatty():
            raise typer.Exit(code)


def _talk(app: typer.Typer, folder: Path) -> int:
    """Does statement after statement; the last exit code that was not 0."""
    talks = sys.stdin.isatty()
    if talks:
        _remember_lines(folder / "logs" / "shell-history")
        say(_TOLD)
    last, typed = 0, ""
    while True:
        try:
            line = input(("  ... " if typed else "weft> ") if talks else "")
        except EOFError:
            if talks:
                say("")
            return _do_all(app, typed, ended=True)[0] or last
        except KeyboardInterrupt:
            typed = ""
            say("")
            continue
        words = [] if typed else line.strip("; ").split()
        first = words[0].lower() if words else ""
        if first in _LEAVE and len(words) == 1:
            return last
        if first in _HELP:
            last = _help(app, words[1:]) or last
            continue
        code, typed = _do_all(app, f"{typed}{line}\n", ended=not line.strip())
        last = code or last


def _help(app: typer.Typer, command: list[str]) -> int:
    """Explains a command, or tells which there are and how the shell takes lines; the exit code."""
    code = run(app, [*command, "--help"])
    if not command:
        say(_TOLD)
    return code


def _do_all(app: typer.Typer, typed: str, *, ended: bool) -> tuple[int, str]:
    """Does the statements that are whole; the last exit code that was not 0, and what waits for more lines."""
    try:
        found, rest = cut(typed, ended=ended)
    except ValueError as error:
        say(f"what was typed cannot be read: {error}", style="red")
        return REFUSED, ""
    last = 0
    for arguments in found:
        if arguments[:1] == ["shell"]:
            say("This is the shell already.")
            continue
        last = run(app, arguments) or last
    return last, rest


def _remember_lines(history: Path) -> None:
    try:
        import readline
    except ImportError:  # not everywhere; input() works without
        return
    import atexit

    readline.set_history_length(_HISTORY)
    with suppress(OSError):
        readline.read_history_file(history)

    def keep() -> None:
        with suppress(OSError):
            readline.write_history_file(history)

    atexit.register(keep)
