"""try, backtest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import instant, iso, say, say_json, shown, table, working_on_spark
from weft.cli.queries import LanguageName, LanguageOption
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weft.api.weft import Weft
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest

Found = TypeVar("Found")

_BARS: Final = "▁▂▃▄▅▆▇█"


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(
        "try", epilog=example("weft try \"SELECT msgid, subject FROM msgs WHERE newsgroup = 'comp.databases'\"")
    )(try_query)
    app.command(
        epilog=example('weft backtest "SELECT msgid FROM msgs WHERE ts < NOW() - INTERVAL 4 WEEKS" --from 1993-05-03')
    )(backtest)


def try_query(
    sql: SqlArgument = None,
    file: FileOption = None,
    now: Annotated[
        str | None, typer.Option(metavar="T", help="NOW() in the query, ISO 8601 (default: the home's clock).")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many rows to show (0: all).")] = 20,
    language: LanguageOption = LanguageName.sql,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Run a query now, as if the database were fixed: its distinct rows, their count, the time it took."""
    _require_sql(language, "try")
    text = query_text(sql, file)
    answer, seconds = _asked(home, lambda weft: weft.try_query(text, now=now, limit=limit or None))
    _tell(answer, seconds, json)


def _require_sql(language: LanguageName, command: str) -> None:
    if language is not LanguageName.sql:
        raise Refused(
            f"`weft {command}` answers SQL, and this is a formula in {language.value}",
            hint=f"Install it: `weft install NAME … --language {language.value}`; the first `weft tick` answers it at "
            "every state of the stored history. `weft monitor` answers it along a log in a file, and needs no home. "
            f"`weft explain … --language {language.value}` checks it.",
        )


def _asked(home: Path | None, ask: Callable[[Weft], Found]) -> tuple[Found, float]:
    """What a question to the home gives, and how many seconds it took; Ctrl-C stops Spark's jobs."""
    began = time.monotonic()
    with opened(home) as weft, working_on_spark("asking"):
        from weft.runtime.cancelling import cancellable

        with cancellable(weft.session):
            found = ask(weft)
    return found, time.monotonic() - began


def _tell(answer: Answer, seconds: float, json: bool) -> None:
    names = [name for name, _ in answer.columns]
    if json:
        from weft.delivery.rendering import json_object

        say_json(
            {
                "columns": [{"name": name, "type": kind.declared} for name, kind in answer.columns],
                "rows": [json_object(answer.columns, row) for row in answer.rows],
                "count": answer.count,
                "now": iso(answer.at),
                "seconds": round(seconds, 3),
            }
        )
        return
    if answer.rows:
        table(names, [[shown(value) for value in row] for row in answer.rows], answers=True)
    rest = f", {len(answer.rows):,} shown" if len(answer.rows) < answer.count else ""
    say(f"{counted(answer.count, 'row')}{rest}, as of {instant(answer.at)}, in {seconds:.1f} s")


def backtest(
    sql: SqlArgument = None,
    file: FileOption = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="A", help="As if installed at A (default: standing from the start)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="B", help="The first instant after it (default: the home's clock).")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many answers to show (0: all).")] = 20,
    language: LanguageOption = LanguageName.sql,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Tell what a query would have delivered, and when, had it stood; nothing is installed or kept."""
    _require_sql(language, "backtest")
    text = query_text(sql, file)
    found, seconds = _asked(home, lambda weft: weft.backtest(text, since=since, until=until, limit=limit or None))
    _tell_backtest(found, seconds, json)


def _tell_backtest(found: Backtest, seconds: float, json: bool) -> None:
    names = [name for name, _ in found.columns]
    if json:
        from weft.delivery.rendering import json_object

        say_json(
            {
                "columns": [{"name": name, "type": kind.declared} for name, kind in found.columns],
                "answers": [{"_first_at": iso(at), **json_object(found.columns, row)} for at, row in found.answers],
                "count": found.count,
                "from": iso(found.since),
                "to": iso(found.until),
                "timeline": {"from": iso(found.begin), "to": iso(found.until), "counts": list(found.counts)},
                "seconds": round(seconds, 3),
                **({} if found.nothing is None else {"nothing": found.nothing}),
            }
        )
        return
    if found.answers:
        table(("_first_at", *names), [[instant(at), *map(shown, row)] for at, row in found.answers], answers=True)
        say(f"{instant(found.begin)}  {bars(found.counts)}  {instant(found.until)}")
    rest = f", {len(found.answers):,} shown" if len(found.answers) < found.count else ""
    since = "from the start" if found.since is None else f"from {instant(found.since)}"
    say(f"{counted(found.count, 'answer')}{rest}, {since}, before {instant(found.until)}, in {seconds:.1f} s")
    if found.nothing is not None:
        say(found.nothing)


def bars(counts: Sequence[int]) -> str:
    """Numbers as bars of one character each, the greatest as high as a line; nothing is a dot.

    >>> bars([0, 1, 4, 8])
    '·▁▄█'
    """
    most = max(counts, default=0)
    return "".join("·" if not each else _BARS[-(-each * len(_BARS) // most) - 1] for each in counts)
