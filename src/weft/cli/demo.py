"""demo."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import printing
from weft.cli.frame import example


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft demo"))(demo)


def demo(
    home: Annotated[
        Path | None, typer.Option("--home", metavar="DIR", help="Where to make it (default: ./demo-home).")
    ] = None,
) -> None:
    """See it work: a small NetNews, five standing queries, six weeks in a minute or two, in a home of its own."""
    from weft.cli.troubles import remember
    from weft.demo.play import fresh_folder, play

    folder = home or fresh_folder(Path("demo-home"))
    remember(home=folder)
    play(folder, _Terminal(folder))


class _Terminal:
    """The terminal as the demo's stage."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def heading(self, text: str) -> None:
        """A new scene."""
        printing.say("")
        printing.say(text, style="bold")

    def say(self, text: str = "") -> None:
        """A line."""
        printing.screen().print(text)

    def command(self, text: str) -> None:
        """What one would type."""
        word, _, rest = text.partition(" ")
        second, _, more = rest.partition(" ")
        if word in ("ingest", "quarantine"):
            word, rest = f"{word} {second}", more
        printing.say(f"$ weft {word} --home {self._home} {rest}".rstrip(), style="cyan")

    def working(self, text: str) -> AbstractContextManager[None]:
        """A sign of life."""
        return printing.working(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        printing.table(columns, rows, right=(2,))
