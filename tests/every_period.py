"""Relations over periods, drawn for tests, and what each operation on them means, instant by instant.

A relation is a list of rows: a key, a count, three numbers, and a period [start, end) without an end if it is open.
Nothing here knows SQL.  Instants are small integers; what holds at ``FAR`` holds from there on.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import reduce
from typing import Any

from hypothesis import strategies as st

LAST = 8
"""No period starts or ends after this instant, unless it is open."""
FAR = 2 * LAST + 2
Key = tuple[Any, ...]
AtInstants = dict[int, Counter[Key]]
"""For each instant, the rows that hold there, and how often."""
TOO_LARGE = Decimal("1E+36")
"""The first number with more than 38 digits, two of them after the point."""


@dataclass(frozen=True)
class Row:
    key: Key
    count: int
    whole: int | None
    real: float | None
    exact: Decimal | None
    start: int
    end: int | None
    text: str | None = None
    flag: bool | None = None

    @property
    def instants(self) -> range:
        return range(self.start, FAR + 1 if self.end is None else self.end)


TEXTS, REALS = (None, "", "a", "b"), (None, 0.0, -0.0, math.nan, 1.5)
KEYS = st.tuples(st.sampled_from(TEXTS), st.sampled_from(REALS))
PERIODS = st.integers(0, LAST - 1).flatmap(
    lambda start: st.tuples(st.just(start), st.one_of(st.none(), st.integers(start + 1, LAST)))
)
ROWS = st.builds(
    lambda key, count, whole, real, exact, period, text, flag: Row(key, count, whole, real, exact, *period, text, flag),
    KEYS,
    st.integers(1, 3),
    st.sampled_from([None, 0, -7, 5, 2**62]),
    st.sampled_from([None, 0.5, 1.0, 1e16, -1e16]),
    st.sampled_from([None, Decimal("0.01"), Decimal("-2.50"), Decimal(5) * 10**35, -Decimal(5) * 10**35]),
    PERIODS,
    st.sampled_from([None, "", "a", 'b"\\\n\x1fé']),
    st.sampled_from([None, True, False]),
)
RELATIONS = st.lists(ROWS, max_size=9)


def closed(rows: Sequence[Row]) -> list[Row]:
    """The same rows on an axis without an open end."""
    return [replace(row, end=LAST if row.end is None else row.end) for row in rows]


def narrowed(rows: Sequence[Row], width: int) -> list[Row]:
    """The same rows with fewer columns in their keys."""
    return [replace(row, key=row.key[:width]) for row in rows]


def plain(key: Iterable[Any]) -> Key:
    """The key as it is compared: -0.0 is 0.0, and every NaN is the same."""
    return tuple("NaN" if each != each else each + 0.0 if isinstance(each, float) else each for each in key)


def at_each_instant(rows: Iterable[tuple[Key, int, int | None]]) -> AtInstants:
    """What (row, start, end) say; a row that is there twice counts twice."""
    found: AtInstants = defaultdict(Counter)
    for key, start, end in rows:
        for instant in range(start, FAR + 1 if end is None else end):
            found[instant][plain(key)] += 1
    return found


def members(rows: Sequence[Row]) -> dict[int, dict[Key, list[Row]]]:
    """The rows of each key that hold at each instant."""
    found: dict[int, dict[Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for instant in row.instants:
            found[instant][plain(row.key)].append(row)
    return found


def once(rows: Sequence[Row]) -> AtInstants:
    """Each key that holds, however often it does."""
    return {instant: Counter(dict.fromkeys(keys, 1)) for instant, keys in members(rows).items()}


def counted(rows: Sequence[Row], count: Callable[[list[int]], int]) -> AtInstants:
    """Each key with the sum, or the greatest, of its counts."""
    return {
        instant: Counter({(*key, count([row.count for row in each])): 1 for key, each in keys.items()})
        for instant, keys in members(rows).items()
    }


def less(left: Sequence[Row], right: Sequence[Row]) -> AtInstants:
    """The counts of the left rows minus those of the right rows, where something remains."""
    ours, theirs = members(left), members(right)
    found: AtInstants = defaultdict(Counter)
    for instant, keys in ours.items():
        for key, rows in keys.items():
            rest = sum(row.count for row in rows) - sum(row.count for row in theirs[instant][key])
            if rest > 0:
                found[instant][(*key, rest)] += 1
    return found


def prolonged(rows: Sequence[Row], by: int, last: int, *, open_end: bool) -> AtInstants:
    """A key holds for ``by`` longer.  After ``last`` it holds if it does at ``last``, or not at all."""
    found: AtInstants = defaultdict(Counter)
    for instant in range(FAR + 1 if open_end else last + 1):
        seen = min(instant, last)
        for row in rows:
            if row.start <= seen and (row.end is None or seen < row.end + by):
                found[instant][plain(row.key)] = 1
    return found


def disjoint(rows: Sequence[Row], *, counts: bool) -> list[Row]:
    """The maximal periods in which a key holds, with the sum of its counts if ``counts``, else with 1."""
    found, there = [], members(rows)
    for key in {plain(row.key): row.key for row in rows}.values():
        course = [
            sum(row.count for row in there[instant][plain(key)]) if counts else min(1, len(there[instant][plain(key)]))
            for instant in range(FAR + 1)
        ]
        start = 0
        for instant in range(1, FAR + 2):
            if instant == FAR + 1 or course[instant] != course[start]:
                if course[start]:
                    end = None if instant == FAR + 1 else instant
                    found.append(Row(key, course[start], None, None, None, start, end))
                start = instant
    return found


def added(numbers: list[float]) -> float:
    """The sum in ascending order, each addition rounded."""
    return reduce(lambda one, other: one + other, sorted(numbers), 0.0)


def fitting(total: Decimal) -> Decimal | None:
    return total if total.copy_abs() < TOO_LARGE else None


def squares(numbers: list[float]) -> float:
    """The sum of the squared differences to the mean, by Welford's steps in ascending order."""
    mean = total = 0.0
    for count, number in enumerate(sorted(numbers), 1):
        before, mean = mean, mean + (number - mean) / count
        total += (number - before) * (number - mean)
    return total


def spread(function: str, numbers: list[float]) -> float | None:
    freedom = len(numbers) - function.endswith("samp")
    if freedom <= 0:
        return None
    variance = squares(numbers) / freedom
    return math.sqrt(variance) if function.startswith("stddev") else variance


def chosen(rows: list[Row], value: str, by: str, best: Callable[..., Any]) -> Any:
    """The least value among the rows with the least or greatest ``by``."""
    known = [row for row in rows if getattr(row, by) is not None]
    if not known:
        return None
    wanted = best(getattr(row, by) for row in known)
    values = [getattr(row, value) for row in known if getattr(row, by) == wanted]
    return min((each for each in values if each is not None), default=None)


def as_json(values: Iterable[Any]) -> str:
    texts = (
        f"{value:.2f}"
        if isinstance(value, Decimal)
        else json.dumps(value, ensure_ascii=False).replace("\\u001f", "\\u001F")
        for value in sorted(values)
    )
    return f"[{','.join(texts)}]"


def measured(rows: list[Row], name: str) -> Any:
    """A measure of a group's rows, such as "count", "sum whole", "count distinct text" and "max_by text whole"."""
    function, *columns = name.split()
    if not columns:
        return len(rows)
    if function in ("min_by", "max_by"):
        return chosen(rows, *columns, min if function == "min_by" else max)
    column = columns[-1]
    values = [value for row in rows if (value := getattr(row, column)) is not None]
    if columns[0] == "distinct" or function == "collect_set":
        values = list(set(values))
    match function:
        case "count":
            return len(values)
        case "array_agg" | "collect_set":
            return as_json(values)
        case "sum" | "avg" if values:
            with localcontext(prec=60):
                total = added(values) if column == "real" else sum(values, Decimal(0) if column == "exact" else 0)
            if function == "avg":
                return float(total) / len(values)
            return fitting(total) if column == "exact" else None if column == "whole" and total >= 2**63 else total
        case "min" | "max" if values:
            return min(values) if function == "min" else max(values)
        case "median" if values:
            return statistics.median(map(float, values))
        case "sum" | "avg" | "min" | "max" | "median":
            return None
        case _:
            return spread(function, [float(value) for value in values])


def aggregates(rows: Sequence[Row], wanted: Sequence[str], ends: int | None, width: int) -> AtInstants:
    """The measures of each key at each instant; without a key, of all instants from 0 to ``ends``."""
    found: AtInstants = defaultdict(Counter)
    there = members(rows)
    for instant in range(FAR + 1 if ends is None else ends):
        groups = there[instant] if width else {(): there[instant][()]}
        for key, each in groups.items():
            found[instant][(*key, *(measured(each, name) for name in wanted))] += 1
    return found
