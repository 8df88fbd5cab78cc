"""One command line run, and what becomes of its errors: a sentence that says what was given, where, why it is refused
and what to do instead, never a traceback; and an exit code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
from typer._click.exceptions import ClickException, UsageError

from weft.cli import terminal
from weft.errors import WeftError
from weft.faults import error_summary, log_defect
from weft.interruption import Stopped
from weft.printable import visible

INTERRUPTED = 130
REFUSED = 2
_PLACE = re.compile(r"line (\d+), column (\d+)")
_EXTRA: Final = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
"""The words of click for arguments that a command does not take."""
_NUMBERS: Final = ("N", "ORDINAL")
"""The metavars of options that take a whole number."""
_CHANNEL: Final = re.compile(r"[a-z]+:\S+")


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
    begin(arguments)
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


def begin(arguments: Sequence[str]) -> None:
    """Notes the command line that later messages are about."""
    _seen.set(_Seen(tuple(arguments)))


def _reader_gone() -> int:
    """The reader has seen enough (`weft results … | head`): a success, and nothing more is printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _tell_usage(error: ClickException) -> None:
    from typer.rich_utils import rich_format_error

    if terminal.remote() is not None:
        raise terminal.Elsewhere  # the words are laid out for the terminal of the process
    message, hint = _extra(error) or (error.format_message(), None)
    if _seen.get(_Seen()).json:
        _tell_json("refused", message, hint=hint or "`weft COMMAND --help` shows what there is.")
        return
    error.message = visible(f"{message}\n{hint}" if hint else message, kept="\n")
    rich_format_error(error)


def _extra(error: ClickException) -> tuple[str, str] | None:
    """The message and the hint for an argument too many; None for another error."""
    match = _EXTRA.fullmatch(error.format_message())
    context = error.ctx if isinstance(error, UsageError) else None
    if match is None or context is None:
        return None
    arguments = (each for each in context.command.params if each.param_type_name == "argument")
    taken = [each.metavar or str(each.name).upper() for each in arguments]
    takes = f"takes only {' '.join(taken)}" if taken else "takes no argument"
    if "SQL" in taken:
        return f"{context.command_path} {takes}; there is more: {match[1]}", "Put the whole query in quotes."
    ways = [_way(each) for each in _fitting(context.command.params, match[1])]
    hint = f"Give it with its option: {' or '.join(ways)}." if ways else f"`{context.command_path} --help` shows all."
    return f"{context.command_path} {takes}; there is more: {match[1]}", hint


def _fitting(parameters: Sequence[Any], given: str) -> list[Any]:
    """The options that the words ``given`` may be for: those of channels, else of numbers, else all with a value."""
    options = [
        each
        for each in parameters
        if each.param_type_name == "option" and not each.is_flag and "--home" not in each.opts
    ]
    channels = [each for each in options if each.metavar == "CHANNEL" and _CHANNEL.fullmatch(given)]
    numbers = [each for each in options if each.metavar in _NUMBERS and given.isdecimal()]
    return channels or numbers or [each for each in options if each.metavar not in _NUMBERS]


def _way(option: Any) -> str:
    return f"{option.opts[0]} {option.metavar or str(option.name).upper()}"


def remember(*, home: Path | None = None, sql: str | None = None) -> None:
    """Notes what the command is about, for a message that comes later."""
    seen = _seen.get(_Seen())
    seen.home, seen.sql = home or seen.home, sql or seen.sql


def tell(error: WeftError) -> None:
    """Prints an error with its place and hint, the line that it is about under it; as JSON where that was asked for.

    What it names may come from a file: control characters are made visible.
    """
    from weft.cli.printing import say, screen

    word = "refused" if error.exit_code == REFUSED else "failed"
    if _seen.get(_Seen()).json:
        reasons = [{key: value for key, value in _as_json(each).items() if value} for each in error.reasons]
        _tell_json(word, error.message, where=error.where, excerpt=error.excerpt, hint=error.hint, reasons=reasons)
        return
    screen(err=True).print(f"{word}:", style="bold red", end=" ")
    if error.reasons:
        place = f" ({error.where})" if error.where else ""
        say(f"{len(error.reasons)} reasons{place}", err=True)
    for number, reason in enumerate(error.reasons or (error,), 1):
        place = f" ({reason.where})" if reason.where else ""
        count = f"{number}. " if error.reasons else ""
        pointed = reason.excerpt or _pointed(reason.where)
        for line in (f"{count}{reason.message}{place}", pointed, f"  {reason.hint}" if reason.hint else None):
            if line:
                say(line, err=True)


def _as_json(error: WeftError) -> dict[str, str | None]:
    return {"message": error.message, "where": error.where, "excerpt": error.excerpt, "hint": error.hint}


def _tell_json(outcome: str, message: str, **more: Any) -> None:
    """Prints an error as one object on one line of stderr: its ``outcome`` is that of the exit code."""
    from weft.cli.printing import json_text

    told = {"outcome": outcome, "message": message, **{key: value for key, value in more.items() if value}}
    print(json_text({"error": told}), file=terminal.err())


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
        told = f"Weft has a defect here: {error_summary(error)}"
    if _seen.get(_Seen()).json:
        _tell_json("failed", told, log=str(log) if log else None)
        return 1
    print(f"failed: {visible(told)}", file=terminal.err())
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
