"""A branch of Q^I or Q^M as SQL: what ``explain`` prints and what Spark runs."""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra.event import Event
from weft.algebra.relation import Output, Query, block
from weft.sql import render


def branch_sql(event: Event, outputs: tuple[Output, ...], views: Mapping[str, str]) -> str:
    """SELECT the outputs and the instant ``_first_at``; ``views`` names what each range variable reads."""
    items = [item(output) for output in outputs]
    items.append(f"{render.scalar(event.instant)} AS _first_at")
    return render.select(", ".join(items), block(event.sources, event.condition), views)


def query_sql(query: Query) -> str:
    """The normalized query, NOW() and all."""
    return render.select(f"DISTINCT {', '.join(item(output) for output in query.outputs)}", query.input, {})


def item(output: Output) -> str:
    """An output with its name, where the name is not the column's own."""
    text, label = render.scalar(output.value), render.name(output.name)
    return text if text.split(".")[-1] == label else f"{text} AS {label}"
