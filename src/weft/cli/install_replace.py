"""install --replace: another text for a query that stands, and what it would come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.printing import instant, iso, say, say_json, working_on_spark
from weft.errors import Refused
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.api.weft import Weft
    from weft.catalog.records import QueryRecord
    from weft.catalog.replaced_texts import ReplacedText
    from weft.execution.replacement_preview import Replacement

ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Give the query NAME this text: only what it had not delivered is delivered."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="With --replace: say how many answers that would deliver, change nothing.")
]


def foretell(weft: Weft, name: str, sql: str, given: Mapping[str, Any], *, replace: bool, json: bool) -> None:
    """Says what replacing would come to, ``given`` being what ``install`` would get.

    Raises Refused where nothing is to be replaced.
    """
    if not replace:
        raise Refused(
            "--dry-run is for --replace", hint="What a new query would have delivered is told by: weft backtest."
        )
    with working_on_spark("asking"):
        from weft.runtime.cancelling import cancellable

        with cancellable(weft.session):
            found = weft.replacement(name, sql, **given)
    if json:
        say_json(_as_json(found))
    else:
        _tell(found)


def _tell(found: Replacement) -> None:
    name, old = found.query.name, found.query.rows
    begin = "from the start" if found.since is None else f"from {instant(found.since)} on"
    say(f"{counted(found.new, 'answer')} would be delivered at once, {begin}, that {name} has not had.")
    if old:
        say(f"Of its {counted(old, 'answer')} so far the new text gives {found.known:,}, too.")
    if found.only_old:
        say(f"{counted(found.only_old, 'answer')} only the old text gave: what was delivered is not taken back.")
    say("Nothing was changed.")


def _as_json(found: Replacement) -> dict[str, Any]:
    return {
        "name": found.query.name,
        "answers": found.query.rows,
        "new": found.new,
        "known": found.known,
        "only_old": found.only_old,
        "from_instant": iso(found.since),
        "now": iso(found.until),
    }


def say_replaced(query: QueryRecord, old: ReplacedText) -> None:
    """What became of the text before."""
    stay = (
        f"Its {counted(old.rows, 'answer')} so far: all stay, none is delivered again" if old.rows else "No answer yet"
    )
    say(f"{stay}; its channels go on.")
    if old.tau is None:
        say("The text before had yet to go through everything: what it alone gives is not delivered.")
    else:
        say(f"The text before was run up to {instant(old.tau)}: what it alone gives from then on is not delivered.")
    if query.state == "paused":
        say(f"It stays paused: `weft resume {query.name}` lets it go on.")


def replaced_json(text: ReplacedText) -> dict[str, Any]:
    """A text that a query had before, as JSON has it."""
    return {
        "sql": text.sql,
        "from_instant": iso(text.from_instant),
        "since": iso(text.since),
        "until": iso(text.until),
        "ticked_to": iso(text.tau),
        "rows": text.rows,
    }
