"""Describe how a standing query reads the views that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft.algebra.relation import ViewSchema
from weft.planning.plan import Plan
from weft.planning.warnings import Note

REPLACE_WITH_DEFINITION: Final = (
    'Install the same text again, with the definition of the view: weft install NAME "SELECT …" --replace'
)


def reads_periods(names: Sequence[str]) -> str:
    """Return the reason why a stored plan over the stored periods of these views does not run."""
    views = f"the view {names[0]}" if len(names) == 1 else f"the views {', '.join(names)}"
    return (
        f"it reads the stored periods of {views}, whose definition has NOW(), a period function or a moving window, "
        "so its answers may depend on when it is ticked"
    )


def view_notes(plan: Plan) -> Iterator[Note]:
    """Yield a note for each view in the query: whether it reads the definition or the stored periods."""
    for view in plan.definitions:
        yield Note(
            "note",
            f"the view {view.name} depends on NOW(), so the query evaluates its definition at every instant. `weft "
            "try` evaluates the view at one instant, with its whole past",
            f"the view {view.name} is evaluated at every instant; `weft try` evaluates it at one",
        )
    for table in plan.tables:
        if isinstance(table, ViewSchema):
            yield Note(
                "note",
                f"the view {table.name} does not depend on NOW(), so the query reads its stored periods",
            )
