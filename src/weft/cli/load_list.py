"""loads list, loads undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import instant, iso, moment, plain, say, say_json, table
from weft.printable import counted

if TYPE_CHECKING:
    from weft.catalog.load_history import LoadSummary


class _ListedUnlessTold(TyperGroup):
    """``weft loads`` and ``weft loads TABLE`` are ``weft loads list``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts ``list`` before what names no command."""
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    loads = typer.Typer(cls=_ListedUnlessTold, help="What was loaded, and taking it back.")
    loads.command("list", epilog=example("weft loads orders"))(listed)
    loads.command("undo", epilog=example("weft loads undo 3"))(undo)
    app.add_typer(loads, name="loads", epilog=example("weft loads", "weft loads undo 3"))


def listed(
    name: Annotated[str | None, typer.Argument(metavar="TABLE", help="Only loads into this table.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many of the latest.")] = 20,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the latest loads: into which table, when, from what, rows, instants, and what became of each."""
    with opened(home) as weft:
        found = weft.loads(name, limit)
    if json:
        say_json([_as_json(each) for each in found])
    elif not found:
        say("Nothing was loaded yet.")
    else:
        rows = [
            (
                str(each.load.load_id),
                each.table,
                moment(each.load.started_at),
                plain(each.load.source.replace(f"{terminal.folder()}/", "")),
                f"{each.rows:,}",
                instant(each.first_ts),
                instant(each.last_ts),
                each.state,
            )
            for each in found
        ]
        table(("id", "table", "when", "from", "rows", "first ts", "last ts", "state"), rows, right=(0, 4))


def undo(
    load_id: Annotated[int, typer.Argument(metavar="ID", help="The load, as `weft loads` numbers it.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Take out what a load has stored and put in quarantine, while nothing has been answered from it."""
    with opened(home) as weft:
        done = weft.undo_load(load_id)
    if json:
        again = [each.load.load_id for each in done.again]
        say_json({**_as_json(done.load), "state": "undone", "load_again": again})
        return
    say(f"{done.load.table}: {counted(done.load.rows, 'row')} taken out, load {load_id} is undone.")
    for each in done.again:
        known = counted(each.load.known, "row")
        say(f"  Load {each.load.load_id} knew {known}, perhaps some of these: load {plain(each.load.source)} again.")


def _as_json(told: LoadSummary) -> dict[str, Any]:
    load = told.load
    return {
        "id": load.load_id,
        "table": told.table,
        "kind": load.kind,
        "source": load.source,
        "started_at": iso(load.started_at),
        "finished_at": iso(load.finished_at),
        "rows": told.rows,
        "known": load.known,
        "quarantined": load.quarantined,
        "late": load.late,
        "first_ts": iso(told.first_ts),
        "last_ts": iso(told.last_ts),
        "state": told.state,
    }
