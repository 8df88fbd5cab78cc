"""view add, refresh, explain, show, remove; views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import instant, iso, lines, plain, say, say_json, size, table, typed, working
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.api.viewing import ShownView
    from weft.catalog.views import ViewRecord
    from weft.execution.temporal.refresh_views import Refreshed
    from weft.execution.temporal.showing import ShownAuxiliary
    from weft.planning.view_plan_words import ViewExplanation

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The view.")]
NONE_YET = 'There is no view yet. `weft view add NAME "SELECT …"` keeps one.'


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    view = typer.Typer(no_args_is_help=True, help="Keep temporal views: answers with the periods in which they held.")
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
        bool, typer.Option("--batched", help="Maintain it when it is read or refreshed, not after each poll.")
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Keep a temporal view over tracked tables and other views, from the history that is recorded already."""
    text = query_text(sql, file)
    with opened(home) as weft:
        found = weft.add_view(name, text, batched=batched)
        columns, warnings = weft.show_view(name).columns, weft.warnings_of_view(name)
    if json:
        say_json({**_as_json(found), "warnings": list(warnings)})
        return
    say(f"{found.name} is kept: {typed(columns)}")
    when = "it is read or refreshed" if batched else "a poll has changed what it reads"
    say(f"  It is maintained when {when}; `weft view refresh {found.name}` does so now.")
    for warning in warnings:
        say(f"WARNING: {warning}.", style="yellow")


def refresh(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which views (none: all).")] = None,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Maintain views: what has changed in what they read, and what the passing of time does to them."""
    with opened(home) as weft, working("maintaining"):
        done = weft.refresh_views(names or (), now=now)
        any_view = bool(weft.views())
    if json:
        say_json([maintained_json(each) for each in done])
    elif not done:
        say("Every view is current." if any_view else NONE_YET)
    else:
        tell_maintained(done)
    if any(each.trouble is not None for each in done):
        raise typer.Exit(1)


def maintained_json(done: Refreshed) -> dict[str, Any]:
    """What a maintenance did, as JSON has it."""
    trouble = done.trouble
    return {
        "name": done.name,
        "at": iso(done.t),
        "changed": done.changed,
        "gone": done.gone,
        "trouble": None if trouble is None else trouble.message,
    }


def tell_maintained(done: Iterable[Refreshed]) -> None:
    """Prints what maintenances did, a line each."""
    for each in done:
        if each.trouble is not None:
            hint = f" {plain(each.trouble.hint)}" if each.trouble.hint else ""
            say(f"{each.name}: {plain(each.trouble.message)}.{hint}", style="yellow")
        elif each.changed or each.gone:
            gone = f", {each.gone:,} gone" if each.gone else ""
            say(f"{each.name}: {counted(each.changed, 'period')} new or with another end{gone}, at {instant(each.t)}")
        else:
            say(f"{each.name}: nothing has changed, at {instant(each.t)}")


def explain(
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Show all of it: what is computed, and why.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what changes a view, and whether time alone does; in full, how it is maintained."""
    with opened(home) as weft:
        found = weft.explain_view(name)
    tell_view(found, full=full, json=json)


def tell_view(found: ViewExplanation, *, full: bool, json: bool) -> None:
    """Prints the explanation of a view."""
    if json:
        say_json(
            {
                "view": found.view,
                "reads": [{"as": alias, "table": table_name} for alias, table_name in found.sources],
                "auxiliaries": [{"name": part, "sql": text} for part, text in found.parts],
                "events": [{"event": each.event, "lines": each.lines} for each in found.events],
                "brief": list(found.brief),
            }
        )
        return
    if not full:
        say(lines("\n".join(found.brief)))
        return
    for line in found.view:
        say(line)
    for alias, table_name in found.sources:
        say(f"  {alias} is {table_name}")
    for part, text in found.parts:
        say(f"  {part} is the auxiliary view {plain(text)}")
    for each in found.events:
        say("")
        say(each.event, style="bold")
        for line in each.lines:
            say(f"  {line}")


def views(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the temporal views: what each is, and up to when it has been maintained."""
    with opened(home) as weft:
        found = weft.views()
    if json:
        say_json([_as_json(each) for each in found])
    elif not found:
        say(NONE_YET)
    else:
        rows = [
            (
                each.name,
                each.mode,
                instant(each.tau, "not yet: when it is read"),
                plain(each.trouble or ""),
                plain(each.sql),
            )
            for each in found
        ]
        table(("view", "mode", "maintained at", "trouble", "query"), rows)


def show(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show a view: its query, its columns, what it reads and what reads it, and how much is kept of it."""
    with opened(home) as weft:
        shown = weft.show_view(name)
    view = shown.view
    if json:
        columns = [{"name": column, "type": type_.declared} for column, type_ in shown.columns]
        counts = {"periods": shown.periods, "open": shown.open, "recorded": shown.recorded, "bytes": shown.size}
        named = {"reads": shown.reads, "read_by": shown.readers, "auxiliaries": list(map(_part, shown.auxiliaries))}
        say_json({**_as_json(view), "columns": columns, **named, **counts})
        return
    say(lines(view.sql.strip()))
    say(f"  reads {', '.join(shown.reads)}" + (f"; read by {', '.join(shown.readers)}" if shown.readers else ""))
    say(f"  {view.mode}, maintained at {instant(view.tau, 'no instant yet')}")
    say(f"  {_kept(shown)}")
    if view.trouble is not None:
        say(f"  trouble: {plain(view.trouble)}", style="yellow")
    for each in shown.auxiliaries:
        say(f"  of {each.of} it keeps the auxiliary view {plain(each.sql)}")
        say(f"    {_kept(each)}")
        say(f"    shared with {', '.join(each.shared) or 'no other view'}")
    table(("column", "type"), [(column, type_.declared) for column, type_ in shown.columns])


def _kept(found: ShownView | ShownAuxiliary) -> str:
    """How much is kept of a view or of an auxiliary one."""
    periods, changes = counted(found.periods, "period"), counted(found.recorded, "change")
    return f"{periods}, {found.open:,} of them open; {changes} in {size(found.size)}"


def remove(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Take a view away with all that was recorded of it; refused while something reads it."""
    with opened(home) as weft:
        found = weft.remove_view(name)
    if json:
        say_json({"name": found.name, "removed": True})
    else:
        say(f"{found.name} is kept no more.")


def _part(part: ShownAuxiliary) -> dict[str, Any]:
    counts = {"periods": part.periods, "open": part.open, "recorded": part.recorded, "bytes": part.size}
    return {"name": part.name, "of": part.of, "sql": part.sql, "shared_with": part.shared, **counts}


def _as_json(view: ViewRecord) -> dict[str, Any]:
    return {
        "name": view.name,
        "sql": view.sql,
        "mode": view.mode,
        "maintained_at": iso(view.tau),
        "added_at": iso(view.added_at),
        "trouble": view.trouble,
    }
