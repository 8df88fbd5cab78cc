"""How a view is maintained, in words: what ``weft view explain`` prints, in the paper's notation.

Expressions share parts, and written out they are pages long; so parts get names (``planning.named_parts``): E of the
view's own expression, G of what the equations give, D of what is computed, p of predicates that speak of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra.temporal import Base, each
from weft.derivation.temporal.plan import Derived
from weft.derivation.temporal.propagation import Kind
from weft.planning.named_parts import Naming
from weft.planning.upkeep import Upkeep


@dataclass(frozen=True)
class Upheld:
    """What one kind of event does to a view: ``event`` says which, ``lines`` what is computed, by which equations."""

    event: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A view as an expression over ``sources`` (range variable, table), a line a part, and its maintenance by event.

    ``parts`` are the queries of the auxiliary views among the tables, by name.
    """

    view: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, str], ...]
    events: tuple[Upheld, ...]


def explained_view(upkeep: Upkeep, parts: Mapping[str, str] | None = None) -> Explained:
    """How a view is maintained: for what is deleted from and inserted into each table, and for the passing of time.

    ``parts`` are the queries of auxiliary views by their names.
    """
    plan, naming = upkeep.plan, Naming()
    bases = {part.alias: part.table.name for part in each(plan.view) if isinstance(part, Base)}
    view = naming.lines("V", plan.view, "E")
    naming.call(plan.view, "V")
    events = [
        Upheld(f"{what} {table.name}", tuple(_lines(plan.change([table], [kind]), naming)))
        for table in upkeep.tables
        for what, kind in _KINDS
    ]
    events.append(Upheld("time passes, from :refreshed to NOW()", tuple(_lines(plan.refresh, naming))))
    read = tuple((each, text) for each, text in (parts or {}).items() if each in bases.values())
    return Explained(tuple(view), tuple(bases.items()), read, tuple(events))


_KINDS: tuple[tuple[str, Kind], ...] = (("deleted from", "deletions"), ("inserted into", "insertions"))


def _lines(derived: Derived, naming: Naming) -> list[str]:
    """By which equations, what is computed, what was dropped and why, and what is read as a whole."""
    lines: list[str] = []
    for step in derived.trace:
        for sign, part in (("∇", step.gave.deleted), ("Δ", step.gave.inserted)):
            if part is not None:
                lines += naming.lines(f"by ({step.rule}) {sign}", part, "G")
    for sign, part in (("∇", derived.deleted), ("Δ", derived.inserted)):
        lines += [f"{sign}V = ∅"] if part is None else naming.lines(f"{sign}V", part, "D")
    lines += [f"dropped: {naming.words.dropped(dropped)}" for dropped in derived.dropped]
    lines += [f"reads all of {base.table.name} (as {base.alias})" for base in derived.reads_whole]
    return lines
