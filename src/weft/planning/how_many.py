"""Estimate how many answers a query has, from the sizes of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weft.instants import format_instant
from weft.planning.summary import CauseSummary

_DAY: Final = 86_400_000_000
_SHOWN_RATES: Final = 2
"""The most tables whose rows a day are shown beside their sizes, so that the estimate fits on a line."""
_TIMES: Final = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


@dataclass(frozen=True)
class TableExtent:
    """The number of rows of a table, with its first and last instants.

    The instants are in microseconds UTC, or None for an empty table.  A tracked table has one row for each start and
    one for each end of a period.  ``view`` is true for a temporal view.  The number of rows in a view does not limit
    the number of answers, because Weft refreshes the view before each read.
    """

    rows: int
    first: int | None = None
    last: int | None = None
    view: bool = False


def why_no_answer(extents: Mapping[str, TableExtent], until: int) -> str:
    """Return a sentence that says why a query had no new answer in a window that ends at ``until`` (µs UTC)."""
    end = format_instant(until)
    extent_texts = "; ".join(_extent_text(name, extents[name]) for name in sorted(extents))
    if extents and all(each.first is None or each.first >= until for each in extents.values() if not each.view):
        return f"No row was loaded for the time before {end}: {extent_texts}."
    return f"No row from before {end} became an answer in this window: {extent_texts}."


def _extent_text(name: str, extent: TableExtent) -> str:
    if extent.first is None or extent.last is None:
        return f"{name} has {extent.rows:,} row{'s' * (extent.rows != 1)}"
    return f"{name} has rows from {format_instant(extent.first)} to {format_instant(extent.last)}"


def how_many(summary: CauseSummary, extents: Mapping[str, TableExtent], *, from_now: bool = False) -> str | None:
    """Return an estimate of the number of answers in words, or None.

    The estimate is None if the size of a table is unknown, or if the query cannot have an answer.  If ``from_now`` is
    true, the estimate is the largest number of answers for each new row.
    """
    if not summary.when or any(name not in extents for name in summary.tables):
        return None
    if summary.bounded_by is None or any(extents[name].view for name in summary.bounded_by):
        size = _size if len(summary.tables) > _SHOWN_RATES else _size_and_rate
        sizes = [f"{name}: {size(extents[name], _unit(summary, [name]))}" for name in summary.tables]
        read = f" ({'; '.join(sizes)})" if sizes else ""
        return f"Answers so far: `weft try` counts them, `weft backtest` lists them{read}."
    most = summary.at_first + sum(extents[name].rows for name in summary.bounded_by)
    names = list(dict.fromkeys(summary.bounded_by))
    if not most:
        return f"Answers so far: none; no rows in {' or '.join(names)}."
    rates = [daily_rate for name in names if (daily_rate := rate(extents[name])) is not None]
    daily = f" ({rates[0]})" if len(names) == 1 and rates else ""
    each = _each(summary) + daily
    if from_now:
        there = sum(extents[name].rows for name in names)
        return f"Answers: at most {each}; rows now: {there:,}."
    return f"Answers so far: at most {most:,}, {each}; `weft try` counts the current answers."


def _each(summary: CauseSummary) -> str:
    """If several SELECTs read a table, each row counts once for each SELECT."""
    alike: dict[tuple[int, str], list[str]] = {}
    for name, times in Counter(summary.bounded_by).items():
        alike.setdefault((times, _unit(summary, [name])), []).append(name)
    parts = [
        f"{_TIMES.get(times, f'{times:,}')} for each {unit} of {' and '.join(names)}"
        for (times, unit), names in alike.items()
    ]
    return " and ".join(parts)


def _unit(summary: CauseSummary, names: Sequence[str]) -> str:
    return "recorded change" if any(name in summary.tracked for name in names) else "row"


def _size(extent: TableExtent, unit: str) -> str:
    return f"{extent.rows:,} {unit}{'s' * (extent.rows != 1)}"


def _size_and_rate(extent: TableExtent, unit: str) -> str:
    daily = _daily(extent)
    return f"{_size(extent, unit)}, {daily:,.0f} a day" if daily >= 1 else _size(extent, unit)


def rate(extent: TableExtent) -> str | None:
    """Return the number of rows per day in words, or None if the rows span less than a day.

    >>> [rate(TableExtent(rows, 0, days * _DAY)) for rows, days in ((611, 41), (3, 30), (611, 0))]
    ['15 a day over 41 days', '3 in 30 days', None]
    """
    daily = _daily(extent)
    if not daily:
        return None
    days = _days(extent)
    over = f"{days:,.0f} day{'s' * (round(days) != 1)}"
    return f"{daily:,.0f} a day over {over}" if daily >= 1 else f"{extent.rows:,} in {over}"


def _days(extent: TableExtent) -> float:
    return 0 if extent.first is None or extent.last is None else (extent.last - extent.first) / _DAY


def _daily(extent: TableExtent) -> float:
    """Return the number of rows per day, or 0 if the rows span less than a day."""
    return extent.rows / _days(extent) if _days(extent) >= 1 else 0
