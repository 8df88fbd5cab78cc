"""results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import escaped_json, instant, plain, say, shown, table
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
"""How often new answers are looked for."""
_SHOWN: Final = 1_000


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
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
        int | None, typer.Option(min=0, metavar="N", help="Only answers with an ordinal above N (default: 0).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most N answers.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print new answers as they come, until Ctrl-C.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch a query's answers: each has an ordinal that never changes and the first instant at which it was one.

    They come in the order of the query's ORDER BY; with --after or --follow, and without ORDER BY, by their ordinals.
    """
    from weft.delivery.rendering import field_names

    if json and csv:
        raise Refused("--json and --csv do not go together", hint="Leave one of them out.")
    if follow and terminal.remote() is not None:
        raise terminal.Elsewhere  # it may go on for days: a server has other things to do
    with opened(home) as weft:
        query = weft.catalog.queries.named(name)
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
            _print(weft.results(name, after=after, limit=limit), line)
        else:
            _tell(weft, name, names, after, limit)


def _line(names: list[str], columns: Columns, *, json: bool, csv: bool) -> Callable[[ResultRow], str]:
    """How an answer is printed on a line; without JSON and CSV as while more may come: no table knows how wide these
    will be."""
    from weft.delivery.rendering import csv_line, json_line

    if csv:
        return csv_line
    if json:
        return lambda row: escaped_json(json_line(names, row, columns))

    def told(row: ResultRow) -> str:
        values = ", ".join(f"{plain(name)} {shown(value)}" for name, value in zip(names[3:], row.values, strict=True))
        return f"{row.ordinal}  {instant(row.first_at)}  {values}\n"

    return told


def _print(rows: Iterable[ResultRow], line: Callable[[ResultRow], str]) -> int:
    """Prints the rows; how many there were."""
    out, count = terminal.out(), 0
    for row in rows:
        out.write(line(row))
        count += 1
    out.flush()
    return count


def _follow(
    weft: Weft, name: str, query_id: int, after: int, limit: int | None, line: Callable[[ResultRow], str]
) -> None:
    """Prints answers as they come, until Ctrl-C, ``limit`` of them, or the query's end."""
    import time

    left = limit
    while left is None or left > 0:
        query = weft.catalog.queries.by_id(query_id)
        if query.state == "removed":
            say(f"{name} was removed.")
            return
        if query.rows > after:
            count = _print(weft.results(query.name, after=after, limit=left), line)
            after += count
            left = None if left is None else left - count
            continue
        stop_here()
        time.sleep(_LOOK_SECONDS)


def _tell(weft: Weft, name: str, names: Sequence[str], after: int | None, limit: int | None) -> None:
    query = weft.catalog.queries.named(name)
    rows = weft.results(name, after=after, limit=limit or _SHOWN)
    found = [[str(r.ordinal), instant(r.first_at), str(r.tick), *map(shown, r.values)] for r in rows]
    if found:
        table(names, found, right=(0, 2), answers=True)
    left = query.rows - (after or 0) - len(found)
    further = f"--limit {query.rows}" if rows.order else f"--after {found[-1][0]}" if found else ""
    more = f"; more with {further}" if found and left > 0 else ""
    say(f"{len(found):,} of {counted(query.rows, 'answer')}{more}")
