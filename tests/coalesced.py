"""Compute the history of a source from the definition: for each row, the maximal periods in which the source contains
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Row = tuple[Any, ...]
Period = tuple[Row, int, "int | None"]


def coalesced(states: Sequence[tuple[int, Iterable[Row]]]) -> set[Period]:
    """Return the periods of a source. Each state holds from its instant until the instant of the next state."""
    found: set[Period] = set()
    for row in {row for _, rows in states for row in rows}:
        since: int | None = None
        for instant, rows in states:
            if row in set(rows) and since is None:
                since = instant
            elif row not in set(rows) and since is not None:
                found.add((row, since, instant))
                since = None
        if since is not None:
            found.add((row, since, None))
    return found
