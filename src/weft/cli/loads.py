"""ingest, quarantine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import counted, counting, instant, iso, moment, plain, say, say_json, table, working

if TYPE_CHECKING:
    from weft.api.weft import Weft
    from weft.extraction.storing import Summary


# The choices of weft.extraction.timing, which commands that load nothing need not wait for (a test compares them).
OrderOption = Annotated[
    Literal["own", "arrival"],
    typer.Option("--ts-order", help="Whether ts is a row's own time, or the latest so far in its source's order."),
]
LateOption = Annotated[
    Literal["stamp", "refuse", "quarantine"],
    typer.Option("--late", help="What becomes of a row from before the last tick: it counts as arrived now, or not."),
]
FutureOption = Annotated[
    str, typer.Option("--future", metavar="LENGTH", help="How far ahead of the wall's clock a row may lie.")
]
HoldOption = Annotated[bool, typer.Option("--hold", help="No tick goes on before the whole load is done.")]


FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH", help="CSV, JSON lines or Parquet files, folders of them, patterns in quotes, - for stdin."
    ),
]
TsColumnOption = Annotated[
    str | None,
    typer.Option(
        "--ts-from",
        metavar="COL",
        help="Take ts from this column, to load a history; several files are merged by it.",
    ),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="COLS", help="Columns that tell rows apart, with commas between.")
]
TypesOption = Annotated[
    str | None, typer.Option(metavar="COLS", help='Types that are not to be guessed ("price DECIMAL(12,2)").')
]
RenameOption = Annotated[
    str | None, typer.Option(metavar="PAIRS", help='Names for columns ("Order ID=order_id, Date=day").')
]
EncodingOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The encoding of the text, such as latin-1 (default: guessed).")
]
TsFormatOption = Annotated[
    str | None,
    typer.Option("--ts-format", metavar="F", help="How --ts-from is written: s, ms, us, ns, or '%d.%m.%Y %H:%M'."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
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
    quarantine = typer.Typer(no_args_is_help=True, help="Records that could not be read.")
    quarantine.command("list", epilog=example("weft quarantine list"))(quarantined)
    quarantine.command("retry", epilog=example("weft quarantine retry 3 4"))(retry)
    app.add_typer(quarantine, name="quarantine", epilog=example("weft quarantine list"))


def mail(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="mbox, directory of articles, tar of them; gzip'ed or not."),
    ],
    table_name: Annotated[str, typer.Option("--table", metavar="NAME", help="The table.")] = "msgs",
    ts_from: Annotated[
        str | None,
        typer.Option("--ts-from", metavar="date", help="Take ts from the messages' dates, to load a history."),
    ] = None,
    newsgroup: Annotated[
        str | None, typer.Option(metavar="NAME", help="The group of messages that have no Newsgroups header.")
    ] = None,
    ts_order: OrderOption = "own",
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    hold: HoldOption = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load mail and news articles into a table of messages."""
    given = [terminal.path(each) for each in paths]
    with opened(home, create=True) as weft, counting("loading mail") as progress:
        done = weft.ingest_mail(
            given,
            table=table_name,
            newsgroup=newsgroup,
            ts_from=ts_from,
            ts_order=ts_order,
            late=late,
            future=future,
            hold=hold,
            progress=progress,
        )
        ahead = lies_ahead(weft, done)
    tell_load(done, ahead, json)


def file(
    paths: FilesArgument,
    table_name: Annotated[str, typer.Option("--table", metavar="NAME", help="The table, made by its first load.")],
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
    given = [terminal.stdin_bytes() if str(each) == "-" else terminal.path(each) for each in paths]
    named = paths[0].name if len(paths) == 1 else f"{len(paths)} paths"
    with opened(home, create=True) as weft, counting(f"loading {named}") as progress:
        done = weft.ingest_file(
            given,
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
        ahead = lies_ahead(weft, done)
    tell_load(done, ahead, json)


def monpoly(
    log: Annotated[Path, typer.Argument(help="A log in MonPoly's format, packed (.gz) or not.")],
    sig: Annotated[Path, typer.Option(metavar="FILE", help="Its signature: predicates and their types.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load a log of temporal logic: a table for each predicate, and time_points for its states."""
    paths = terminal.path(log), terminal.path(sig)
    with opened(home, create=True) as weft, counting(f"loading {log.name}") as progress:
        done = weft.ingest_log(*paths, progress)
    if json:
        counts = [{"table": each.table, "stored": each.stored, "late": each.late} for each in done]
        say_json({"tables": counts, "already_loaded": any(each.already_loaded for each in done)})
        return
    for each in done:
        tell_load(each, False, json=False)


def lies_ahead(weft: Weft, done: Summary) -> bool:
    """Whether rows were stored that lie ahead of a wall home's clock."""
    return weft.catalog.home().clock == "wall" and done.last_ts is not None and done.last_ts > weft.clock()


def tell_load(done: Summary, ahead: bool, json: bool) -> None:
    """Prints what a load did; ``ahead``: some of it lies ahead of the home's clock."""
    counts = {"stored": done.stored, "known": done.known, "quarantined": done.quarantined, "late": done.late}
    if json:
        bounds = {"first_ts": iso(done.first_ts), "last_ts": iso(done.last_ts)}
        told = {"differ": done.differ, "already_loaded": done.already_loaded, "notes": done.notes}
        say_json({"table": done.table, **counts, **bounds, **told})
        return
    if done.already_loaded:
        say(f"{done.table}: the very same was loaded before; nothing was stored again.")
        return
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{done.table}: {words}")
    if done.differ:
        others = "1 of them differs" if done.differ == 1 else f"{done.differ:,} of them differ"
        say(f"  {done.known:,} known, {others}: tables are append-only; a tracked table keeps versions.")
    if done.stored:
        say(f"  ts from {instant(done.first_ts)} to {instant(done.last_ts)}")
    for note in done.notes:
        say(f"  {plain(note)}")
    if ahead:
        say("  What lies ahead of the clock arrives when the clock gets there.")
    if done.quarantined:
        say("  `weft quarantine list` shows what could not be taken.")
    if done.late:
        rows = "this row counts" if done.late == 1 else f"these {done.late:,} rows count"
        say(f"  Late: {rows} as arrived now; answers about the past do not change.")


def quarantined(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the records that could not be read: where they lay, and why."""
    with opened(home) as weft:
        found = weft.quarantined()
        names = {record.table_id: record.name for record in weft.tables()}
    if json:
        say_json(
            [
                {
                    "id": r.quarantine_id,
                    "table": names.get(r.table_id),
                    "source": r.source,
                    "position": r.position,
                    "reason": r.reason,
                    "bytes": r.size,
                    "at": iso(r.at),
                    "file": f"quarantine/{r.sha256}",
                }
                for r in found
            ]
        )
    elif not found:
        say("Nothing is in quarantine.")
    else:
        table(
            ("id", "table", "source", "position", "reason", "bytes", "at"),
            [
                (
                    str(r.quarantine_id),
                    names.get(r.table_id, "?"),
                    plain(_nearby(r.source)),
                    plain(r.position),
                    plain(r.reason),
                    f"{r.size:,}",
                    moment(r.at),
                )
                for r in found
            ],
            right=(0, 5),
        )


def _nearby(source: str) -> str:
    """A source as one would type it here."""
    return source.removeprefix(f"{terminal.folder()}/")


def retry(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID", help="Which records (none: all).")] = None,
    late: Annotated[
        Literal["stamp", "quarantine"] | None,
        typer.Option("--late", help="Take late rows as arrived now, or leave them there (default: as their load did)."),
    ] = None,
    future: Annotated[
        str | None, typer.Option("--future", metavar="LENGTH", help="How far ahead of the wall's clock a row may lie.")
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Read quarantined records again."""
    with opened(home) as weft, working("reading again"):
        done = weft.retry_quarantine(ids or None, late=late, future=future)
    counts = {"read": done.read, "kept": done.kept, "stored": done.stored, "known": done.known, "late": done.late}
    if json:
        say_json(counts)
    else:
        rows = f"{counted(done.stored, 'row')} stored, {done.known:,} known"
        stay = "stays" if done.kept == 1 else "stay"
        tried = done.read + done.kept
        say(f"{tried:,} tried: {done.read:,} could be read ({rows}), {done.kept:,} {stay} in quarantine.")
