"""The commands ``table create`` and ``append``, for tables to which users append rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from weft.api.json.tables import created_json
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.loads import FutureOption, KeyOption, LateOption, print_load
from weft.cli.printing import print_result, typed
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.extraction.typed_rows import TextRow


def add_to(app: typer.Typer) -> None:
    """Register the command ``append`` with ``app``.  The module ``table_commands`` registers ``table create``."""
    app.command(
        epilog=example("weft append votes msgid=a1 score=3", "weft append votes -f votes.jsonl --ts-from ts"),
    )(append)


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    columns: Annotated[
        str, typer.Argument(metavar="COLS", help='The columns of the table: "msgid STRING, score INT".')
    ],
    key: KeyOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Make a table to append rows to; each row records who appended it (_by) and when (ts)."""
    keys = [each.strip() for each in key.split(",") if each.strip()] if key else []
    with opened(home, create=True) as weft:
        table = weft.make_table(name, columns, keys=keys)
    described = typed((column.name, column.type) for column in table.schema.columns)
    print_result(json, created_json(table), f"Created the table {table.name}: {described}.")


def append(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="COL=VALUE", help="The values of one row; other columns are NULL.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Rows as JSON lines (-: stdin).")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="U", help="The value of _by (default: your user name).")
    ] = None,
    ts_from: Annotated[
        str | None,
        typer.Option(
            "--ts-from", metavar="COL", help="Take the ts of each row from this column, or from a value named ts."
        ),
    ] = None,
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Append rows to a table: all of them, or none if one is invalid."""
    if bool(values) == (file is not None):
        raise Refused(
            "no rows to append" if not values else "rows are given twice: as values and as a file",
            hint="Write COL=VALUE for each column of one row, or -f FILE with one JSON object per line.",
        )
    with opened(home) as weft, _rows(values or [], file) as rows:
        times: dict[str, Any] = {"ts_from": ts_from, "late": late, "future": future}
        load = weft.append(name, rows, user=user or terminal.user(), **times)
        ahead = weft.lies_ahead(load)
    print_load(load, ahead, json)


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
    pairs: dict[str, str] = {}
    for each in values:
        column, sign, value = each.partition("=")
        if not sign or column in pairs:
            raise Refused(
                f"{each!r} is not COL=VALUE" if not sign else f"{column} is given twice",
                hint="Write one value for each column: score=3.",
            )
        pairs[column] = value
    return pairs
