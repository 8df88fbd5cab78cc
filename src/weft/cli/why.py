"""The command ``why``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from weft.api.json.answers import why_json
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, instant, plain, print_json, shown, working_on_spark
from weft.cli.queries import NameArgument
from weft.printable import counted, one_line

if TYPE_CHECKING:
    from weft.execution.why import Combination, Witness

_ROLES: Final = {"driver": "driver", "joined": "with", "exists": "exists"}
_LONGEST: Final = 60
"""The maximum length (characters) of a value of a witness.  With --json, values have their full length."""


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(epilog=example("weft why unanswered 3"))(why)


def why(
    name: NameArgument,
    ordinal: Annotated[int, typer.Argument(metavar="ORDINAL", min=1, help="The ordinal of the answer.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Say why an answer appeared: what happened at its first instant, and the rows that made it true."""
    with opened(home) as weft, working_on_spark("asking"):
        found = weft.why(name, ordinal)
    if json:
        print_json(why_json(found))
        return
    cells = zip(found.columns, found.values, strict=True)
    values = ", ".join(f"{plain(label)} {shown(value)}" for (label, _), value in cells)
    echo(f"{found.query}, answer {found.ordinal}: {values}")
    echo(f"first an answer at {instant(found.first_at)}, found by tick {found.tick}")
    if not found.combinations:
        echo(
            "No rows give this answer today: since the tick, rows were undone, corrected or removed, or others arrived "
            "late."
        )
    for each in found.combinations:
        _print(each)
    if found.hides:
        echo("")
        echo("You may not read all tables of this query. Their rows are hidden, and so is what was absent.")
    if found.more:
        echo("")
        echo("Further combinations of rows also give this answer.")


def _print(combination: Combination) -> None:
    echo("")
    echo(f"because {combination.why}")
    for witness in combination.witnesses:
        echo(f"  {_ROLES[witness.role]:<8}{_row(witness)}")
        _print_members(witness, 10)
    for absent in combination.absent:
        echo(f"  absent  {plain(absent)}")


def _print_members(witness: Witness, indent: int) -> None:
    if witness.count is None:
        return
    echo(f"{' ' * indent}computed from {counted(witness.count, 'row')}{', the first of them' if witness.more else ''}:")
    for member in witness.members:
        echo(f"{' ' * (indent + 2)}{_row(member)}")
        _print_members(member, indent + 4)


def _row(witness: Witness) -> str:
    name = witness.table or witness.alias
    if witness.is_hidden:
        return f"{plain(name)}: hidden"
    if witness.table and witness.alias.lower() != witness.table.lower():
        name = f"{witness.table} (as {witness.alias})"
    cells = zip(witness.columns, witness.values, strict=True)
    texts = (f"{plain(label)} {one_line(shown(value), _LONGEST)}" for (label, _), value in cells)
    return f"{plain(name)}: {', '.join(texts)}"
