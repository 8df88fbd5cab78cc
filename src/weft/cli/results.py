"""The command ``results``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, escaped_json, instant, plain, shown, table
from weft.cli.queries import NameArgument
from weft.errors import Refused
from weft.interruption import stop_here
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weft.api.weft import Weft
    from weft.storage.ledger import ResultRow
    from weft.storage.typed_answers import Columns

_LOOK_SECONDS: Final = 0.5
_SHOWN: Final = 1_000


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(
        epilog=example(
            "weft results unanswered --after 100 --json",
            "weft results unanswered --csv > unanswered.csv",
            "weft results unanswered --follow",
        )
    )(results)


def results(
    name: NameArgument,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Print only answers with an ordinal above N (default: 0).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Print at most N answers.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print new answers as they appear, until Ctrl-C.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Print a query's answers, each with a permanent ordinal and the first instant at which it was an answer.

    They are sorted by the query's ORDER BY; with --after or --follow, or without ORDER BY, by ordinal.
    """
    from weft.delivery.rendering import field_names

    if json and csv:
        raise Refused("--json and --csv cannot be combined", hint="Omit one of them.")
    if follow and terminal.remote() is not None:
        raise terminal.not_here("--follow")  # it may run for days, and would occupy the server
    with opened(home) as weft:
        answers = weft.results(name, after=after, limit=limit)
        query = answers.query
        names = field_names([column for column, _ in query.columns])
        line = _line(names, query.columns, json=json, csv=csv)
        if csv:
            from weft.delivery.rendering import csv_header

            terminal.out().write(csv_header(names))
            terminal.out().flush()
        if follow:
            begin = query.rows if after is None else after
            _follow(weft, name, query.query_id, begin, limit, line)
        elif json or csv:
            _print(answers, line)
        else:
            _print_table(weft, name, names, after, limit)


def _line(names: list[str], columns: Columns, *, json: bool, csv: bool) -> Callable[[ResultRow], str]:
    """The text format has no columns, because the widths of later answers are unknown."""
    from weft.delivery.rendering import csv_line, json_line

    if csv:
        return csv_line
    if json:
        return lambda row: escaped_json(json_line(names, row, columns))

    def text_line(row: ResultRow) -> str:
        values = ", ".join(f"{plain(name)} {shown(value)}" for name, value in zip(names[3:], row.values, strict=True))
        return f"{row.ordinal}  {instant(row.first_at)}  {values}\n"

    return text_line


def _print(rows: Iterable[ResultRow], line: Callable[[ResultRow], str]) -> int:
    out, count = terminal.out(), 0
    for row in rows:
        out.write(line(row))
        count += 1
    out.flush()
    return count


def _follow(
    weft: Weft, name: str, query_id: int, after: int, limit: int | None, line: Callable[[ResultRow], str]
) -> None:
    """Stop at Ctrl-C, after ``limit`` answers, or when the query is removed."""
    import time

    remaining = limit
    while remaining is None or remaining > 0:
        query = weft.catalog.queries.by_id(query_id)
        if query.state == "removed":
            echo(f"{name} was removed.")
            return
        if query.rows > after:
            count = _print(weft.results(query.name, after=after, limit=remaining), line)
            after += count
            remaining = None if remaining is None else remaining - count
            continue
        stop_here()
        time.sleep(_LOOK_SECONDS)


def _print_table(weft: Weft, name: str, names: Sequence[str], after: int | None, limit: int | None) -> None:
    rows = weft.results(name, after=after, limit=limit or _SHOWN)
    cells = [[str(r.ordinal), instant(r.first_at), str(r.tick), *map(shown, r.values)] for r in rows]
    if cells:
        table(names, cells, right=(0, 2), answers=True)
    query = rows.query
    remaining = query.rows - (after or 0) - len(cells)
    option = f"--limit {query.rows}" if rows.order else f"--after {cells[-1][0]}" if cells else ""
    more = f"; for more: {option}" if cells and remaining > 0 else ""
    echo(f"{len(cells):,} of {counted(query.rows, 'answer')}{more}")
