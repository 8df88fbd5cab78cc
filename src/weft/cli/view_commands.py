"""The commands ``view`` (add, refresh, explain, show, remove) and ``views``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.api.json.views import refreshed_json, shown_view_json, view_explanation_json, view_json
from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import (
    echo,
    instant,
    lines,
    plain,
    print_json,
    print_list,
    print_result,
    size,
    table,
    typed,
    working,
)
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.api.viewing import ShownView
    from weft.execution.temporal.refresh_views import Refreshed
    from weft.execution.temporal.showing import ShownAuxiliary
    from weft.planning.view_plan_words import ViewExplanation

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The view.")]
NONE_YET = 'No views yet. Add a view: weft view add NAME "SELECT …"'


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    view = typer.Typer(
        no_args_is_help=True, help="Maintain temporal views: answers with the periods in which they held."
    )
    view.command(
        "add",
        epilog=example(
            "weft view add devs \"SELECT id, name FROM employees WHERE dept = 'Development'\"",
            'weft view add heads "SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept" --batched',
        ),
    )(add)
    view.command("refresh", epilog=example("weft view refresh", "weft view refresh devs"))(refresh)
    view.command("explain", epilog=example("weft view explain devs"))(explain)
    view.command("show", epilog=example("weft view show devs"))(show)
    view.command("remove", epilog=example("weft view remove devs"))(remove)
    app.add_typer(view, name="view", epilog=example("weft view refresh"))
    app.command(epilog=example("weft views"))(views)


def add(
    name: NameArgument,
    sql: SqlArgument = None,
    file: FileOption = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="Refresh the view when it is read, not after each poll.")
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Add a temporal view over tracked tables and other views, starting with their recorded history."""
    text = query_text(sql, file)
    with opened(home) as weft:
        view = weft.add_view(name, text, batched=batched)
        columns, warnings = weft.show_view(name).columns, weft.warnings_of_view(name)
    if json:
        print_json({**view_json(view), "warnings": list(warnings)})
        return
    echo(f"Added the view {view.name}: {typed(columns)}")
    when = "it is read" if batched else "a poll changes a table of the view"
    echo(f"  The view is refreshed when {when}, or by `weft view refresh {view.name}`.")
    for warning in warnings:
        echo(f"WARNING: {warning}.", style="yellow")


def refresh(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The views (default: all).")] = None,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Refresh views: apply the changes of what they read, and the passing of time."""
    with opened(home) as weft, working("refreshing"):
        outcomes = weft.refresh_views(names or (), now=now)
        any_view = bool(weft.views())
    if json:
        print_json([refreshed_json(each) for each in outcomes])
    elif not outcomes:
        echo("Every view is current." if any_view else NONE_YET)
    else:
        print_refreshed(outcomes)
    if any(each.trouble is not None for each in outcomes):
        raise typer.Exit(1)


def print_refreshed(outcomes: Iterable[Refreshed]) -> None:
    """Print the outcomes of refreshes, one on each line."""
    for each in outcomes:
        if each.trouble is not None:
            hint = f" {plain(each.trouble.hint)}" if each.trouble.hint else ""
            echo(f"{each.name}: {plain(each.trouble.message)}.{hint}", style="yellow")
        elif each.changed or each.gone:
            gone = f", {each.gone:,} removed" if each.gone else ""
            echo(f"{each.name}: {counted(each.changed, 'period')} added or changed{gone}, at {instant(each.t)}")
        else:
            echo(f"{each.name}: no change, at {instant(each.t)}")


def explain(
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Show everything: what is computed, and why.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what changes a view, and whether time alone does; with --full, how it is maintained."""
    with opened(home) as weft:
        explanation = weft.explain_view(name)
    print_view(explanation, full=full, json=json)


def print_view(explanation: ViewExplanation, *, full: bool, json: bool) -> None:
    """Print the explanation of a view."""
    if json:
        print_json(view_explanation_json(explanation))
        return
    if not full:
        echo(lines("\n".join(explanation.brief)))
        return
    for line in explanation.view:
        echo(line)
    for alias, table_name in explanation.sources:
        echo(f"  {alias} is {table_name}")
    for part, text in explanation.parts:
        echo(f"  {part} is the auxiliary view {plain(text)}")
    for each in explanation.events:
        echo("")
        echo(each.event, style="bold")
        for line in each.lines:
            echo(f"  {line}")


def views(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the temporal views: their queries, and when each was last refreshed."""
    with opened(home) as weft:
        listed = weft.views()
    rows = (
        (
            each.name,
            each.mode,
            instant(each.tau, "not yet (when it is read)" if each.mode == "batched" else "not yet"),
            plain(each.trouble or ""),
            plain(each.sql),
        )
        for each in listed
    )
    print_list(json, map(view_json, listed), NONE_YET, ("view", "mode", "refreshed at", "error", "query"), rows)


def show(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show a view: its query, its columns, what it reads, what reads it, and its size."""
    with opened(home) as weft:
        shown = weft.show_view(name)
    view = shown.view
    if json:
        print_json(shown_view_json(shown))
        return
    echo(lines(view.sql.strip()))
    echo(f"  reads {', '.join(shown.reads)}" + (f"; read by {', '.join(shown.readers)}" if shown.readers else ""))
    echo(f"  {view.mode}, last refreshed {instant(view.tau, 'never')}")
    echo(f"  {_size(shown)}")
    if view.trouble is not None:
        echo(f"  error: {plain(view.trouble)}", style="yellow")
    for each in shown.auxiliaries:
        echo(f"  auxiliary view of {each.of}: {plain(each.sql)}")
        echo(f"    {_size(each)}")
        echo(f"    shared with {', '.join(each.shared) or 'no other view'}")
    for what, choice in shown.next_refreshes:
        echo(f"  {choice.sentence(what)}")
    table(("column", "type"), [(column, type_.declared) for column, type_ in shown.columns])


def _size(shown: ShownView | ShownAuxiliary) -> str:
    periods, changes = counted(shown.periods, "period"), counted(shown.recorded, "change")
    return f"{periods}, {shown.open:,} of them open; {changes} in {size(shown.size)}"


def remove(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Remove a view with all its recorded periods; refused while a view or query reads it."""
    with opened(home) as weft:
        removed = weft.remove_view(name)
    print_result(json, {"name": removed.name, "removed": True}, f"Removed the view {removed.name}.")
