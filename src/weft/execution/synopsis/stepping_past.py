"""Evaluate ▽, ◇ and since at one time point: which earlier anchors it sees, and which anchors to store after it.

The stored anchors are the same that ``points_past.kept`` stores for a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.algebra.formula import Formula, Interval, Not, Once, Previous, Since, Variable, free_variables
from weft.errors import DerivationError

Row: TypeAlias = "tuple[Any, ...]"
Rows: TypeAlias = "dict[Row, int]"
Run: TypeAlias = "tuple[int, int]"
Anchors: TypeAlias = "dict[tuple[Row, Run | None], int]"
"""Counts by row and by the instants of the first and last anchor of a run; None if instants are not stored."""
Of: TypeAlias = Callable[[Formula], Rows]
Sums: TypeAlias = Callable[[int, int], int]


@dataclass(frozen=True)
class CurrentPoint:
    """A time point, its instant, and the instant of the previous time point (None: this is the first)."""

    tp: int
    at: int
    earlier: int | None


def looked_back(formula: Formula, of: Of, before: Anchors, now: CurrentPoint, *, sums: Sums) -> Rows:
    """Return the value of a temporal formula at a time point; ``of`` returns the values of its parts."""
    if isinstance(formula, Previous):
        if now.earlier is None or not _within(formula.interval, now.at - now.earlier):
            return {}
        return {row: count for (row, _), count in before.items()}
    assert isinstance(formula, (Once, Since))
    if formula.counting == "second":
        return _counted_since(formula, of, before)
    rows: Rows = {}
    for (row, at), count in _anchors(formula, of, before, now, sums).items():
        if at is None or _seen(formula.interval, at, now.at):
            rows[row] = count if formula.counting == "any" else sums(rows.get(row, 0), count)
    return rows


def after(formula: Formula, of: Of, before: Anchors, now: CurrentPoint, *, sums: Sums) -> Anchors:
    """Return what is stored of a temporal formula after a time point."""
    if isinstance(formula, Previous):
        return {(row, None): count for row, count in of(formula.formula).items()}
    assert isinstance(formula, (Once, Since))
    if formula.counting == "second":
        return {(row, None): count for row, count in _counted_since(formula, of, before).items()}
    return _stored_anchors(_anchors(formula, of, before, now, sums), formula, now, sums)


def _seen(interval: Interval, run: Run, now: int) -> bool:
    first, last = run
    return interval.low <= now - first and (interval.high is None or now - last <= interval.high)


def _within(interval: Interval, distance: int) -> bool:
    return interval.low <= distance and (interval.high is None or distance <= interval.high)


def _holding(formula: Once | Since, of: Of) -> Callable[[Row], bool]:
    """Return a function that decides whether Q1 holds for a row."""
    if isinstance(formula, Once):
        return lambda row: True
    negated = isinstance(formula.left, Not)
    left = formula.left.formula if isinstance(formula.left, Not) else formula.left
    places = _places(formula, free_variables(left))
    rows = of(left)
    return lambda row: (tuple(row[place] for place in places) in rows) is not negated


def _places(formula: Formula, wanted: tuple[Variable, ...]) -> list[int]:
    variables = free_variables(formula)
    return [variables.index(each) for each in wanted]


def _new(formula: Once | Since, of: Of) -> Rows:
    """Return the answers of Q2 as rows of the whole formula."""
    right = formula.formula if isinstance(formula, Once) else formula.right
    variables = free_variables(right)
    places = [variables.index(each) for each in free_variables(formula)]
    return {tuple(row[place] for place in places): count for row, count in of(right).items()}


def _anchors(formula: Once | Since, of: Of, before: Anchors, now: CurrentPoint, sums: Sums) -> Anchors:
    """Return the anchors that survive the time point and those that it adds."""
    holds = _holding(formula, of)
    anchors = {key: count for key, count in before.items() if holds(key[0])}
    at = None if formula.interval.everything else (now.at, now.at)
    for row, count in _new(formula, of).items():
        if formula.counting == "any":
            anchors[row, at] = 1
        elif holds(row):
            anchors[row, at] = sums(anchors.get((row, at), 0), count)
    return anchors


def _stored_anchors(anchors: Anchors, formula: Once | Since, now: CurrentPoint, sums: Sums) -> Anchors:
    low, high = formula.interval.low, formula.interval.high
    if formula.interval.everything:
        return anchors
    if formula.counting == "any" and low > 0 and high is not None:
        return {(row, run): 1 for row, run in _runs(anchors, high - low + 1) if run[1] >= now.at - high}
    there: Anchors = {(row, at): n for (row, at), n in _timed(anchors) if high is None or at[1] >= now.at - high}
    if formula.counting == "any":
        best = min if high is None else max
        runs: dict[Row, Run] = {}
        for (row, at), _ in _timed(there):
            runs[row] = best(runs.get(row, at), at)
        return dict.fromkeys(runs.items(), 1)
    return there if high is not None else _old_ones_together(there, now.at - low, sums)


def _timed(anchors: Anchors) -> Iterator[tuple[tuple[Row, Run], int]]:
    for (row, at), count in anchors.items():
        if at is None:
            raise DerivationError("an anchor without an instant")
        yield (row, at), count


def _runs(anchors: Anchors, reach: int) -> Iterator[tuple[Row, Run]]:
    """Yield the runs of each row, after joining runs that follow one another within ``reach``."""
    by_row: dict[Row, list[Run]] = {}
    for (row, at), _ in _timed(anchors):
        by_row.setdefault(row, []).append(at)
    for row, runs in by_row.items():
        first, last = min(runs)
        for one in sorted(runs):
            if one[0] > last + reach:
                yield row, (first, last)
                first, last = one
            last = max(last, one[1])
        yield row, (first, last)


def _old_ones_together(anchors: Anchors, since: int, sums: Sums) -> Anchors:
    """Merge, for each row, the anchors that every later time point sees, at the last of their instants."""
    recent: Anchors = {}
    old: dict[Row, tuple[Run, int]] = {}
    for (row, at), count in _timed(anchors):
        if at[0] > since:
            recent[row, at] = count
        else:
            instant, number = old.get(row, (at, 0))
            old[row] = max(instant, at), sums(number, count)
    return {**recent, **{(row, at): count for row, (at, count) in old.items()}}


def _counted_since(formula: Once | Since, of: Of, before: Anchors) -> Rows:
    """Return the value of since2 or ◇2: the sum of the counts of Q1 since the last answer of Q2."""
    marks = _new(formula, of)
    rows: Rows = {}
    left = Not(formula) if isinstance(formula, Once) else formula.left
    counts = {} if isinstance(left, Not) else of(left)
    places = _places(formula, () if isinstance(left, Not) else free_variables(left))
    holds = _holding(formula, of)
    for row in {row for row, _ in before} | set(marks):
        if holds(row):
            once = 1 if isinstance(left, Not) else counts[tuple(row[place] for place in places)]
            rows[row] = once + (0 if row in marks else before.get((row, None), 0))
    return rows
