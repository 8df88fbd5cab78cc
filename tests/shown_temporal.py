"""Example temporal relations for the docstrings of the maintenance rules."""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra.relation import Output, Project, Scan
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call
from weft.algebra.schema import INT, INTERVAL, TIMESTAMP, Column, TableSchema
from weft.algebra.temporal import Temporal
from weft.derivation.temporal.maintenance_plan import Derived
from weft.planning.temporal_words import Words


def tracked(id: int, name: str, *columns: str) -> TableSchema:
    """Return a tracked table of nullable integers."""
    given = (*((column, INT) for column in columns), ("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP))
    made = tuple(Column(place + 1, *each) for place, each in enumerate(given))
    return TableSchema(id, name, made, start="valid_from", end="valid_to")


R = Scan(tracked(1, "R", "k", "v"), "r")
S = Scan(tracked(2, "S", "k", "v"), "s")
PI = Project(R, "d", (Output("k", ColumnRef("r", "k", INT)),))
PAIRED = call("=", ColumnRef("r", "k", INT), ColumnRef("s", "k", INT))
ENDED = call("<", Call("period_end", (PeriodOf("r"),), TIMESTAMP), Now())
WEEK = Literal(7 * 86_400_000_000, INTERVAL)


def words(relation: Temporal, names: Mapping[Temporal | Scalar, str] | None = None) -> str:
    """Return an expression on one line, in the paper's notation."""
    return Words(names or {}).relation(relation)


def derivation_lines(derived: Derived, view: str, names: Mapping[Temporal | Scalar, str] | None = None) -> list[str]:
    """Return the result of a derivation as lines: its equations, the dropped relations, and those that it reads
    whole.
    """
    notation = Words(names or {})
    lines = [
        f"{sign}{view} = {'∅' if part is None else notation.relation(part)}"
        for sign, part in (("∇", derived.deleted), ("Δ", derived.inserted))
    ]
    lines += [f"by {notation.step(step)}" for step in derived.trace]
    lines += [f"dropped {notation.dropped(dropped)}" for dropped in derived.dropped]
    lines += [f"reads all of {base.table.name} (as {base.alias})" for base in derived.reads_whole]
    return lines
