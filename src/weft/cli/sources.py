"""source add, poll, history, show, remove; sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli import terminal
from weft.cli.correcting import correct
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.loads import RenameOption
from weft.cli.printing import counting, instant, iso, moment, plain, say, say_json, table, typed
from weft.cli.view_commands import maintained_json, tell_maintained
from weft.printable import counted

if TYPE_CHECKING:
    from weft.api.weft import Weft
    from weft.catalog.sources import SourceRecord
    from weft.errors import WeftError
    from weft.extraction.sources.source_lease import Polled

# The choices of weft.catalog.sources, which other commands need not wait for (a test compares them).
KindOption = Annotated[
    Literal["csv", "jsonl", "parquet", "sqlite", "postgres", "changes"],
    typer.Option("--kind", help="What the source is.", show_default=False),
]
StampsOption = Annotated[
    Literal["clock", "file", "source"] | None,
    typer.Option("--ts", help="What dates a change: the home's clock (default), or the time of the file."),
]
TableOption = Annotated[
    str | None, typer.Option("--table", metavar="T", help="The table of the source, where it has several.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="COLS", help='The columns that are taken, with types where wanted ("id BIGINT, name").'),
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    source = typer.Typer(no_args_is_help=True, help="Track a source that keeps no history.")
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tracked table that is made.")],
    kind: KindOption,
    at: Annotated[str, typer.Option("--at", metavar="PLACE", help="Where it is: a path, or a URI.")],
    key: Annotated[
        str, typer.Option("--key", metavar="COLS", help="Columns that tell its rows apart, with commas between.")
    ],
    every: Annotated[str, typer.Option(metavar="10m", help="How often `weft run` polls it.")] = "10m",
    of: TableOption = None,
    columns: ColumnsOption = None,
    rename: RenameOption = None,
    ts: StampsOption = None,
    slot: Annotated[
        str | None, typer.Option(metavar="S", help="The replication slot of PostgreSQL (default: one that is made).")
    ] = None,
    publication: Annotated[
        str | None, typer.Option(metavar="P", help="The publication of PostgreSQL (default: one that is made).")
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Track a source as a table with a history; nothing is recorded before the first poll."""
    from weft.api.arguments import column_list

    how: dict[str, Any] = {"every": every, "ts": ts, "rename": rename, "table": of, "slot": slot}
    keys = [each.strip() for each in key.split(",") if each.strip()]
    with opened(home, create=True) as weft:
        chosen = None if columns is None else column_list(columns)
        place = at if "://" in at else str(terminal.path(Path(at)))
        found = weft.add_source(name, kind, place, keys, columns=chosen, publication=publication, **how)
        record = weft.catalog.tables.named(name)
    if json:
        say_json(_as_json(found))
        return
    named = typed((c.name, c.type) for c in record.schema.columns if c.name not in _PERIOD)
    say(f"{found.name} tracks {plain(found.location)}: {named}")
    say(f"  `weft source poll {found.name}` records what it holds now; `weft run` polls it every {_every(found)}.")


_PERIOD = ("valid_from", "valid_to")


def poll(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which sources (none: all).")] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add the source's new columns to the table.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="A source that is empty now has lost all its rows.")
    ] = False,
    bad_lines: Annotated[
        Literal["refuse", "quarantine"],
        typer.Option("--bad-lines", help="What becomes of lines of a feed that are no changes."),
    ] = "refuse",
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Record what has changed in sources since the last poll; one source's trouble does not stop the others."""
    from weft.errors import WeftError

    with opened(home) as weft:
        taken = {"evolve": evolve, "allow_empty": allow_empty, "bad_lines": bad_lines == "quarantine"}
        done = _polled(weft, names, {"now": now, **taken})
        try:
            maintained, kept = weft.keep_views(now=now), None
        except WeftError as error:  # what the polls recorded is told all the same
            maintained, kept = (), error
    if json:
        polled, followed = [_outcome(name, each) for name, each in done], [maintained_json(each) for each in maintained]
        say_json({"sources": polled, "views": followed})
    elif not done:
        say("There is no source yet. `weft source add NAME --kind csv --at PLACE --key COLS` makes one.")
    else:
        for name, each in done:
            _tell(name, each)
        tell_maintained(maintained)
    if kept is not None:
        raise kept
    if any(not _went_well(each) for _, each in done):
        raise typer.Exit(1)


def _polled(weft: Weft, names: list[str] | None, how: dict[str, Any]) -> list[tuple[str, Polled | WeftError]]:
    """What the polls of these sources (None: all) found; the trouble of the only one that is named is raised."""
    from weft.errors import ClockError, WeftError

    done: dict[str, Polled | WeftError] = {}
    for name in names or [each.name for each in weft.sources()]:
        found = next((each.name for each in weft.sources() if each.name.lower() == name.lower()), name)
        if found in done:
            continue
        try:
            with counting(f"polling {found}") as progress:
                done |= {each.name: each for each in weft.poll_feed(found, progress=progress, **how)}
        except ClockError:
            raise
        except WeftError as error:
            if names is not None and len(names) == 1:
                raise
            done[found] = error
    return list(done.items())


def _went_well(outcome: Polled | WeftError) -> bool:
    return not isinstance(outcome, Exception)


def _outcome(name: str, outcome: Polled | WeftError) -> dict[str, Any]:
    if isinstance(outcome, Exception):
        return {"name": name, "trouble": outcome.message, "hint": outcome.hint}
    return {
        "name": name,
        "began": outcome.began,
        "ended": outcome.ended,
        "rows": outcome.open_rows,
        "at": iso(outcome.at),
        "late": outcome.late,
        "quarantined": outcome.quarantined,
        "trouble": None,
    }


def _tell(name: str, outcome: Polled | WeftError) -> None:
    if isinstance(outcome, Exception):
        hint = f" {plain(outcome.hint)}" if outcome.hint else ""
        say(f"{name}: {plain(outcome.message)}.{hint}", style="yellow")
    elif outcome.at is None:
        say(f"{name}: nothing has changed, {counted(outcome.open_rows, 'row')}")
    else:
        counts = f"{outcome.began:,} began, {outcome.ended:,} ended, {counted(outcome.open_rows, 'row')} now"
        say(f"{name}: {counts}, at {instant(outcome.at)}")
    if not isinstance(outcome, Exception):
        _tell_asides(outcome)


def _tell_asides(outcome: Polled) -> None:
    """Prints what a poll did otherwise than the source had it."""
    if outcome.late:
        transactions = counted(outcome.late, "transaction")
        say(f"  Late: {transactions} got the earliest instant that was open, not their own time.")
    if outcome.quarantined:
        lines = "1 line is" if outcome.quarantined == 1 else f"{outcome.quarantined:,} lines are"
        say(f"  {lines} in quarantine: no changes. `weft quarantine list` shows them.")


def history(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, JSON lines or Parquet file.")],
    ts_from: Annotated[str, typer.Option("--ts-from", metavar="COL", help="The column that dates each row.")],
    op: Annotated[
        str | None,
        typer.Option(metavar="COL", help="The rows are changes, and this column says D of one that ended."),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Load what is known of a source's past: all its rows at several instants, or dated changes."""
    file = terminal.path(path)
    with opened(home) as weft, counting(f"loading {path.name}") as progress:
        done = weft.load_past(name, file, ts_from, op=op, progress=progress)
    if json:
        counts = {"name": done.name, "began": done.began, "ended": done.ended, "already_loaded": done.already}
        say_json({**counts, "first_ts": iso(done.first), "last_ts": iso(done.last)})
    elif done.already:
        say(f"{done.name}: this very file was loaded before; nothing was recorded again.")
    elif done.first is None:
        say(f"{done.name}: the file says nothing new.")
    else:
        span = f"from {instant(done.first)} to {instant(done.last)}"
        say(f"{done.name}: {done.began:,} began, {done.ended:,} ended, {span}")


def sources(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the sources: what they are, and how their last poll went."""
    with opened(home) as weft:
        found = weft.sources()
        keys = {each.table_id: each.keys for each in weft.tables()}
    if json:
        say_json([{**_as_json(each), "key": keys[each.table_id]} for each in found])
    elif not found:
        say("There is no source yet. `weft source add NAME --kind csv --at PLACE --key COLS` makes one.")
    else:
        rows = [
            (
                each.name,
                each.kind,
                ", ".join(keys[each.table_id]),
                f"{each.open_rows:,}",
                "never" if each.polled_at is None else moment(each.polled_at),
                instant(each.changed_at),
                plain(each.trouble or ""),
            )
            for each in found
        ]
        table(("source", "kind", "key", "rows", "last poll", "last change", "trouble"), rows, right=(3,))


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show a source: where it is, its columns, and how its last poll went."""
    with opened(home) as weft:
        found = weft.catalog.sources.named(name)
        record = weft.catalog.tables.by_id(found.table_id)
    columns = [each for each in record.schema.columns if each.name not in _PERIOD]
    if json:
        told = [{"name": each.name, "type": each.type.declared} for each in columns]
        say_json({**_as_json(found), "key": record.keys, "columns": told, "changes": record.rows})
        return
    say(f"{found.name} tracks {plain(found.location)} ({found.kind}), polled every {_every(found)}")
    say(f"  key {', '.join(record.keys)}; dated by {_STAMPS[found.stamps]}")
    say(f"  {counted(found.open_rows, 'row')} now, {record.rows:,} begins and ends recorded")
    say(f"  last poll {instant(found.polled_at, 'never')}, last change {instant(found.changed_at, 'never')}")
    if found.trouble is not None:
        say(f"  trouble: {plain(found.trouble)}", style="yellow")
    table(("column", "type"), [(each.name, each.type.declared) for each in columns])


_STAMPS = {"clock": "the home's clock", "file": "the time of the file", "source": "the source's own time of the change"}


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Forget a source; its tracked table stays, with all that was recorded."""
    with opened(home) as weft:
        found, left = weft.remove_source(name)
    if json:
        say_json({"name": found.name, "removed": True, "left": left})
        return
    say(f"{found.name} is polled no more; its table stays as it is.")
    if left is not None:
        say(f"  {plain(left)}", style="yellow")


def _every(source: SourceRecord) -> str:
    from weft.instants import format_interval

    return format_interval(source.every_us)


def _as_json(source: SourceRecord) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind,
        "at": source.location,
        "every": _every(source),
        "ts": source.stamps,
        "rows": source.open_rows,
        "last_poll": iso(source.polled_at),
        "last_change": iso(source.changed_at),
        "trouble": source.trouble,
    }


def tell_polled(weft: Weft, json: bool, outcome: Polled) -> None:
    """Prints what a poll of ``weft run`` recorded, with what came late; nothing where nothing has changed."""
    if outcome.at is None:
        return
    if json:
        say_json({"ticks": [], "delivered": [], "polled": _outcome(outcome.name, outcome)}, lines=True)
    else:
        say(f"{instant(weft.clock())}  {outcome.name}: {outcome.began:,} began, {outcome.ended:,} ended")
        _tell_asides(outcome)
