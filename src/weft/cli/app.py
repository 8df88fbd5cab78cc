"""The application with all commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from weft.cli import (
    accounts,
    appending,
    asking,
    deliveries,
    demo,
    explaining,
    histories,
    homes,
    load_list,
    loads,
    maintaining,
    monitoring,
    porting,
    queries,
    results,
    saved,
    serve,
    shell,
    sources,
    status,
    table_commands,
    ticks,
    troubles,
    view_commands,
    why,
)
from weft.cli.frame import check_arguments, example

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Standing SQL queries: try a query, install it, and receive each of its answers once.",
    epilog=example("weft demo", "weft COMMAND --help"),
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"weft {version('weft')}")
        except PackageNotFoundError:
            typer.echo("weft (not installed as a package)")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Standing SQL queries: try a query, install it, and receive each of its answers once."""


for part in (
    homes,
    loads,
    load_list,
    appending,
    sources,
    view_commands,
    table_commands,
    histories,
    asking,
    explaining,
    monitoring,
    queries,
    saved,
    results,
    why,
    deliveries,
    porting,
    ticks,
    status,
    serve,
    shell,
    maintaining,
    accounts,
    demo,
):
    part.add_to(app)
check_arguments(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code.

    The exit code is 0 for success, 1 for a failure, 2 for a refusal, and 130 for Ctrl-C.
    """
    return troubles.run(app, arguments)
