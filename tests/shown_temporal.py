"""A few temporal relations to show things with: what the examples in the maintenance rules' docstrings use."""

from __future__ import annotations

from weft.algebra.relation import Output
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, call
from weft.algebra.schema import INT, INTERVAL, TIMESTAMP, Column, TableSchema
from weft.algebra.temporal import Base, Projection
from weft.planning.temporal_words import words

__all__ = ["ENDED", "PAIRED", "PI", "WEEK", "R", "S", "tracked", "words"]


def tracked(id: int, name: str, *columns: str) -> TableSchema:
    """A tracked table of nullable integers."""
    given = (*((column, INT) for column in columns), ("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP))
    made = tuple(Column(place + 1, *each) for place, each in enumerate(given))
    return TableSchema(id, name, made, start="valid_from", end="valid_to")


R = Base(tracked(1, "R", "k", "v"), "r")
S = Base(tracked(2, "S", "k", "v"), "s")
PI = Projection(R, "d", (Output("k", ColumnRef("r", "k", INT)),))
PAIRED = call("=", ColumnRef("r", "k", INT), ColumnRef("s", "k", INT))
ENDED = call("<", Call("period_end", (PeriodOf("r"),), TIMESTAMP), Now())
WEEK = Literal(7 * 86_400_000_000, INTERVAL)
