"""maintain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import say, say_json

_WORDS = {"build": ("built", "to build"), "merge": ("merged", "to merge"), "delete": ("deleted", "to delete")}


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft maintain", "weft maintain --dry-run"))(maintain)


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Build the arrangements that installed queries need, merge their runs, delete those that none needs."""
    found = []
    with opened(home) as weft:
        for each in weft.maintain(dry_run=dry_run):
            found.append(asdict(each))
            if not json:
                how = f"not {_WORDS[each.action][0]} ({each.problem})" if each.problem else _WORDS[each.action][dry_run]
                say(f"{each.name}: {how}: {each.what}")
    if json:
        say_json(found)
    elif not found:
        say("There is nothing to do.")
