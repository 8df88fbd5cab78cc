"""One command line run: its exit code, and what becomes of every error: a sentence, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from typer._click.exceptions import ClickException

from weft.cli.troubles import tell, tell_unexpected
from weft.errors import WeftError

INTERRUPTED = 130
REFUSED = 2


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs one command line; its exit code."""
    try:
        code = app(list(arguments), prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
    except WeftError as error:
        tell(error)
        return error.exit_code
    except ClickException as error:
        _tell_usage(error)
        return REFUSED
    except (KeyboardInterrupt, typer.Abort):
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

    rich_format_error(error)
