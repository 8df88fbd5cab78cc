"""The commands ``try`` and ``backtest``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from weft.api.json.answers import backtest_json, tried_json
from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import echo, instant, print_json, shown, table, working_on_spark
from weft.cli.queries import DialectOption, LanguageName, LanguageOption
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weft.api.weft import Weft
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest

T = TypeVar("T")

_BARS: Final = "▁▂▃▄▅▆▇█"


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
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
        str | None, typer.Option(metavar="T", help="The value of NOW(), ISO 8601 (default: the home's clock).")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The most rows to show (0: all).")] = 20,
    language: LanguageOption = LanguageName.sql,
    dialect: DialectOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Run a query once, on the present data: show its distinct rows, their count, and the time it took."""
    _require_sql(language, "try")
    text, named = query_text(sql, file), None if dialect is None else dialect.value
    answer, seconds = _timed(home, lambda weft: weft.try_query(text, now=now, limit=limit or None, dialect=named))
    _print_answer(answer, seconds, json)


def _require_sql(language: LanguageName, command: str) -> None:
    if language is not LanguageName.sql:
        raise Refused(
            f"`weft {command}` evaluates SQL, but this is a formula in {language.value}",
            hint=(
                f"Install the formula: `weft install NAME … --language {language.value}`; the first `weft tick` "
                "evaluates it at every state of the stored history. `weft monitor` evaluates a formula over a "
                f"log in a file, without a home. `weft explain … --language {language.value}` checks a formula."
            ),
        )


def _timed(home: Path | None, ask: Callable[[Weft], T]) -> tuple[T, float]:
    began = time.monotonic()
    with opened(home) as weft, working_on_spark("asking"):
        result = ask(weft)
    return result, time.monotonic() - began


def _print_answer(answer: Answer, seconds: float, json: bool) -> None:
    names = [name for name, _ in answer.columns]
    if json:
        print_json(tried_json(answer, seconds))
        return
    if answer.rows:
        table(names, [[shown(value) for value in row] for row in answer.rows], answers=True)
    rest = f", {len(answer.rows):,} shown" if len(answer.rows) < answer.count else ""
    echo(f"{counted(answer.count, 'row')}{rest}, as of {instant(answer.at)}, in {seconds:.1f} s")


def backtest(
    sql: SqlArgument = None,
    file: FileOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="A",
            help=(
                "Evaluate the query as if it was installed at A, with new answers only (default: installed at "
                "the start)."
            ),
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="B", help="The end of the window, exclusive (default: the home's clock)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The most answers to show (0: all).")] = 20,
    language: LanguageOption = LanguageName.sql,
    dialect: DialectOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a query would have delivered, and when, if it had been installed; nothing is stored."""
    _require_sql(language, "backtest")
    text, named = query_text(sql, file), None if dialect is None else dialect.value
    report, seconds = _timed(
        home, lambda weft: weft.backtest(text, since=since, until=until, limit=limit or None, dialect=named)
    )
    _print_backtest(report, seconds, json)


def _print_backtest(report: Backtest, seconds: float, json: bool) -> None:
    names = [name for name, _ in report.columns]
    if json:
        print_json(backtest_json(report, seconds))
        return
    if report.answers:
        table(("_first_at", *names), [[instant(at), *map(shown, row)] for at, row in report.answers], answers=True)
        echo(f"{instant(report.begin)}  {bars(report.counts)}  {instant(report.until)}")
    rest = f", {len(report.answers):,} shown" if len(report.answers) < report.count else ""
    since = "from the start" if report.since is None else f"from {instant(report.since)}"
    echo(f"{counted(report.count, 'answer')}{rest}, {since}, before {instant(report.until)}, in {seconds:.1f} s")
    if report.nothing is not None:
        echo(report.nothing)


def bars(counts: Sequence[int]) -> str:
    """Draw each number as a bar of one character.  The bar of the greatest number has full height.  The bar of zero is
    a dot.

    >>> bars([0, 1, 4, 8])
    '·▁▄█'
    """
    most = max(counts, default=0)
    return "".join("·" if not each else _BARS[-(-each * len(_BARS) // most) - 1] for each in counts)
