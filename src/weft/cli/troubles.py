"""Run one command line and report its errors: the input, its position, the reason, and an alternative.

The user never sees a traceback.
"""

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

from weft.cli import INTERRUPTED, terminal
from weft.cli.parsers import parser
from weft.errors import Refused, WeftError
from weft.faults import error_summary, log_defect
from weft.interruption import Stopped
from weft.printable import visible

REFUSED = 2
_PLACE = re.compile(r"line (\d+), column (\d+)")
_EXTRA: Final = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
"""The message of click for surplus arguments."""
_NUMBERS: Final = ("N", "ORDINAL")
"""The metavars of options with an integer value."""
_CHANNEL: Final = re.compile(r"[a-z]+:\S+")


@dataclass
class _Context:
    arguments: tuple[str, ...] = ()
    home: Path | None = None
    sql: str | None = None

    @property
    def json(self) -> bool:
        words = self.arguments
        return "--json" in (words[: words.index("--")] if "--" in words else words)


_context: Final[ContextVar[_Context]] = ContextVar("context")


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code.  In a server, RunLocally and StdinNeeded pass through."""
    start_command(arguments)
    try:
        code = parser(app, arguments)(list(arguments), prog_name="weft", standalone_mode=False)
        terminal.out().flush()
    except WeftError as error:
        print_error(error)
        return error.exit_code
    except ClickException as error:
        _print_usage(error)
        return REFUSED
    except (KeyboardInterrupt, typer.Abort, Stopped):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:  # how typer and rich respond to a broken pipe
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except Exception as error:  # noqa: BLE001 - print one line, and log the traceback
        return print_unexpected(error)
    return code if isinstance(code, int) else 0


def start_command(arguments: Sequence[str]) -> None:
    """Record the command line for later error messages."""
    _context.set(_Context(tuple(arguments)))


def _reader_gone() -> int:
    """Return success, because the reader closed the pipe (`weft results … | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _print_usage(error: ClickException) -> None:
    from typer.rich_utils import rich_format_error

    client = terminal.remote()
    if client is not None and not client.elsewhere:
        raise terminal.RunLocally  # the message is formatted for the terminal of its process
    message, hint = _surplus_argument(error) or (error.format_message(), None)
    if client is not None:
        print_error(Refused(message, hint=hint or "`weft COMMAND --help` shows its options."))
        return
    if _context.get(_Context()).json:
        _print_json("refused", message, hint=hint or "`weft COMMAND --help` shows its options.")
        return
    context = error.ctx if isinstance(error, UsageError) else None
    rich_format_error(UsageError(visible(f"{message}\n{hint}" if hint else message, allowed="\n"), context))


def _surplus_argument(error: ClickException) -> tuple[str, str] | None:
    match = _EXTRA.fullmatch(error.format_message())
    context = error.ctx if isinstance(error, UsageError) else None
    if match is None or context is None:
        return None
    arguments = (each for each in context.command.params if each.param_type_name == "argument")
    names = [each.metavar or str(each.name).upper() for each in arguments]
    takes = f"takes only {' '.join(names)}" if names else "takes no arguments"
    if "SQL" in names:
        return f"{context.command_path} {takes}; not expected: {match[1]}", "Put the whole query in quotes."
    ways = [_usage_of(each) for each in _options_for(context.command.params, match[1])]
    hint = f"Write the value with its option: {' or '.join(ways)}." if ways else f"See `{context.command_path} --help`."
    return f"{context.command_path} {takes}; not expected: {match[1]}", hint


def _options_for(parameters: Sequence[Any], argument: str) -> list[Any]:
    """Return the options that may fit the argument: those for channels, else those for numbers, else all others."""
    options = [
        each
        for each in parameters
        if each.param_type_name == "option" and not each.is_flag and "--home" not in each.opts
    ]
    channels = [each for each in options if each.metavar == "CHANNEL" and _CHANNEL.fullmatch(argument)]
    numbers = [each for each in options if each.metavar in _NUMBERS and argument.isdecimal()]
    return channels or numbers or [each for each in options if each.metavar not in _NUMBERS]


def _usage_of(option: Any) -> str:
    return f"{option.opts[0]} {option.metavar or str(option.name).upper()}"


def remember(*, home: Path | None = None, sql: str | None = None) -> None:
    """Record the home and the query of the command for later error messages."""
    context = _context.get(_Context())
    context.home, context.sql = home or context.home, sql or context.sql


def print_error(error: WeftError) -> None:
    """Print an error with its position, the line of the query, and the hint.  With --json, print the error as JSON.

    Escape control characters, because names may come from a file.
    """
    from weft.cli.printing import echo, screen

    word = "refused" if error.exit_code == REFUSED else "failed"
    if _context.get(_Context()).json:
        reasons = [{key: value for key, value in _as_json(each).items() if value} for each in error.reasons]
        _print_json(word, error.message, where=error.where, excerpt=error.excerpt, hint=error.hint, reasons=reasons)
        return
    screen(err=True).print(f"{word}:", style="bold red", end=" ")
    if error.reasons:
        place = f" ({error.where})" if error.where else ""
        echo(f"{len(error.reasons)} reasons{place}", err=True)
    for number, reason in enumerate(error.reasons or (error,), 1):
        place = f" ({reason.where})" if reason.where else ""
        count = f"{number}. " if error.reasons else ""
        pointed = reason.excerpt or _pointed(reason.where)
        for line in (f"{count}{reason.message}{place}", pointed, f"  {reason.hint}" if reason.hint else None):
            if line:
                echo(line, err=True)


def _as_json(error: WeftError) -> dict[str, str | None]:
    return {"message": error.message, "where": error.where, "excerpt": error.excerpt, "hint": error.hint}


def _print_json(outcome: str, message: str, **more: Any) -> None:
    """Print an error as a JSON object on one line of stderr.  ``outcome`` corresponds to the exit code."""
    from weft.cli.printing import json_text

    fields = {"outcome": outcome, "message": message, **{key: value for key, value in more.items() if value}}
    print(json_text({"error": fields}), file=terminal.err())


def _pointed(where: str | None) -> str | None:
    match = _PLACE.fullmatch(where or "")
    sql = _context.get(_Context()).sql
    if match is None or sql is None:
        return None
    line, column = int(match[1]), int(match[2])
    lines = sql.splitlines()
    if not 1 <= line <= len(lines):
        return None
    text = lines[line - 1]
    start = max(0, column - 50)
    return f"    {text[start : start + 100]}\n    {' ' * (column - 1 - start)}^"


def print_unexpected(error: Exception) -> int:
    """Report an unexpected error in one line: a defect of Weft, or an operating system error such as a full disk.

    Write the traceback to the log of the home.  Return the exit code of a failure.
    """
    log = _write_log(error)
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename})" if error.filename else ""
        message = f"{error.strerror}{place}"
    else:
        message = f"this is a defect in Weft: {error_summary(error)}"
    if _context.get(_Context()).json:
        _print_json("failed", message, log=str(log) if log else None)
        return 1
    print(f"failed: {visible(message)}", file=terminal.err())
    print(f"  The traceback is in {log}." if log else "  No log could be written.", file=terminal.err())
    return 1


def _write_log(error: Exception) -> Path | None:
    from weft.schedule.clock import now_us

    context = _context.get(_Context())
    folder = context.home / "logs" if context.home is not None and context.home.is_dir() else _own_folder()
    return log_defect(folder, now_us(), f"weft {' '.join(context.arguments)}", error)


def _own_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("weft")) / "logs"
