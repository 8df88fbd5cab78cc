"""Store test answers in the ledger and the catalog without Spark."""

from __future__ import annotations

from delta_tables import write_ledger
from weft.api import Weft
from weft.catalog import Writer
from weft.catalog.records import Choice, Count


def answer(writer: Writer, query_id: int, rows: int, t: int | None = None) -> None:
    """Add ``rows`` answers to a query with the columns (n BIGINT, s STRING), in a new tick.

    ``t`` is the time of the tick in microseconds. If it is None, the tick follows the last tick after 10 microseconds.
    """
    query = writer.queries.by_id(query_id)
    t = (query.tau or 0) + 10 if t is None else t
    tick = writer.ticks.plan(t, Choice((query_id,)), t)
    first = query.next_ordinal
    write_ledger(
        writer.path / "ledger",
        tick.tick_id,
        [(query_id, n, tick.t, [str(n), f"text {n}"]) for n in range(first, first + rows)],
    )
    writer.ticks.commit(tick.tick_id, {query_id: Count(rows, None, None, tick.t)}, [], 0)


def answered(weft: Weft, name: str, rows: int, t: int | None = None) -> None:
    """Call ``answer`` for a query of an open home."""
    with weft.catalog.writing("answer", weft.clock) as writer:
        answer(writer, writer.queries.named(name).query_id, rows, t)
