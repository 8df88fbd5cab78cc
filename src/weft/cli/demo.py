"""demo, bench."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final

import typer

from weft.cli import printing
from weft.cli.frame import example
from weft.configuration import configuration

_HOME: Final = Path("demo-home")


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft demo"))(demo)
    bench = typer.Typer(no_args_is_help=True, help="Measurements.")
    bench.command("tapestry", epilog=example("weft bench tapestry --messages 380000 --messages 3800000"))(tapestry)
    bench.command("many", epilog=example("weft bench many --queries 1 --queries 100000"))(many)
    bench.command("commands", epilog=example("weft bench commands --out commands.json"))(commands)
    bench.command("load", epilog=example("weft bench load --rows 10000000 --format csv"))(load)
    bench.command("views", epilog=example("weft bench views --periods 1000000 --periods 10000000"))(views)
    bench.command("synopses", epilog=example("weft bench synopses --events 1000000 --batch 100000"))(synopses)
    app.add_typer(bench, name="bench", epilog=example("weft bench tapestry"))


def demo(
    home: Annotated[
        Path | None, typer.Option("--home", metavar="DIR", help="Where to make it (default: ./demo-home).")
    ] = None,
) -> None:
    """See it work: a small NetNews, six standing queries, six weeks in under half a minute, in a home of its own."""
    from weft.cli.troubles import remember
    from weft.demo.play import fresh_folder, play

    configuration()  # what is set wrong is refused before anything is made
    folder = home or fresh_folder(_HOME)
    remember(home=folder)
    if home is None and folder != _HOME:
        printing.say(f"{_HOME} is there already, and stays as it is: this demo makes {folder}.")
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
        printing.screen().print(printing.lines(text))

    def command(self, text: str) -> None:
        """What one would type."""
        word, _, rest = text.partition(" ")
        second, _, more = rest.partition(" ")
        if word in ("ingest", "quarantine"):
            word, rest = f"{word} {second}", more
        printing.say(f"$ weft {word} --home {self._home} {rest}".rstrip(), style="cyan")

    def working(self, text: str) -> AbstractContextManager[object]:
        """A sign of life."""
        return printing.working(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        printing.table(columns, rows, right=(2,))


def tapestry(
    messages: Annotated[
        list[int] | None,
        typer.Option(min=10_000, help="Size of the table; may be given several times (default: 380000)."),
    ] = None,
    ticks: Annotated[int, typer.Option(min=1, help="Ticks measured at each size.")] = 7,
    warm: Annotated[int, typer.Option(min=1, help="Ticks run before, not counted.")] = 10,
    full: Annotated[int, typer.Option(min=0, help="Rounds that run the full queries, too.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the tables are made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure a tick of the paper's five queries beside the five full queries, on a generated NetNews."""
    from weft.bench.tapestry import compare

    compare(messages or [380_000], ticks, warm, full, folder, out, printing.say)


def many(
    queries: Annotated[
        list[int] | None,
        typer.Option(min=1, max=200_000, help="Queries of one shape; may be given several times (1 to 100000)."),
    ] = None,
    messages: Annotated[int, typer.Option(min=10_000, help="Size of the table.")] = 380_000,
    ticks: Annotated[int, typer.Option(min=1, help="Ticks measured in each case.")] = 5,
    warm: Annotated[int, typer.Option(min=0, help="Ticks run before, not counted.")] = 5,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the tables are made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure a tick of one query beside ticks of many queries of its shape, and of many shapes."""
    from weft.bench.many import compare

    compare(queries or [1, 100, 10_000, 100_000], messages, ticks, warm, folder, out, printing.say)


def commands(
    rounds: Annotated[int, typer.Option(min=1, help="How often each command is run in each way.")] = 5,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the home is made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure what commands take over the demo's home, each in a process of its own, without and with the archive."""
    from weft.bench.commands import compare

    compare(rounds, folder, out, printing.say)


def load(
    rows: Annotated[int, typer.Option(min=1, help="Rows of the file.")] = 10_000_000,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="parquet|csv", help="Its format; may be given several times (default: both)."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often it is loaded in each way.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the tables are made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure loading a large file, by Weft and by plain Spark side by side."""
    from weft.bench.load import FORMATS, compare

    compare(rows, formats or FORMATS, rounds, folder, out, printing.say)


def views(
    periods: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Periods of the recorded history; may be given several times (default: 1000000)."),
    ] = None,
    employees: Annotated[int, typer.Option(min=1, help="Employees in the directory at any time.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Batches measured with each history.")] = 7,
    warm: Annotated[int, typer.Option(min=1, help="Batches before, not counted.")] = 3,
    full: Annotated[int, typer.Option(min=0, help="Rounds in which Spark computes the views anew, too.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the homes are made (default: the system's).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure the maintenance of temporal views after a batch of changes beside Spark's full recomputation."""
    from weft.bench.view_refreshes import compare

    compare(periods or [1_000_000], employees, (warm, rounds, full), folder, out, printing.say)


def synopses(
    events: Annotated[int, typer.Option(min=1_000, help="Events of the log.")] = 1_000_000,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Events in a batch; may be given several times (default: 1000, 10000, 100000)."),
    ] = None,
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Leave the ticks of a home out.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.")] = None,
) -> None:
    """Measure how many events a second synopses take in, beside answers from the whole history."""
    from weft.bench.synopses import compare

    compare(events, batch or [1_000, 10_000, 100_000], out, printing.say, ticks=not in_memory)
