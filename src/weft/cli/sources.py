"""The commands ``source`` (add, poll, history, correct, show, remove) and ``sources``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.api.json.sources import (
    PERIOD,
    corrected_json,
    past_json,
    polled_json,
    shown_source_json,
    source_json,
)
from weft.api.json.views import refreshed_json
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.loads import RenameOption
from weft.cli.printing import counting, echo, instant, moment, plain, print_json, print_list, table, typed
from weft.cli.view_commands import print_refreshed
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from weft.api.weft import Weft
    from weft.catalog.records import TableRecord
    from weft.catalog.sources import SourceRecord
    from weft.errors import WeftError
    from weft.extraction.sources.source_lease import Polled

# Repeat the choices of weft.catalog.sources, because its import is slow.  A test compares the two lists.
KindOption = Annotated[
    Literal["csv", "jsonl", "parquet", "sqlite", "postgres", "changes", "maildir", "imap", "nntp"],
    typer.Option("--kind", help="The kind of the source.", show_default=False),
]
StampsOption = Annotated[
    Literal["clock", "file", "source"] | None,
    typer.Option(
        "--ts",
        help=(
            "The time of a change: clock (the home's clock, the default), file (the file's time), or source (the "
            "time that the source gives)."
        ),
    ),
]
TableOption = Annotated[
    str | None, typer.Option("--table", metavar="T", help="The table in the source, if it has several.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="COLS", help='The columns to record, optionally with types ("id BIGINT, name").'),
]

_NONE_YET = "No sources yet. Add a source: weft source add NAME --kind csv --at PLACE --key COLS"


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    source = typer.Typer(no_args_is_help=True, help="Track a source that keeps no history, or follow mail.")
    source.command("add", epilog=example("weft source add employees --kind csv --at employees.csv --key id"))(add)
    source.command("poll", epilog=example("weft source poll", "weft source poll employees --evolve"))(poll)
    source.command("history", epilog=example("weft source history employees backups.csv --ts-from taken_at"))(history)
    source.command(
        "correct",
        epilog=example("weft source correct staff --key id=2 --set dept=Sales --from 2026-01-05 --to 2026-01-20"),
    )(correct)
    source.command("show", epilog=example("weft source show employees"))(show)
    source.command("remove", epilog=example("weft source remove employees"))(remove)
    app.add_typer(source, name="source", epilog=example("weft source poll"))
    app.command(epilog=example("weft sources"))(sources)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table to create.")],
    kind: KindOption,
    at: Annotated[str, typer.Option("--at", metavar="PLACE", help="The path or URI of the source.")],
    key: Annotated[
        str, typer.Option("--key", metavar="COLS", help="The key columns, separated by commas (not for mail).")
    ] = "",
    every: Annotated[str, typer.Option(metavar="10m", help="How often `weft run` polls it.")] = "10m",
    of: TableOption = None,
    columns: ColumnsOption = None,
    rename: RenameOption = None,
    ts: StampsOption = None,
    slot: Annotated[
        str | None, typer.Option(metavar="S", help="The replication slot in PostgreSQL (default: a new one).")
    ] = None,
    publication: Annotated[
        str | None, typer.Option(metavar="P", help="The publication in PostgreSQL (default: a new one).")
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Track a source as a table with its history, or follow mail; the first poll records the first rows."""
    how: dict[str, Any] = {"every": every, "ts": ts, "rename": rename, "table": of, "slot": slot}
    keys = [each.strip() for each in key.split(",") if each.strip()]
    with opened(home, create=True) as weft:
        place = at if "://" in at else str(terminal.path(Path(at)))
        source = weft.add_source(name, kind, place, keys, columns=columns, publication=publication, **how)
        _, record = weft.source(name)
    if json:
        print_json(source_json(source))
        return
    named = typed((c.name, c.type) for c in record.schema.columns if c.name not in PERIOD)
    echo(f"{source.name} {_follows(record)} {plain(source.location)}: {named}")
    does = "records its present rows" if record.tracked else "stores its present messages"
    echo(f"  `weft source poll {source.name}` {does}; `weft run` polls it every {_every(source)}.")


def _follows(table: TableRecord) -> str:
    return "tracks" if table.tracked else "appends the new messages of"


def poll(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The sources (default: all).")] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add the source's new columns to the table.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Accept an empty source: all rows of the table have then ended.")
    ] = False,
    bad_lines: Annotated[
        Literal["refuse", "quarantine"],
        typer.Option("--bad-lines", help="Refuse a feed with invalid lines, or quarantine the lines."),
    ] = "refuse",
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Record the changes of sources since their last poll; the failure of one does not stop the others."""
    from weft.errors import WeftError

    with opened(home) as weft:
        accepting = {"evolve": evolve, "allow_empty": allow_empty, "bad_lines": bad_lines == "quarantine"}
        outcomes = _poll_all(weft, names, {"now": now, **accepting})
        try:
            maintained, failure = weft.keep_views(now=now), None
        except WeftError as error:  # print the results of the polls first
            maintained, failure = (), error
    if json:
        polled = [polled_json(name, each) for name, each in outcomes]
        print_json({"sources": polled, "views": [refreshed_json(each) for each in maintained]})
    elif not outcomes:
        echo(_NONE_YET)
    else:
        for name, each in outcomes:
            _print_outcome(name, each)
        print_refreshed(maintained)
    if failure is not None:
        raise failure
    if any(not _went_well(each) for _, each in outcomes):
        raise typer.Exit(1)


def _poll_all(weft: Weft, names: list[str] | None, how: dict[str, Any]) -> list[tuple[str, Polled | WeftError]]:
    """Poll the named sources, or all sources if no names are given, and return the results.  If only one source is
    named, raise the error of that source.
    """
    from weft.errors import ClockError, WeftError

    outcomes: dict[str, Polled | WeftError] = {}
    for name in names or [each.name for each in weft.sources()]:
        known = next((each.name for each in weft.sources() if each.name.lower() == name.lower()), name)
        if known in outcomes:
            continue
        try:
            with counting(f"polling {known}") as progress:
                outcomes |= {each.name: each for each in weft.poll_feed(known, progress=progress, **how)}
        except ClockError:
            raise
        except WeftError as error:
            if names is not None and len(names) == 1:
                raise
            outcomes[known] = error
    return list(outcomes.items())


def _went_well(outcome: Polled | WeftError) -> bool:
    return not isinstance(outcome, Exception)


def _print_outcome(name: str, outcome: Polled | WeftError) -> None:
    if isinstance(outcome, Exception):
        hint = f" {plain(outcome.hint)}" if outcome.hint else ""
        echo(f"{name}: {plain(outcome.message)}.{hint}", style="yellow")
    elif outcome.at is None:
        echo(f"{name}: no change, {counted(outcome.open_rows, 'row')}")
    elif outcome.appends:
        echo(f"{name}: {counted(outcome.began, 'new row')}, {counted(outcome.open_rows, 'row')} now")
    else:
        counts = f"{outcome.began:,} began, {outcome.ended:,} ended, {counted(outcome.open_rows, 'row')} now"
        echo(f"{name}: {counts}, at {instant(outcome.at)}")
    if not isinstance(outcome, Exception):
        _print_remarks(outcome)


def _print_remarks(outcome: Polled) -> None:
    if outcome.late:
        transactions = counted(outcome.late, "row" if outcome.appends else "transaction")
        echo(f"  Late: {transactions} got the earliest possible instant instead of the time that the source gives.")
    if outcome.quarantined:
        lines = counted(outcome.quarantined, "record") + (" is" if outcome.quarantined == 1 else " are")
        echo(f"  {lines} quarantined as invalid: see `weft quarantine list`.")


def history(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, JSON lines or Parquet file.")],
    ts_from: Annotated[str, typer.Option("--ts-from", metavar="COL", help="The column with the instant of each row.")],
    op: Annotated[
        str | None,
        typer.Option(metavar="COL", help="The rows are changes; in this column, D marks a deletion."),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load the past of a source: all its rows at several instants, or dated changes."""
    file = terminal.path(path)
    with opened(home) as weft, counting(f"loading {path.name}") as progress:
        load = weft.load_past(name, file, ts_from, op=op, progress=progress)
    if json:
        print_json(past_json(load))
    elif load.already:
        echo(f"{load.name}: this file was loaded before; nothing was recorded.")
    elif load.first is None:
        echo(f"{load.name}: the file has no new changes.")
    else:
        span = f"from {instant(load.first)} to {instant(load.last)}"
        echo(f"{load.name}: {load.began:,} began, {load.ended:,} ended, {span}")


def sources(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the sources, with the result of their last poll."""
    with opened(home) as weft:
        listed = weft.sources()
        keys = {each.table_id: each.keys for each in weft.tables()}
    rows = (
        (
            each.name,
            each.kind,
            ", ".join(keys[each.table_id]),
            f"{each.open_rows:,}",
            moment(each.polled_at, "never"),
            instant(each.changed_at),
            plain(each.trouble or ""),
        )
        for each in listed
    )
    values = ({**source_json(each), "key": keys[each.table_id]} for each in listed)
    columns = ("source", "kind", "key", "rows", "last poll", "last change", "error")
    print_list(json, values, _NONE_YET, columns, rows, right=(3,))


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show a source: its location, its columns, and the result of its last poll."""
    with opened(home) as weft:
        source, record = weft.source(name)
    columns = [each for each in record.schema.columns if each.name not in PERIOD]
    if json:
        print_json(shown_source_json(source, record))
        return
    if record.attached:
        dated = "the time of its version" if record.ts_from is None else f"its column {record.ts_from}"
        echo(
            f"{source.name} is the Delta table at {plain(source.location)}, read up to version {source.seen['version']}"
        )
        echo(f"  {counted(record.rows, 'row')}, each dated by {dated}")
    else:
        follows = f"{source.name} {_follows(record)} {plain(source.location)}"
        echo(f"{follows} ({source.kind}), polled every {_every(source)}")
        echo(f"  key {', '.join(record.keys)}; dated by {_stamps(source, record)}")
        changes = f" now, {record.rows:,} begins and ends recorded" if record.tracked else ""
        echo(f"  {counted(source.open_rows if record.tracked else record.rows, 'row')}{changes}")
    echo(f"  last poll {moment(source.polled_at, 'never')}, last change {instant(source.changed_at, 'never')}")
    if source.trouble is not None:
        echo(f"  error: {plain(source.trouble)}", style="yellow")
    table(("column", "type"), [(each.name, each.type.declared) for each in columns])


def _stamps(source: SourceRecord, table: TableRecord) -> str:
    return _STAMPS[source.stamps] if table.tracked or source.stamps == "clock" else "the Date of each message"


_STAMPS = {"clock": "the home's clock", "file": "the time of the file", "source": "the source's time of the change"}


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a source; its table stays, with all its rows."""
    with opened(home) as weft:
        removed, warning = weft.remove_source(name)
    if json:
        print_json({"name": removed.name, "removed": True, "left": warning})
        return
    echo(f"{removed.name} is no longer polled; its table is left unchanged.")
    if warning is not None:
        echo(f"  {plain(warning)}", style="yellow")


def _every(source: SourceRecord) -> str:
    from weft.instants import format_interval

    return format_interval(source.every_us)


def print_poll(weft: Weft, json: bool, outcome: Polled) -> None:
    """Print the result of a poll during ``weft run``.  Print nothing if nothing has changed."""
    if outcome.at is None and not outcome.quarantined:
        return
    if json:
        print_json({"ticks": [], "delivered": [], "polled": polled_json(outcome.name, outcome)}, lines=True)
    else:
        periods = f"{outcome.began:,} began, {outcome.ended:,} ended"
        changes = counted(outcome.began, "new row") if outcome.appends else periods
        echo(f"{instant(weft.clock())}  {outcome.name}: {changes}")
        _print_remarks(outcome)


def correct(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tracked table.")],
    key: Annotated[
        list[str], typer.Option("--key", metavar="COL=VALUE", help="The row, given by each column of the key.")
    ],
    begin: Annotated[str, typer.Option("--from", metavar="T", help="The start of the corrected period, ISO 8601.")],
    end: Annotated[
        str, typer.Option("--to", metavar="T", help="The end of the corrected period, exclusive; not after now.")
    ],
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="COL=VALUE", help="The value of a column in that period.")
    ] = None,
    nulls: Annotated[
        list[str] | None, typer.Option("--null", metavar="COL", help="A column that was NULL in that period.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="The row did not exist in that period.")] = False,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Correct a past period of a tracked table, and refresh its views; the earlier version stays readable."""
    if delete and (values or nulls):
        raise Refused("--delete contradicts --set and --null", hint="Omit --delete, or omit --set and --null.")
    sets = None if delete else {**_pairs("--set", values or ()), **dict.fromkeys(nulls or ())}
    with opened(home) as weft:
        corrected = weft.correct_source(name, _pairs("--key", key), begin, end, sets, now=now)
        maintained = weft.keep_views(now=now)
    if json:
        print_json(corrected_json(corrected))
    elif corrected.at is None:
        echo(f"{corrected.name}: no change, because the table already records these values.")
    else:
        gone = f", {corrected.gone:,} removed" if corrected.gone else ""
        periods = counted(corrected.changed, "period")
        echo(f"{corrected.name}: {periods} added or changed{gone}, corrected at {instant(corrected.at)}")
    if not json:
        print_refreshed(maintained)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refused(f"{option} {text!r} is not COLUMN=VALUE", hint=f"Write {option} dept=Sales.")
        pairs[name.strip()] = value
    return pairs
