"""The commands ``ingest`` and ``quarantine``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.api.json.loads import log_json, quarantined_json, retried_json, summary_json
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import counted, counting, echo, instant, moment, plain, print_json, print_list, working

if TYPE_CHECKING:
    from weft.extraction.files.given_files import Given
    from weft.extraction.storing import Summary


# Repeat the choices of weft.extraction.batches, because its import is slow.  A test compares the two lists.
OrderOption = Annotated[
    Literal["own", "arrival"],
    typer.Option(
        "--ts-order",
        help=(
            "own: ts is the time that each row gives; arrival: the latest such time so far, in the order of the source."
        ),
    ),
]
LateOption = Annotated[
    Literal["stamp", "refuse", "quarantine"],
    typer.Option(
        "--late",
        help=(
            "For rows older than the last tick: store them with the present time, refuse the load, or quarantine "
            "the rows."
        ),
    ),
]
FutureOption = Annotated[
    str, typer.Option("--future", metavar="LENGTH", help="How far ahead of the wall clock a row's ts may be.")
]
HoldOption = Annotated[bool, typer.Option("--hold", help="Let ticks wait until the whole load is complete.")]


def _path_or_uri(typed: str) -> Path | str:
    """Return a URI as text, and all else as a path, whose name may have any bytes."""
    return typed if "://" in typed else Path(typed)


FilesArgument = Annotated[
    list[Any],  # Path | str, which typer does not take
    typer.Argument(
        parser=_path_or_uri,
        metavar="PATH",
        help="CSV, JSON lines or Parquet files, folders of them, quoted patterns, also on S3 (s3://…), - for stdin.",
    ),
]
TsColumnOption = Annotated[
    str | None,
    typer.Option(
        "--ts-from",
        metavar="COL",
        help="Take ts from this column, to load a history; files are merged by it.",
    ),
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="COLS", help="The key columns, separated by commas.")]
TypesOption = Annotated[
    str | None, typer.Option(metavar="COLS", help='Types of columns ("price DECIMAL(12,2)"); others are inferred.')
]
RenameOption = Annotated[
    str | None, typer.Option(metavar="PAIRS", help='New names of columns ("Order ID=order_id, Date=day").')
]
EncodingOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The text encoding, such as latin-1 (default: detected).")
]
TsFormatOption = Annotated[
    str | None,
    typer.Option("--ts-format", metavar="F", help="The format of --ts-from: s, ms, us, ns, or '%d.%m.%Y %H:%M'."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    ingest = typer.Typer(no_args_is_help=True, help="Load mail, files or logs into tables.")
    ingest.command("mail", epilog=example("weft ingest mail archive.mbox.gz news-spool/ --ts-from date"))(mail)
    ingest.command(
        "file",
        epilog=example(
            "weft ingest file orders.csv --table orders --ts-from placed --key id",
            "weft ingest file 'orders-*.csv' more/ --table orders --ts-from placed",
        ),
    )(file)
    ingest.command("monpoly", epilog=example("weft ingest monpoly events.log --sig events.sig"))(monpoly)
    app.add_typer(ingest, name="ingest", epilog=example("weft ingest mail archive.mbox"))
    quarantine = typer.Typer(no_args_is_help=True, help="List or retry records that could not be read.")
    quarantine.command("list", epilog=example("weft quarantine list"))(list_quarantine)
    quarantine.command("retry", epilog=example("weft quarantine retry 3 4"))(retry)
    app.add_typer(quarantine, name="quarantine", epilog=example("weft quarantine list"))


def mail(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="An mbox file, a folder of articles, or a tar archive of either; may be gzipped."
        ),
    ],
    table_name: Annotated[str, typer.Option("--table", metavar="NAME", help="The table.")] = "msgs",
    ts_from: Annotated[
        str | None,
        typer.Option("--ts-from", metavar="date", help="Take ts from the messages' dates, to load a history."),
    ] = None,
    newsgroup: Annotated[
        str | None, typer.Option(metavar="NAME", help="The newsgroup of messages without a Newsgroups header.")
    ] = None,
    ts_order: OrderOption = "own",
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    hold: HoldOption = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load mail and news articles into a table of messages."""
    files = [terminal.path(each) for each in paths]
    with opened(home, create=True) as weft, counting("loading mail") as progress:
        load = weft.ingest_mail(
            files,
            table=table_name,
            newsgroup=newsgroup,
            ts_from=ts_from,
            ts_order=ts_order,
            late=late,
            future=future,
            hold=hold,
            progress=progress,
        )
        ahead = weft.lies_ahead(load)
    print_load(load, ahead, json)


def file(
    paths: FilesArgument,
    table_name: Annotated[str, typer.Option("--table", metavar="NAME", help="The table; its first load creates it.")],
    ts_from: TsColumnOption = None,
    key: KeyOption = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add the files' new columns to the table.")] = False,
    types: TypesOption = None,
    rename: RenameOption = None,
    encoding: EncodingOption = None,
    ts_format: TsFormatOption = None,
    ts_order: OrderOption = "own",
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    hold: HoldOption = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load CSV, JSON lines or Parquet files into a table, as one load."""
    keys = [each.strip() for each in key.split(",") if each.strip()] if key else None
    files = [_given(each) for each in paths]
    named = Path(paths[0]).name if len(paths) == 1 else f"{len(paths)} paths"
    with opened(home, create=True) as weft, counting(f"loading {named}") as progress:
        load = weft.ingest_file(
            files,
            table_name,
            keys=keys,
            evolve=evolve,
            types=types,
            rename=rename,
            encoding=encoding,
            ts_from=ts_from,
            ts_format=ts_format,
            ts_order=ts_order,
            late=late,
            future=future,
            hold=hold,
            progress=progress,
        )
        ahead = weft.lies_ahead(load)
    print_load(load, ahead, json)


def _given(path: Path | str) -> Given:
    if isinstance(path, str):
        return path
    return terminal.stdin_bytes() if str(path) == "-" else terminal.path(path)


def monpoly(
    log: Annotated[Path, typer.Argument(help="A log in MonPoly's format; may be gzipped.")],
    sig: Annotated[Path, typer.Option(metavar="FILE", help="The signature of the log: predicates and their types.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load a log of temporal logic: one table per predicate, and the table time_points of its states."""
    paths = terminal.path(log), terminal.path(sig)
    with opened(home, create=True) as weft, counting(f"loading {log.name}") as progress:
        summaries = weft.ingest_log(*paths, progress)
    if json:
        print_json(log_json(summaries))
        return
    for each in summaries:
        print_load(each, False, json=False)


def print_load(load: Summary, ahead: bool, json: bool) -> None:
    """Print the summary of a load.  ``ahead`` is true if rows of the load have a future ``ts``."""
    if json:
        print_json(summary_json(load))
        return
    if load.already_loaded:
        echo(f"{load.table}: these rows were loaded before; nothing was stored.")
        return
    words = ", ".join(f"{getattr(load, name):,} {name}" for name in ("stored", "known", "quarantined", "late"))
    echo(f"{load.table}: {words}")
    if load.differ:
        others = "1 of them differs" if load.differ == 1 else f"{load.differ:,} of them differ"
        echo(f"  Known: the table has these rows; {others} from the stored row. Use a tracked table to store versions.")
    elif load.known:
        echo("  Known: the table already has these rows.")
    if load.stored:
        echo(f"  ts from {instant(load.first_ts)} to {instant(load.last_ts)}")
    for note in load.notes:
        echo(f"  {plain(note)}")
    if ahead:
        echo("  Rows ahead of the clock arrive when the clock reaches their ts.")
    if load.quarantined:
        echo("  `weft quarantine list` shows the records that could not be read.")
    if load.late:
        rows = "1 row gets" if load.late == 1 else f"{load.late:,} rows get"
        echo(f"  Late: {rows} the present time as ts, so answers about the past do not change.")


def list_quarantine(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the records that could not be read: source, position, and reason."""
    with opened(home) as weft:
        records = weft.quarantined()
        names = {record.table_id: record.name for record in weft.tables()}
    rows = (
        (
            str(r.quarantine_id),
            names.get(r.table_id, "?"),
            plain(_nearby(r.source)),
            plain(r.position),
            plain(r.reason),
            f"{r.size:,}",
            moment(r.at),
        )
        for r in records
    )
    values = (quarantined_json(each, names) for each in records)
    columns = ("id", "table", "source", "position", "reason", "bytes", "at")
    print_list(json, values, "There are no records to retry.", columns, rows, right=(0, 5))


def _nearby(source: str) -> str:
    return source.removeprefix(f"{terminal.folder()}/")


def retry(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="The ids of the records (default: all).")
    ] = None,
    late: Annotated[
        Literal["stamp", "quarantine"] | None,
        typer.Option(
            "--late", help="Store late rows with the present time, or leave them (default: as in their load)."
        ),
    ] = None,
    future: Annotated[
        str | None,
        typer.Option("--future", metavar="LENGTH", help="How far ahead of the wall clock a row's ts may be."),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Read quarantined records again."""
    with opened(home) as weft, working("reading again"):
        retried = weft.retry_quarantine(ids or None, late=late, future=future)
    if json:
        print_json(retried_json(retried))
    else:
        rows = f"{counted(retried.stored, 'row')} stored, {retried.known:,} known"
        stay = "stays" if retried.kept == 1 else "stay"
        tried = retried.read + retried.kept
        echo(f"{tried:,} tried: {retried.read:,} could be read ({rows}), {retried.kept:,} {stay} in quarantine.")
