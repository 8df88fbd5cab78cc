"""The commands ``demo`` and ``bench``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weft.cli import printing
from weft.cli.frame import example
from weft.configuration import configuration
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.api.weft import Weft

_HOME: Final = Path("demo-home")
_Sizes = Annotated[
    list[int] | None, typer.Option(min=10_000, help="Size of the table; can be repeated (default: 380000).")
]
_Ticks = Annotated[int, typer.Option(min=1, help="Ticks measured at each size.")]
_Warm = Annotated[int, typer.Option(min=1, help="Ticks that run before the measured ticks.")]
_Full = Annotated[int, typer.Option(min=0, help="Rounds that run the full queries, too.")]
_Seconds = Annotated[
    float, typer.Option(min=1, help="Time limit of each tick, full query and batch of a stream, in seconds.")
]


def _writable(out: Path | None) -> Path | None:
    """Raise Refused if the file cannot be written: the measurement comes first, and it may take hours."""
    if out is None:
        return None
    new = not os.path.lexists(out)
    try:
        out.open("a").close()
    except OSError as error:
        raise Refused(
            f"{out} cannot be written: {error.strerror}", hint="Use --out with a file in a folder that exists."
        ) from error
    if new:
        out.unlink()
    return out


_FOLDER: Final[Mapping[str, Any]] = {"metavar": "DIR", "file_okay": False, "writable": True}
_Tables = Annotated[
    Path | None, typer.Option(help="Folder for the tables (default: the system's).", exists=True, **_FOLDER)
]
_Homes = Annotated[
    Path | None, typer.Option(help="Folder for the homes (default: the system's).", exists=True, **_FOLDER)
]
_Out = Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON file for the figures.", callback=_writable)]
_Lines = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of JSON lines for the figures.", callback=_writable)
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(epilog=example("weft demo"))(demo)
    bench = typer.Typer(no_args_is_help=True, help="Run benchmarks.")
    bench.command("tapestry", epilog=example("weft bench tapestry --messages 380000 --messages 3800000"))(tapestry)
    bench.command("paper", epilog=example("weft bench paper --messages 38000 --messages 380000"))(paper)
    bench.command("many", epilog=example("weft bench many --queries 1 --queries 100000"))(many)
    bench.command("commands", epilog=example("weft bench commands --out commands.json"))(commands)
    bench.command("load", epilog=example("weft bench load --rows 10000000 --format csv"))(load)
    bench.command("views", epilog=example("weft bench views --periods 1000000 --periods 10000000"))(views)
    bench.command("engines", epilog=example("weft bench engines --periods 10000000 --events 10000000"))(engines)
    bench.command("synopses", epilog=example("weft bench synopses --events 1000000 --batch 100000"))(synopses)
    bench.command("aggregates", epilog=example("weft bench aggregates --messages 380000 --messages 3800000"))(
        aggregates
    )
    bench.command("tpch", epilog=example("weft bench tpch --scale 1"))(tpch)
    bench.command("nexmark", epilog=example("weft bench nexmark --events 10000000"))(nexmark)
    bench.command("web", epilog=example("weft bench web --queries 100000 --answers 1000000 --clients 50"))(web)
    app.add_typer(bench, name="bench", epilog=example("weft bench tapestry"))


def demo(
    home: Annotated[
        Path | None, typer.Option("--home", metavar="DIR", help="The folder of the new home (default: ./demo-home).")
    ] = None,
) -> None:
    """Run a demo in a new home: a small NetNews and six standing queries, six weeks in under half a minute."""
    from weft.cli.troubles import remember
    from weft.demo.play import fresh_folder, play

    configuration()  # refuse invalid settings before anything is made
    folder = home or fresh_folder(_HOME)
    remember(home=folder)
    if home is None and folder != _HOME:
        printing.echo(f"{_HOME} exists and is left unchanged; this demo creates {folder}.")
    play(folder, _Terminal(folder))


class _Terminal:
    def __init__(self, home: Path) -> None:
        self._home = home

    def heading(self, text: str) -> None:
        printing.echo("")
        printing.echo(text, style="bold")

    def line(self, text: str = "") -> None:
        printing.screen().print(printing.lines(text))

    def command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        second, _, more = rest.partition(" ")
        if word in ("ingest", "quarantine"):
            word, rest = f"{word} {second}", more
        printing.echo(f"$ weft {word} --home {self._home} {rest}".rstrip(), style="cyan")

    def working(self, text: str) -> AbstractContextManager[object]:
        return printing.working(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        printing.table(columns, rows, right=(2,))


def tapestry(
    messages: _Sizes = None,
    ticks: _Ticks = 7,
    warm: _Warm = 10,
    full: _Full = 3,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare a tick of the paper's five queries with the five full queries, on a generated NetNews."""
    from weft.bench.tapestry import compare

    compare(messages or [380_000], ticks, warm, full, folder, out, printing.echo)


def paper(
    messages: _Sizes = None,
    changed: Annotated[
        int, typer.Option(min=0, help="Size of the table of which a part is new; 0: leave these figures out.")
    ] = 380_000,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each query.")] = 3,
    postgres: Annotated[
        str | None, typer.Option(metavar="URI", help="A PostgreSQL database on this machine to measure, too.")
    ] = None,
    folder: _Tables = None,
    out: _Out = None,
    charts: Annotated[Path | None, typer.Option(help="A folder for charts (SVG).", **_FOLDER)] = None,
) -> None:
    """Repeat figures 5 to 9 of the paper, with Spark, DuckDB, Structured Streaming and PostgreSQL beside Weft."""
    from weft.bench.paper import compare

    compare(messages or [38_000, 380_000], changed, rounds, postgres, folder, out, charts, printing.echo)


def many(
    queries: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=200_000, help="Number of queries of one shape; can be repeated (default: 1 to 100000)."
        ),
    ] = None,
    shapes: Annotated[
        list[int] | None,
        typer.Option(min=1, max=1_000, help="Number of different shapes; can be repeated (default: 10 and 1000)."),
    ] = None,
    messages: Annotated[int, typer.Option(min=10_000, help="Size of the table.")] = 380_000,
    ticks: Annotated[int, typer.Option(min=1, help="Ticks measured in each case.")] = 5,
    warm: Annotated[int, typer.Option(min=0, help="Ticks that run before the measured ticks.")] = 5,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare a tick of one query with ticks of many queries of its shape, and ticks of few and many shapes."""
    from weft.bench.many import compare

    numbers = queries or [1, 100, 10_000, 100_000], shapes or [10, 1_000]
    compare(*numbers, messages, ticks, warm, folder, out, printing.echo)


def web(
    queries: Annotated[int, typer.Option(min=100, max=200_000, help="Number of installed queries.")] = 100_000,
    answers: Annotated[int, typer.Option(min=40_000, help="Number of answers.")] = 1_000_000,
    clients: Annotated[int, typer.Option(min=1, max=1_000, help="Number of clients at once.")] = 50,
    rounds: Annotated[int, typer.Option(min=1, help="How often a client asks for each kind of page.")] = 5,
    think: Annotated[float, typer.Option(min=0, max=600, help="Mean seconds between the pages of a client.")] = 5.0,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Measure how fast the page answers many clients while ticks run."""
    from weft.bench.web_load import compare

    compare(queries, answers, clients, rounds, think, folder, out, printing.echo, _served)


@contextmanager
def _served(weft: Weft) -> Iterator[str]:
    from weft.web.serving import Address, page_served

    with page_served(weft, Address(port=0)) as address:
        yield address.url


def commands(
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each command in each way.")] = 5,
    folder: _Homes = None,
    out: _Out = None,
) -> None:
    """Measure commands on the demo's home, each in its own process, without and with the class-data archive."""
    from weft.bench.commands import compare

    compare(rounds, folder, out, printing.echo)


def load(
    rows: Annotated[int, typer.Option(min=1, help="Rows of the file.")] = 10_000_000,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="parquet|csv", help="Format of the file; can be repeated (default: both)."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Loads in each way.")] = 3,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare loading a large file with Weft and with plain Spark."""
    from weft.bench.load import FORMATS, compare

    compare(rows, formats or FORMATS, rounds, folder, out, printing.echo)


def views(
    periods: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Periods of the recorded history; can be repeated (default: 1000000)."),
    ] = None,
    employees: Annotated[int, typer.Option(min=1, help="Employees in the directory at any time.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Batches measured with each history.")] = 7,
    warm: Annotated[int, typer.Option(min=1, help="Batches that run before the measured batches.")] = 3,
    full: Annotated[int, typer.Option(min=0, help="Rounds in which Spark also recomputes the views.")] = 3,
    folder: _Homes = None,
    out: _Out = None,
) -> None:
    """Compare refreshing temporal views after a batch of changes with recomputing them in Spark."""
    from weft.bench.view_refreshes import compare

    compare(periods or [1_000_000], employees, (warm, rounds, full), folder, out, printing.echo)


def engines(
    periods: Annotated[int, typer.Option(min=0, help="Periods of the recorded history; 0: no views.")] = 1_000_000,
    events: Annotated[int, typer.Option(min=0, help="Events of the log; 0: no synopses.")] = 1_000_000,
    folder: _Homes = None,
    out: _Lines = None,
) -> None:
    """Compare the two engines of views and synopses: DuckDB in the driver, and Spark."""
    from weft.bench.engines import compare

    compare(periods, events, folder, out, printing.echo)


def synopses(
    events: Annotated[int, typer.Option(min=1_000, help="Events of the log.")] = 1_000_000,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Events in a batch; can be repeated (default: 1000, 10000, 100000)."),
    ] = None,
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Do not measure the ticks of a home.")] = False,
    out: _Lines = None,
) -> None:
    """Measure how many events a second synopses process, compared with the whole history."""
    from weft.bench.synopses import compare

    compare(events, batch or [1_000, 10_000, 100_000], out, printing.echo, ticks=not in_memory)


def aggregates(
    messages: _Sizes = None,
    ticks: _Ticks = 7,
    warm: _Warm = 10,
    full: _Full = 3,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare a tick of five queries with aggregates with the five full queries, on a generated NetNews."""
    from weft.bench.aggregates import compare

    compare(messages or [380_000], ticks, warm, full, folder, out, printing.echo)


def tpch(
    scale: Annotated[float, typer.Option(min=0.01, help="Scale factor; 1 has 8.7 million rows.")] = 1,
    query: Annotated[list[str] | None, typer.Option(help="A query (q1); can be repeated (default: all).")] = None,
    batch: Annotated[float, typer.Option(min=0.0001, max=0.05, help="Share of the rows in a batch.")] = 0.001,
    ticks: Annotated[int, typer.Option(min=1, help="Batches measured.")] = 5,
    warm: Annotated[int, typer.Option(min=0, help="Batches that run before the measured ones.")] = 3,
    full: Annotated[int, typer.Option(min=0, help="Batches after which Spark runs the full queries.")] = 2,
    seconds: _Seconds = 600,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare a tick of each query of TPC-H with the full query. The data come from tpchgen-cli."""
    from tempfile import TemporaryDirectory

    from weft.bench.suite_data import Tpch
    from weft.bench.suites import Rounds, compare

    with TemporaryDirectory(prefix="weft-tpch-", dir=folder) as generated:
        data = Tpch(Path(generated), scale)
        data.generate()
        compare(data, query or (), Rounds(warm, ticks, full, batch), seconds, folder, out, printing.echo)


def nexmark(
    events: Annotated[int, typer.Option(min=10_000, help="Number of events.")] = 1_000_000,
    query: Annotated[list[str] | None, typer.Option(help="A query (q4); can be repeated (default: all).")] = None,
    batch: Annotated[float, typer.Option(min=0.0001, max=0.05, help="Share of the events in a batch.")] = 0.001,
    ticks: Annotated[int, typer.Option(min=1, help="Batches measured.")] = 5,
    warm: Annotated[int, typer.Option(min=0, help="Batches that run before the measured ones.")] = 3,
    full: Annotated[int, typer.Option(min=0, help="Batches after which Spark runs the full queries.")] = 2,
    seconds: _Seconds = 600,
    folder: _Tables = None,
    out: _Out = None,
) -> None:
    """Compare a tick of each query of Nexmark with the full query."""
    from weft.bench.nexmark_texts import Events
    from weft.bench.suite_data import Nexmark
    from weft.bench.suites import Rounds, compare

    data = Nexmark(Events(events, 1_600_000_000_000_000, 1_000))
    compare(data, query or (), Rounds(warm, ticks, full, batch), seconds, folder, out, printing.echo)
