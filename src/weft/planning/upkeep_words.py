"""How a view is maintained, in words: what ``weft view explain`` prints, in the paper's notation."""

from __future__ import annotations

from dataclasses import dataclass

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import Base, each
from weft.derivation.temporal.plan import Derived
from weft.derivation.temporal.propagation import Kind
from weft.planning.maintenance_words import Words, words
from weft.planning.upkeep import Upkeep


@dataclass(frozen=True)
class Upheld:
    """What one kind of event does to a view: ``event`` says which, ``lines`` what is computed, by which equations."""

    event: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A view's definition as an expression over ``sources`` (range variable, table), and its maintenance by event."""

    view: str
    sources: tuple[tuple[str, str], ...]
    events: tuple[Upheld, ...]


def explained_view(upkeep: Upkeep) -> Explained:
    """How a view is maintained: for what is deleted from and inserted into each table, and for the passing of time."""
    plan = upkeep.plan
    bases = {part.alias: part.table.name for part in each(plan.view) if isinstance(part, Base)}
    events = [
        Upheld(f"{what} {table.name}", _changed(upkeep, table, kind))
        for table in upkeep.tables
        for what, kind in _KINDS
    ]
    events.append(Upheld("time passes, from :refreshed to NOW()", _lines(plan.refresh)))
    return Explained(words(plan.view), tuple(bases.items()), tuple(events))


_KINDS: tuple[tuple[str, Kind], ...] = (("deleted from", "deletions"), ("inserted into", "insertions"))


def _changed(upkeep: Upkeep, table: TableSchema, kind: Kind) -> tuple[str, ...]:
    return _lines(upkeep.plan.change([table], [kind]))


def _lines(derived: Derived) -> tuple[str, ...]:
    """What is computed, by which equations, what was dropped and why, and what is read as a whole."""
    said = Words()
    lines = [
        f"{sign}V = {'∅' if part is None else said.relation(part)}"
        for sign, part in (("∇", derived.deleted), ("Δ", derived.inserted))
    ]
    lines += [f"by {said.step(step)}" for step in derived.trace]
    lines += [f"dropped: {said.dropped(dropped)}" for dropped in derived.dropped]
    lines += [f"reads all of {base.table.name} (as {base.alias})" for base in derived.reads_whole]
    return tuple(lines)
