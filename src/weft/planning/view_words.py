"""How a standing query reads the views that it names, in words."""

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
    """Why a stored plan over the kept periods of these views is not run."""
    views = f"the view {names[0]}" if len(names) == 1 else f"the views {', '.join(names)}"
    return (
        f"it reads the kept periods of {views}, whose definition has NOW(), a period function or a moving window, so "
        "that its answers may depend on when it is ticked"
    )


def view_notes(plan: Plan) -> Iterator[Note]:
    """For each view that the query names, whether its definition or its kept periods are read."""
    for view in plan.definitions:
        yield Note(
            "note",
            f"the view {view.name} depends on NOW(): the query has its definition, and asks it at every instant. `weft "
            "try` reads the view as it is judged at one instant, with its whole past",
            f"the view {view.name} is asked by its definition at every instant; `weft try` judges it at one",
        )
    for table in plan.tables:
        if isinstance(table, ViewSchema):
            yield Note(
                "note",
                f"the view {table.name} does not depend on NOW(): the query reads the periods that are kept of it",
            )
