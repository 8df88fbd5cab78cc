"""The command ``source correct``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, opened
from weft.cli.printing import echo, instant, iso, print_json
from weft.cli.view_commands import print_refreshed
from weft.errors import Refused
from weft.printable import counted


def correct(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tracked table.")],
    key: Annotated[list[str], typer.Option("--key", metavar="COL=VALUE", help="The row, by each column of the key.")],
    begin: Annotated[str, typer.Option("--from", metavar="T", help="The start of the corrected period, ISO 8601.")],
    end: Annotated[str, typer.Option("--to", metavar="T", help="Its end, exclusive; not after now.")],
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="COL=VALUE", help="The value of a column in that period.")
    ] = None,
    nulls: Annotated[
        list[str] | None, typer.Option("--null", metavar="COL", help="A column that was NULL in that period.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="The row did not exist in that period.")] = False,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Correct a past period of a tracked table, and refresh its views; the earlier version stays readable."""
    if delete and (values or nulls):
        raise Refused("--delete contradicts --set and --null", hint="Omit --delete, or omit the others.")
    sets = None if delete else {**_pairs("--set", values or ()), **dict.fromkeys(nulls or ())}
    with opened(home) as weft:
        corrected = weft.correct_source(name, _pairs("--key", key), begin, end, sets, now=now)
        maintained = weft.keep_views(now=now)
    if json:
        print_json(
            {"name": corrected.name, "changed": corrected.changed, "gone": corrected.gone, "at": iso(corrected.at)}
        )
    elif corrected.at is None:
        echo(f"{corrected.name}: no change; the table already records this.")
    else:
        gone = f", {corrected.gone:,} removed" if corrected.gone else ""
        periods = counted(corrected.changed, "period")
        echo(f"{corrected.name}: {periods} new or with a new end{gone}, corrected at {instant(corrected.at)}")
    if not json:
        print_refreshed(maintained)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refused(f"{option} {text!r} is not COLUMN=VALUE", hint=f"Write {option} dept=Sales.")
        pairs[name.strip()] = value
    return pairs
