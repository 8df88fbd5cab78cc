"""A branch of Q^I or Q^M as SQL: what ``explain`` prints and what Spark runs."""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra.event import Event
from weft.algebra.relation import Join, Output, Query, Scan, Select, attributes
from weft.sql import render


def branch_sql(event: Event, views: Mapping[str, str], leading: tuple[Output, ...] = ()) -> str:
    """SELECT the outputs and the instant ``_first_at``; ``views`` names what each range variable reads.

    ``leading`` are further columns, before the others.
    """
    items = [render.item(output) for output in (*leading, *event.outputs)]
    items.append(f"{render.scalar(event.instant)} AS _first_at")
    return render.select(", ".join(items), event.block, views)


def query_sql(query: Query) -> str:
    """The normalized query, NOW() and all."""
    plain = tuple(Output(ref.column, ref) for ref in attributes(query.input))
    if query.outputs == plain and not isinstance(query.input, (Scan, Join, Select)):
        return render.rows(query.input, {})
    return render.select(f"DISTINCT {', '.join(render.item(output) for output in query.outputs)}", query.input, {})
