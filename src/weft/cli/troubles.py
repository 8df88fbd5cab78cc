"""One command line run, and what becomes of its errors: a sentence that says what was given, where, why it is refused
and what to do instead, never a traceback; and an exit code."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from typer._click.exceptions import ClickException

from weft.cli import terminal
from weft.errors import WeftError
from weft.faults import log_defect, told_shortly
from weft.interruption import Stopped

INTERRUPTED = 130
REFUSED = 2
_PLACE = re.compile(r"line (\d+), column (\d+)")


@dataclass
class _Seen:
    """What a command is about, for a message that comes later."""

    arguments: tuple[str, ...] = ()
    home: Path | None = None
    sql: str | None = None

    @property
    def json(self) -> bool:
        """Whether JSON was asked for."""
        words = self.arguments
        return "--json" in (words[: words.index("--")] if "--" in words else words)


_seen: Final[ContextVar[_Seen]] = ContextVar("seen")


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs one command line; its exit code.  In a server, raises Elsewhere and StdinWanted."""
    _seen.set(_Seen(tuple(arguments)))
    try:
        code = app(list(arguments), prog_name="weft", standalone_mode=False)
        terminal.out().flush()
    except WeftError as error:
        tell(error)
        return error.exit_code
    except ClickException as error:
        _tell_usage(error)
        return REFUSED
    except (KeyboardInterrupt, typer.Abort, Stopped):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:  # typer's and rich's answer to a broken pipe
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except Exception as error:  # noqa: BLE001 - a person sees one line, the traceback goes to a log
        return tell_unexpected(error)
    return code if isinstance(code, int) else 0


def _reader_gone() -> int:
    """The reader has seen enough (`weft results … | head`): a success, and nothing more is printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _tell_usage(error: ClickException) -> None:
    from typer.rich_utils import rich_format_error

    if terminal.remote() is not None:
        raise terminal.Elsewhere  # the words are laid out for the terminal of the process
    if _seen.get(_Seen()).json:
        _tell_json("refused", error.format_message(), hint="`weft COMMAND --help` shows what there is.")
        return
    rich_format_error(error)


def remember(*, home: Path | None = None, sql: str | None = None) -> None:
    """Notes what the command is about, for a message that comes later."""
    seen = _seen.get(_Seen())
    seen.home, seen.sql = home or seen.home, sql or seen.sql


def tell(error: WeftError) -> None:
    """Prints an error with its place and hint, the line that it is about under it; as JSON where that was asked for.

    What it names may come from a file: control characters are made visible.
    """
    from weft.cli.printing import lines, screen

    word = "refused" if error.exit_code == REFUSED else "failed"
    if _seen.get(_Seen()).json:
        _tell_json(word, error.message, where=error.where, excerpt=error.excerpt, hint=error.hint)
        return
    err = screen(err=True)
    place = f" ({error.where})" if error.where else ""
    err.print(f"{word}:", style="bold red", end=" ", markup=False, highlight=False)
    err.print(lines(f"{error.message}{place}"), markup=False, highlight=False, soft_wrap=True)
    pointed = error.excerpt or _pointed(error.where)
    if pointed:
        err.print(lines(pointed), markup=False, highlight=False, soft_wrap=True)
    if error.hint:
        err.print(lines(f"  {error.hint}"), markup=False, highlight=False, soft_wrap=True)


def _tell_json(outcome: str, message: str, **more: str | None) -> None:
    """Prints an error as one object on one line of stderr: its ``outcome`` is that of the exit code."""
    told = {"outcome": outcome, "message": message, **{key: value for key, value in more.items() if value}}
    print(json.dumps({"error": told}, ensure_ascii=False), file=terminal.err())


def _pointed(where: str | None) -> str | None:
    """The line of the query and a mark under the column."""
    match = _PLACE.fullmatch(where or "")
    sql = _seen.get(_Seen()).sql
    if match is None or sql is None:
        return None
    line, column = int(match[1]), int(match[2])
    lines = sql.splitlines()
    if not 1 <= line <= len(lines):
        return None
    text = lines[line - 1]
    begin = max(0, column - 50)
    return f"    {text[begin : begin + 100]}\n    {' ' * (column - 1 - begin)}^"


def tell_unexpected(error: Exception) -> int:
    """Prints one line about a defect, or about what the operating system refused (a full disk), and writes the
    traceback to the home's log; the exit code of a failure."""
    log = _write_log(error)
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename})" if error.filename else ""
        told = f"{error.strerror}{place}"
    else:
        told = f"Weft has a defect here: {told_shortly(error)}"
    if _seen.get(_Seen()).json:
        _tell_json("failed", told, log=str(log) if log else None)
        return 1
    print(f"failed: {told}", file=terminal.err())
    print(f"  The whole story is in {log}." if log else "  No log could be written.", file=terminal.err())
    return 1


def _write_log(error: Exception) -> Path | None:
    from weft.schedule.clock import now_us

    seen = _seen.get(_Seen())
    folder = seen.home / "logs" if seen.home is not None and seen.home.is_dir() else _own_folder()
    return log_defect(folder, now_us(), f"weft {' '.join(seen.arguments)}", error)


def _own_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("weft")) / "logs"
