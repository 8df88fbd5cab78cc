"""Example relations and events, and functions that print them, for the docstrings of the rules."""

from __future__ import annotations

from collections.abc import Iterable

from outline import driver
from weft.algebra.event import Event
from weft.algebra.relation import (
    TRUE,
    Output,
    Plain,
    Query,
    Relation,
    Scan,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import call
from weft.algebra.schema import STRING, TIMESTAMP, Column, TableSchema
from weft.sql.rendering import render

_COLUMNS = {"msgid": STRING, "sender": STRING, "inreplyto": STRING, "due": TIMESTAMP, "expires": TIMESTAMP}


def table(number: int, name: str) -> TableSchema:
    """Return an append-only table."""
    named = {**_COLUMNS, "ts": TIMESTAMP}
    return TableSchema(number, name, tuple(Column(n, c, t) for n, (c, t) in enumerate(named.items(), 1)))


M = Scan(table(1, "msgs"), "m")
R = Scan(table(2, "replies"), "r")
TIED = Plain(call("=", R.ref("inreplyto"), M.ref("msgid")))


def ids(relation: Relation) -> Query:
    """Return a query for the message IDs in a relation over M."""
    return Query(relation, (Output("msgid", M.ref("msgid")),))


def show(relation: Relation, indent: str = "") -> None:
    """Print FROM and WHERE."""
    for line in _lines(relation):
        print(indent + line)


def _lines(relation: Relation) -> Iterable[str]:
    text = render.select("*", relation, {}, 0).removeprefix("SELECT *\n") if sources(relation) else _where(relation)
    return [line.rstrip() for line in text.splitlines()]


def _where(relation: Relation) -> str:
    demanded = condition(relation)
    parts = [render.predicate(part, {}, 1) for part in conjuncts(demanded)]
    return "WHERE " + "\n  AND ".join(parts) if demanded != TRUE else ""


def show_events(events: Iterable[Event]) -> None:
    """Print the driver, the instant and the relation of each event."""
    for event in events:
        instant = render.scalar(event.instant)
        said = driver(event.driver)
        print(f"when {said}" + ("" if instant in said else f": {instant}"))
        show(event.relation, "  ")
