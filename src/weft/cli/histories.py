"""history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import instant, iso, say, say_json, screen, shown, table, working_on_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.delivery.timeline import Bar
    from weft.execution.histories import History, Stretch

_NARROWEST = 12
_WIDEST = 60
_GAP = 3
"""Characters between two columns of a table."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=example("weft history employees --where \"dept = 'Development'\""))(history)


def history(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The tracked table.")],
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Only the periods for which this SQL condition holds.")
    ] = None,
    known: Annotated[str | None, typer.Option(metavar="T", help="As it was known at this instant, ISO 8601.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many periods to show (0: all).")] = 50,
    format_: Annotated[
        Literal["table", "json", "csv", "svg", "html"], typer.Option("--format", help="How they are shown.")
    ] = "table",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Draw what a source had when: the periods of a tracked table, by key, along a line of time."""
    with opened(home) as weft:
        if where is None:
            found = weft.history(name, known=known, limit=limit or None)
        else:
            with working_on_spark("asking"):
                found = weft.history(name, where=where, known=known, limit=limit or None)
    if json or format_ == "json":
        _tell_json(found)
    elif format_ == "table":
        _draw(found)
    else:
        out = terminal.out()
        out.write(_csv(found) if format_ == "csv" else _page(found, format_))
        out.flush()


def _names(found: History) -> list[str]:
    return [name for name, _ in found.columns]


def _bars(found: History) -> list[Bar]:
    from weft.delivery.timeline import Bar

    return [Bar(", ".join(map(shown, each.values)), each.begin, each.end) for each in found.stretches]


def _draw(found: History) -> None:
    from weft.delivery.timeline import Span, cells

    if not found.stretches:
        say(f"{found.name}: there is no such period.")
        return
    bars = _bars(found)
    span = Span.of(bars, found.at)
    shifted = (None, *found.stretches[:-1])
    texts = [_texts(each, before, found.keys) for each, before in zip(found.stretches, shifted, strict=True)]
    width = _width([[*_names(found), "from", "to"], *texts])
    rows = [(*each[:-2], cells(bar, span, width), *each[-2:]) for each, bar in zip(texts, bars, strict=True)]
    say(f"{found.name}: the line goes from {instant(span.first)} to {instant(span.last)}")
    table((*_names(found), "", "from", "to"), rows, answers=True)
    if len(rows) < found.count:
        say(f"{found.count:,} periods, {len(rows):,} shown; --limit 0 shows all.")


def _texts(each: Stretch, before: Stretch | None, keys: int) -> list[str]:
    """The cells of a period but its bar; a key that the one before has, too, stands there only."""
    repeated = before is not None and before.values[:keys] == each.values[:keys]
    texts = ["" if repeated and n < keys else shown(value) for n, value in enumerate(each.values)]
    return [*texts, instant(each.begin), instant(each.end, "now")]


def _width(rows: Sequence[Sequence[str]]) -> int:
    """How much room the terminal leaves for the bars beside these cells."""
    taken = sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True))
    return min(max(screen().width - taken - _GAP, _NARROWEST), _WIDEST)


def _tell_json(found: History) -> None:
    from weft.delivery.rendering import json_object

    told = [
        {
            **json_object(found.columns, each.values),
            "valid_from": iso(each.begin),
            "valid_to": iso(each.end),
        }
        for each in found.stretches
    ]
    say_json({"table": found.name, "now": iso(found.at), "count": found.count, "periods": told})


def _csv(found: History) -> str:
    from weft.delivery.rendering import csv_cells

    lines = [csv_cells([*_names(found), "valid_from", "valid_to"])]
    lines += [csv_cells([*each.values, iso(each.begin), iso(each.end)]) for each in found.stretches]
    return "".join(lines)


def _page(found: History, form: str) -> str:
    from weft.delivery.timeline import html, svg

    if form == "svg":
        return svg(found.name, _bars(found), found.at)
    rows = [[*map(shown, each.values), instant(each.begin), instant(each.end, "now")] for each in found.stretches]
    return html(found.name, _bars(found), [*_names(found), "from", "to"], rows, found.at)
