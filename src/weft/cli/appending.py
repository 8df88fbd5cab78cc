"""table create, append: tables that people write themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.loads import FutureOption, KeyOption, LateOption, lies_ahead, tell_load
from weft.cli.printing import say, say_json, typed
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.extraction.typed_rows import TextRow


def add_to(app: typer.Typer) -> None:
    """Adds the command; ``table create`` is among those of tables."""
    app.command(
        epilog=example("weft append votes msgid=a1 score=3", "weft append votes -f votes.jsonl --ts-from ts"),
    )(append)


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    columns: Annotated[str, typer.Argument(metavar="COLS", help='Its columns: "msgid STRING, score INT".')],
    key: KeyOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Make a table to append to; each row has who appended it (_by) and since when it is there (ts)."""
    keys = [each.strip() for each in key.split(",") if each.strip()] if key else []
    with opened(home, create=True) as weft:
        made = weft.make_table(name, columns, keys=keys)
    has = typed((column.name, column.type) for column in made.schema.columns)
    if json:
        listed = [{"name": column.name, "type": column.type.declared} for column in made.schema.columns]
        say_json({"name": made.name, "columns": listed, "keys": made.keys})
    else:
        say(f"{made.name} is a table: {has}.")


def append(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="COL=VALUE", help="The values of one row; what is left out is NULL.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Rows as JSON lines (-: stdin).")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="U", help="Who appends (default: you).")] = None,
    ts_from: Annotated[
        str | None,
        typer.Option("--ts-from", metavar="COL", help="Take ts from this value of each row: ts, or a column."),
    ] = None,
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Append rows to a table, all of them or, where one is wrong, none."""
    if bool(values) == (file is not None):
        raise Refused(
            "there are no rows" if not values else "rows are there twice, as values and as a file",
            hint="Write COL=VALUE for each column of one row, or -f FILE with a row as JSON on each line.",
        )
    with opened(home) as weft, _rows(values or [], file) as rows:
        times: dict[str, Any] = {"ts_from": ts_from, "late": late, "future": future}
        done = weft.append(name, rows, user=user or terminal.user(), **times)
        ahead = lies_ahead(weft, done)
    tell_load(done, ahead, json)


@contextmanager
def _rows(values: list[str], file: Path | None) -> Iterator[BinaryIO | TextRow]:
    if file is None:
        from weft.extraction.typed_rows import TextRow

        yield TextRow(_pairs(values))
    elif str(file) == "-":
        yield terminal.stdin_bytes()
    else:
        from weft.extraction.paths import opened as opened_path

        try:
            lines = BufferedReader(opened_path(terminal.path(file), streams=True))
        except OSError as error:
            raise Refused(f"the rows cannot be read: {error.strerror}", where=str(file)) from None
        with lines:
            yield lines


def _pairs(values: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in values:
        column, sign, value = each.partition("=")
        if not sign or column in found:
            raise Refused(
                f"{each!r} is no COL=VALUE" if not sign else f"{column} is there twice",
                hint="Write a value for each column, once: score=3.",
            )
        found[column] = value
    return found
