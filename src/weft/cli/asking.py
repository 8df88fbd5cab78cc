"""try."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import counted, instant, iso, say, say_json, shown, table, working_on_spark

if TYPE_CHECKING:
    from weft.execution.ad_hoc import Answer


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(
        "try", epilog=example("weft try \"SELECT msgid, subject FROM msgs WHERE newsgroup = 'comp.databases'\"")
    )(try_query)


def try_query(
    sql: SqlArgument = None,
    file: FileOption = None,
    now: Annotated[
        str | None, typer.Option(metavar="T", help="NOW() in the query, ISO 8601 (default: the home's clock).")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many rows to show (0: all).")] = 20,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Run a query now, as if the database were fixed: its distinct rows, their count, the time it took."""
    text = query_text(sql, file)
    began = time.monotonic()
    with opened(home) as weft, working_on_spark("asking"):
        from weft.runtime.cancelling import cancellable

        with cancellable(weft.session):
            answer = weft.try_query(text, now=now, limit=limit or None)
    _tell(answer, time.monotonic() - began, json)


def _tell(answer: Answer, seconds: float, json: bool) -> None:
    names = [name for name, _ in answer.columns]
    if json:
        from weft.delivery.rendering import json_value

        say_json(
            {
                "columns": [{"name": name, "type": str(type_)} for name, type_ in answer.columns],
                "rows": [dict(zip(names, map(json_value, row), strict=True)) for row in answer.rows],
                "count": answer.count,
                "now": iso(answer.at),
                "seconds": round(seconds, 3),
            }
        )
        return
    if answer.rows:
        table(names, [[shown(value) for value in row] for row in answer.rows])
    rest = f", {len(answer.rows):,} shown" if len(answer.rows) < answer.count else ""
    say(f"{counted(answer.count, 'row')}{rest}, as of {instant(answer.at)}, in {seconds:.1f} s")
