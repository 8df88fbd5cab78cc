"""ingest, quarantine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import counting, iso, moment, plain, say, say_json, table, working

if TYPE_CHECKING:
    from weft.extraction.storing import Summary


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    ingest = typer.Typer(no_args_is_help=True, help="Load mail or files into a table.")
    ingest.command("mail", epilog=example("weft ingest mail archive.mbox.gz news-spool/ --ts-from date"))(mail)
    ingest.command("file", epilog=example("weft ingest file orders.csv --table orders --ts-from placed --key id"))(file)
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
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load mail and news articles into a table of messages."""
    with opened(home, create=True) as weft, counting("loading mail") as progress:
        done = weft.ingest_mail(paths, table=table_name, ts_from=ts_from, newsgroup=newsgroup, progress=progress)
    _tell(done, json)


def file(
    path: Annotated[Path, typer.Argument(help="A CSV, JSON lines or Parquet file.")],
    table_name: Annotated[str, typer.Option("--table", metavar="NAME", help="The table, made by its first load.")],
    ts_from: Annotated[
        str | None, typer.Option("--ts-from", metavar="COL", help="Take ts from this column, to load a history.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLS", help="Columns that tell rows apart, with commas between.")
    ] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add the file's new columns to the table.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load a CSV, JSON lines or Parquet file into a table."""
    keys = [each.strip() for each in key.split(",") if each.strip()] if key else None
    with opened(home, create=True) as weft, counting(f"loading {path.name}") as progress:
        done = weft.ingest_file(path, table_name, ts_from=ts_from, keys=keys, evolve=evolve, progress=progress)
    _tell(done, json)


def _tell(done: Summary, json: bool) -> None:
    counts = {"stored": done.stored, "known": done.known, "quarantined": done.quarantined, "late": done.late}
    if json:
        say_json({"table": done.table, **counts, "already_loaded": done.already_loaded})
        return
    if done.already_loaded:
        say(f"{done.table}: this very file was loaded before; nothing was stored again.")
        return
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{done.table}: {words}")
    if done.quarantined:
        say("  `weft quarantine list` shows what could not be read.")
    if done.late:
        say("  Late rows came after their own time had passed here: they got the earliest instant that was open.")


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
    return source.removeprefix(f"{Path.cwd()}/")


def retry(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID", help="Which records (none: all).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Read quarantined records again."""
    with opened(home) as weft, working("reading again"):
        done = weft.retry_quarantine(ids or None)
    counts = {"read": done.read, "kept": done.kept, "stored": done.stored, "known": done.known}
    if json:
        say_json(counts)
    else:
        rows = f"{done.stored:,} rows stored, {done.known:,} known"
        stay = "stays" if done.kept == 1 else "stay"
        tried = done.read + done.kept
        say(f"{tried:,} tried: {done.read:,} could be read ({rows}), {done.kept:,} {stay} in quarantine.")
