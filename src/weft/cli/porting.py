"""The commands ``export`` and ``apply``: the definitions of a home as text files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import counted, echo, plain, print_json, table
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.api.portable.changes import Change

_SHOWN = 10


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(epilog=example("weft export definitions", "weft export definitions --prune"))(export)
    app.command(epilog=example("weft apply definitions --dry-run", "weft apply definitions --prune"))(apply)


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder, new or of an earlier export.")],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete the files of definitions that the home does not have."),
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Write queries, channels, views, sources, saved queries, users and rights as text files, without secrets."""
    with opened(home) as weft:
        exported = weft.export(terminal.path(folder), prune=prune)
    if json:
        print_json(
            {
                "written": list(exported.written),
                "removed": list(exported.removed),
                "left": list(exported.left),
                "unchanged": exported.unchanged,
            }
        )
        return
    echo(f"{folder}: {counted(len(exported.written), 'file')} written, {exported.unchanged:,} unchanged.")
    if exported.removed:
        echo(f"Deleted, because the home has no such definition: {_listed(exported.removed)}")
    if exported.left:
        echo(f"Not in the home, and left in the folder (see --prune): {_listed(exported.left)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return plain(", ".join(names[:_SHOWN])) + more


def apply(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the definitions.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes, and change nothing.")] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Remove what is not in the folder: queries, views, sources, saved queries, users, groups."
        ),
    ] = False,
    secrets: Annotated[
        Path | None,
        typer.Option("--secrets", metavar="FILE", help='The values of the variables in webhooks: lines NAME = "…".'),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Change the home so that it has the definitions in a folder: everything is checked first, and the plan printed."""
    with opened(home) as weft:
        values = {} if secrets is None else _secrets(terminal.path(secrets))
        planned = (lambda _: None) if json else _print_plan
        changes = weft.apply(terminal.path(folder), dry_run=dry_run, prune=prune, secrets=values, planned=planned)
    if json:
        print_json([_as_json(each) for each in changes])
    elif changes:
        echo("Nothing was changed." if dry_run else f"{counted(len(changes), 'change')} made.")


def _as_json(change: Change) -> dict[str, str]:
    return {"kind": change.kind, "name": change.name, "change": change.action, "detail": change.detail}


def _print_plan(changes: Sequence[Change]) -> None:
    if not changes:
        echo("The home has these definitions already.")
        return
    rows = [(each.kind, each.name, each.action, plain(each.detail)) for each in changes]
    table(("kind", "name", "change", "detail"), rows)


def _secrets(file: Path) -> Mapping[str, str]:
    from weft.api.portable.folder import text_of
    from weft.configuration.toml_file import parse_toml

    try:
        values = parse_toml(text_of(file))
    except ValueError as error:
        raise Refused(f"the file is not valid TOML: {error}", where=str(file)) from None
    if not all(isinstance(each, str) for each in values.values()):
        raise Refused("a value is not a text", where=str(file), hint='Write lines such as WEBHOOK_1A2B3C4D = "…".')
    return values
