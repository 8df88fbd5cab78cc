"""The commands ``loads list`` and ``loads undo``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weft.api.json.loads import load_json, undone_json
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, instant, moment, plain, print_json, print_list
from weft.printable import counted


class _ListByDefault(TyperGroup):
    """A group whose default command is ``list``: ``weft loads TABLE`` means ``weft loads list TABLE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``list`` before arguments that do not begin with a command."""
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    loads = typer.Typer(cls=_ListByDefault, help="List loads, or undo one.")
    loads.command("list", epilog=example("weft loads orders"))(list_loads)
    loads.command("undo", epilog=example("weft loads undo 3"))(undo)
    app.add_typer(loads, name="loads", epilog=example("weft loads", "weft loads undo 3"))


def list_loads(
    name: Annotated[str | None, typer.Argument(metavar="TABLE", help="Show only the loads of this table.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show the latest N loads.")] = 20,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the latest loads: table, time, source, rows, range of ts, and state."""
    with opened(home) as weft:
        loads = weft.loads(name, limit)
    rows = (
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
        for each in loads
    )
    columns = ("id", "table", "when", "from", "rows", "first ts", "last ts", "state")
    print_list(json, map(load_json, loads), "No loads yet.", columns, rows, right=(0, 4))


def undo(
    load_id: Annotated[int, typer.Argument(metavar="ID", help="The id of the load, from `weft loads`.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the rows and quarantined records of a load, if nothing has been answered from them."""
    with opened(home) as weft:
        undone = weft.undo_load(load_id)
    if json:
        print_json(undone_json(undone))
        return
    echo(f"{undone.load.table}: load {load_id} is undone, {counted(undone.load.rows, 'row')} removed.")
    for each in undone.again:
        known = counted(each.load.known, "row")
        echo(f"  Load {each.load.load_id} skipped {known} because the table already had the same rows.")
        echo(f"    If load {load_id} had stored these rows, load {plain(each.load.source)} again.")
