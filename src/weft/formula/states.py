"""The states of a log: its time points, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = "int | float | str"
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class TimePoint:
    """A state: its number from 0, its time in microseconds, and the rows of each predicate that has some."""

    number: int
    at: int
    rows: Mapping[str, list[Row]] = field(default_factory=dict)


def batches(points: Iterable[TimePoint], size: int) -> Iterator[list[TimePoint]]:
    """Yield the time points in lists of at most ``size`` rows and time points in total, or of one larger time point."""
    batch: list[TimePoint] = []
    room = size
    for point in points:
        taken = 1 + sum(map(len, point.rows.values()))
        if batch and taken > room:
            yield batch
            batch, room = [], size
        batch.append(point)
        room -= taken
    if batch:
        yield batch
