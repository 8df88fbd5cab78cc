"""All commands as one application, and what becomes of every error: a sentence, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from typer._click.exceptions import ClickException

from weft.cli import asking, demo, explaining, homes, loads, measuring, shell, standing, tables, ticking
from weft.cli.frame import example
from weft.cli.troubles import tell, tell_unexpected
from weft.errors import WeftError

INTERRUPTED = 130
REFUSED = 2

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Standing SQL queries: try one, leave it standing, and receive each of its answers once.",
    epilog=example("weft demo", "weft COMMAND --help"),
)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"weft {version('weft')}")
        except PackageNotFoundError:
            typer.echo("weft, not installed as a package")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Standing SQL queries: try one, leave it standing, and receive each of its answers once."""


for part in (homes, loads, tables, asking, explaining, standing, ticking, shell, demo, measuring):
    part.add_to(app)


def run(arguments: Sequence[str]) -> int:
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
    except BrokenPipeError:  # the reader has seen enough (`weft results … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - a person sees one line, the traceback goes to a log
        return tell_unexpected(error)
    return code if isinstance(code, int) else 0


def _tell_usage(error: ClickException) -> None:
    from typer.rich_utils import rich_format_error

    rich_format_error(error)
