"""shell: many commands, one Spark session."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import typer

from weft.cli.frame import HOME_VARIABLE, HomeOption, example, home_folder, opened
from weft.cli.printing import say
from weft.cli.troubles import REFUSED, run

_HISTORY = 1_000
_LEAVE = ("exit", "quit", "\\q")


def add_to(app: typer.Typer) -> None:
    """Adds the command; what is typed in it is run by the same application."""

    @app.command(epilog=example("weft shell", "weft> SELECT msgid FROM msgs", "weft> tables"))
    def shell(home: HomeOption = None) -> None:
        """Type many commands with one Spark session: SELECT … tries a query, anything else is a weft command.

        Fed from a file or a pipe it does every line, and its exit code is that of the last line that was not well.
        """
        folder = home_folder(home)
        with opened(folder):
            pass  # refused here, where there is no home
        os.environ[HOME_VARIABLE] = str(folder)
        code = _talk(app, folder)
        if code and not sys.stdin.isatty():
            raise typer.Exit(code)


def _talk(app: typer.Typer, folder: Path) -> int:
    """Does line after line; the last exit code that was not 0."""
    talks = sys.stdin.isatty()
    if talks:
        _remember_lines(folder / "logs" / "shell-history")
        say("SELECT … tries a query; other lines are weft commands (tick, results NAME, …); exit or Ctrl-D leaves.")
    last = 0
    while True:
        try:
            line = _line("weft> " if talks else "")
        except EOFError:
            if talks:
                say("")
            return last
        except KeyboardInterrupt:
            say("")
            continue
        if line.strip().lower() in _LEAVE:
            return last
        if line.strip():
            last = _do(app, line.strip()) or last


def _line(prompt: str) -> str:
    """One line, those that end in a backslash joined with the next."""
    line = input(prompt)
    while line.endswith("\\"):
        line = line[:-1] + "\n" + input("  ... " if prompt else "")
    return line


def arguments(line: str) -> list[str]:
    """A line as a command's arguments; SQL may stand without quotes after try and explain, or by itself.

    >>> arguments("SELECT a FROM b WHERE c = 'd'")
    ['try', "SELECT a FROM b WHERE c = 'd'"]
    >>> arguments("weft explain SELECT a FROM b;")
    ['explain', 'SELECT a FROM b']
    """
    words = line.split(None, 1)
    if words[0].lower() == "weft":
        return arguments(words[1]) if len(words) > 1 else []
    if words[0].lower() == "select":
        return ["try", line.rstrip("; \n")]
    rest = words[1] if len(words) > 1 else ""
    if words[0] in ("try", "explain") and rest.lower().startswith("select"):
        return [words[0], rest.rstrip("; \n")]
    return shlex.split(line)


def _do(app: typer.Typer, line: str) -> int:
    try:
        found = arguments(line)
    except ValueError as error:
        say(f"the line cannot be read: {error}", style="red")
        return REFUSED
    if found[:1] == ["shell"]:
        say("This is the shell already.")
        return 0
    return run(app, found)


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
