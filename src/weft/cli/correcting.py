"""source correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, opened
from weft.cli.printing import instant, iso, say, say_json
from weft.cli.view_commands import tell_maintained
from weft.errors import Refused
from weft.printable import counted


def correct(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tracked table.")],
    key: Annotated[list[str], typer.Option("--key", metavar="COL=VALUE", help="The row, by each column of the key.")],
    begin: Annotated[str, typer.Option("--from", metavar="T", help="The first instant that is corrected, ISO 8601.")],
    end: Annotated[str, typer.Option("--to", metavar="T", help="The instant before which it ends; not after now.")],
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="COL=VALUE", help="What a column had then.")
    ] = None,
    nulls: Annotated[
        list[str] | None, typer.Option("--null", metavar="COL", help="A column that was NULL then.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="There was no such row then.")] = False,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Correct what was recorded of a past period; what was known before stays readable. Views follow."""
    if delete and (values or nulls):
        raise Refused("--delete says that there was no row, and --set what it had", hint="Leave one of them out.")
    sets = None if delete else {**_pairs("--set", values or ()), **dict.fromkeys(nulls or ())}
    with opened(home) as weft:
        done = weft.correct_source(name, _pairs("--key", key), begin, end, sets, now=now)
        maintained = weft.keep_views(now=now)
    if json:
        say_json({"name": done.name, "changed": done.changed, "gone": done.gone, "at": iso(done.at)})
    elif done.at is None:
        say(f"{done.name}: it was recorded so already; nothing has changed.")
    else:
        gone = f", {done.gone:,} gone" if done.gone else ""
        periods = counted(done.changed, "period")
        say(f"{done.name}: {periods} new or with another end{gone}, corrected at {instant(done.at)}")
    if not json:
        tell_maintained(maintained)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refused(f"{option} {text!r} is not COLUMN=VALUE", hint=f"Write {option} dept=Sales.")
        found[name.strip()] = value
    return found
