"""The option ``install --replace``: replace the text of a standing query, or preview the effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.api.json.queries import replacement_json
from weft.cli.printing import echo, instant, print_json, working_on_spark
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.api.weft import Weft
    from weft.catalog.replaced_texts import ReplacedText
    from weft.execution.replacement_preview import Replacement

ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--replace", help="Replace the text of the query NAME: only answers not delivered so far are delivered."
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="With --replace: count the answers that the new text would deliver, and change nothing."
    ),
]


def preview_replacement(
    weft: Weft, name: str, sql: str, arguments: Mapping[str, Any], *, replace: bool, json: bool
) -> None:
    """Print the effects of an ``install`` with these arguments.  Raise Refused if ``replace`` is false."""
    if not replace:
        raise Refused(
            "--dry-run needs --replace",
            hint="Add --replace, or use `weft backtest` to see what a new query would have delivered.",
        )
    with working_on_spark("asking"):
        preview = weft.replacement(name, sql, **arguments)
    if json:
        print_json(replacement_json(preview))
    else:
        _print_preview(preview)


def _print_preview(preview: Replacement) -> None:
    name, old = preview.query.name, preview.query.rows
    begin = "from the start" if preview.since is None else f"from {instant(preview.since)} on"
    tick = f"The first tick after `weft resume {name}`" if preview.query.state == "paused" else "The next tick"
    echo(f"{tick} would deliver {counted(preview.new, 'answer')} that {name} has not delivered, {begin}.")
    if old:
        echo(f"The new text also returns {preview.known:,} of the {counted(old, 'answer')} that {name} has delivered.")
    if preview.only_old:
        echo(f"{counted(preview.only_old, 'answer')} came from the old text only: they stay delivered.")
    echo("Nothing was changed.")


def print_replaced(old: ReplacedText) -> None:
    """Print the effect of a replacement on the query's answers."""
    stay = (
        f"The {counted(old.rows, 'answer')} of the query so far stay, and none is delivered again"
        if old.rows
        else "The query has no answers yet"
    )
    echo(f"{stay}. The channels are unchanged.")
    if old.tau is None:
        echo("No tick of the old text was completed. Rows that only the old text returns are not delivered.")
    else:
        echo(f"The old text ran up to {instant(old.tau)}. Later rows that only the old text returns are not delivered.")
