"""The command ``history``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.api.json.tables import history_json
from weft.api.json.values import iso
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, instant, print_json, screen, shown, table, working_on_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.delivery.timeline import Bar
    from weft.execution.histories import History, Stretch

_NARROWEST = 12
_WIDEST = 60
_GAP = 3


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(epilog=example("weft history employees --where \"dept = 'Development'\""))(history)


def history(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The tracked table or view.")],
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Show only the periods that satisfy this SQL condition.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(metavar="T", help="Show the history as known at this instant, ISO 8601.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The most periods to show (0: all).")] = 50,
    format_: Annotated[
        Literal["table", "json", "csv", "svg", "html"], typer.Option("--format", help="The output format.")
    ] = "table",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Draw the periods of a tracked table or view on a time line, by key."""
    with opened(home) as weft:
        if where is None:
            periods = weft.history(name, known=known, limit=limit or None)
        else:
            with working_on_spark("asking"):
                periods = weft.history(name, where=where, known=known, limit=limit or None)
    if json or format_ == "json":
        print_json(history_json(periods))
    elif format_ == "table":
        _print_table(periods)
    else:
        out = terminal.out()
        out.write(_csv(periods) if format_ == "csv" else _page(periods, format_))
        out.flush()


def _names(periods: History) -> list[str]:
    return [name for name, _ in periods.columns]


def _bars(periods: History) -> list[Bar]:
    from weft.delivery.timeline import Bar

    return [Bar(", ".join(map(shown, each.values)), each.begin, each.end) for each in periods.stretches]


def _print_table(history: History) -> None:
    from weft.delivery.timeline import Span, cells

    if not history.stretches:
        echo(f"{history.name}: no such period.")
        return
    bars = _bars(history)
    span = Span.of(bars, history.at)
    shifted = (None, *history.stretches[:-1])
    texts = [_texts(each, before, history.keys) for each, before in zip(history.stretches, shifted, strict=True)]
    width = _width([[*_names(history), "from", "to"], *texts])
    rows = [(*each[:-2], cells(bar, span, width), *each[-2:]) for each, bar in zip(texts, bars, strict=True)]
    echo(f"{history.name}: the time line is from {instant(span.first)} to {instant(span.last)}")
    table((*_names(history), "", "from", "to"), rows, answers=True)
    if len(rows) < history.count:
        echo(f"{history.count:,} periods, {len(rows):,} shown; --limit 0 shows all.")


def _texts(each: Stretch, before: Stretch | None, keys: int) -> list[str]:
    repeated = before is not None and before.values[:keys] == each.values[:keys]
    texts = ["" if repeated and n < keys else shown(value) for n, value in enumerate(each.values)]
    return [*texts, instant(each.begin), instant(each.end, "now")]


def _width(rows: Sequence[Sequence[str]]) -> int:
    used = sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True))
    return min(max(screen().width - used - _GAP, _NARROWEST), _WIDEST)


def _csv(history: History) -> str:
    from weft.delivery.rendering import csv_cells

    lines = [csv_cells([*_names(history), "valid_from", "valid_to"])]
    lines += [csv_cells([*each.values, iso(each.begin), iso(each.end)]) for each in history.stretches]
    return "".join(lines)


def _page(history: History, form: str) -> str:
    from weft.delivery.timeline import html, svg

    if form == "svg":
        return svg(history.name, _bars(history), history.at)
    rows = [[*map(shown, each.values), instant(each.begin), instant(each.end, "now")] for each in history.stretches]
    return html(history.name, _bars(history), [*_names(history), "from", "to"], rows, history.at)
