"""bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.frame import example
from weft.cli.printing import say


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    bench = typer.Typer(no_args_is_help=True, help="Measurements.")
    bench.command("tapestry", epilog=example("weft bench tapestry --messages 380000 --messages 3800000"))(tapestry)
    app.add_typer(bench, name="bench", epilog=example("weft bench tapestry"))


def tapestry(
    messages: Annotated[
        list[int] | None,
        typer.Option(min=10_000, help="Size of the table; may be given several times (default: 380000)."),
    ] = None,
    ticks: Annotated[int, typer.Option(min=1, help="Ticks measured at each size.")] = 7,
    warm: Annotated[int, typer.Option(min=1, help="Ticks run before, not counted.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the tables are made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure a tick of the paper's five queries beside the five full queries, on a generated NetNews."""
    from weft.bench.tapestry import compare

    compare(messages or [380_000], ticks, warm, folder, out, say)
