"""bench."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from weft.cli.frame import example
from weft.errors import Refused


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    bench = typer.Typer(no_args_is_help=True, help="Measurements.")
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    bench.command("tapestry", epilog=example("weft bench tapestry --messages 380000"), context_settings=settings)(
        tapestry
    )
    app.add_typer(bench, name="bench", epilog=example("weft bench tapestry"))


def tapestry(context: typer.Context) -> None:
    """Measure a tick of the paper's five queries beside the five full queries, on a generated NetNews."""
    if find_spec("weft.bench.tapestry") is None:
        raise Refused("this Weft was installed without its measurements", hint="Use the repository's.")
    from importlib import import_module

    import_module("weft.bench.tapestry").main(list(context.args))
