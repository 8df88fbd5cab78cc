"""Render the past operators over relations over time points as SQL (``steps`` defines the relations).

In ◇Q or Q1 since Q, an *anchor* is an answer of Q to which later time points refer.  A relation of anchors has the
columns ``v1 … vk, [n,] instant, from_tp, until``.  ``instant`` is the anchor's instant in microseconds.  ``from_tp`` is
the first time point at which the anchor may be visible.  ``until`` is the first later time point at which Q1 is false.
The store contains the anchors of earlier batches with their instants.

With a window [a, b], an anchor at the instant i is visible from the instant i + a to the instant i + b.  Instants never
decrease, so the anchor is visible at consecutive time points.  If the lower bound a is 0, a period of Q is one anchor,
because later time points depend only on the end of the period.  If the lower bound a is not 0, or if answers are
counted, each answer is an anchor.  Anchors without counts are stored as *runs*, from ``instant`` to ``last``.
Consecutive anchors of a run are at most b - a + 1 microseconds apart.  Together, the anchors of a run are visible
without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.algebra.formula import Interval
from weft.period_sql.notation import POINTS, RUNS, Dialect, conjunction, listed, over
from weft.period_sql.steps import PERIOD, Extent, Steps, agreeing, containing, gaps, spread
from weft.period_sql.sweep import Sweep

PERIOD_OF_A: Final = ("a.from_tp", "a.to_tp")
FROM: Final = "from_tp"
TIME_POINTS: Final = "time_points"
"""The table of the batch's time points, with the columns ``tp``, ``instant`` and ``earlier``.

``earlier`` is the instant of the previous time point, or NULL.
"""


def shifted(steps: Steps | None, extent: Extent, stored: Steps | None, *, counted: bool) -> str:
    """Return SQL for the answers of ▽Q, which are the answers of Q one time point later.

    ``steps`` are the answers of Q in the batch.  ``stored`` are the answers of Q at the last time point before the
    batch.  One of ``steps`` and ``stored`` may be None.  If ``counted`` is true, the result always has counts.
    """
    parts = []
    if steps is not None:
        later = ("from_tp + 1 AS from_tp", f"LEAST(to_tp + 1, {extent.end}) AS to_tp")
        heads = listed(steps.values(), _counts(steps, counted=counted), later)
        parts.append(f"SELECT {heads} FROM {steps.source} AS given WHERE from_tp < {extent.last}")
    if stored is not None:
        here = (f"CAST({extent.first} AS BIGINT) AS from_tp", f"CAST({extent.first + 1} AS BIGINT) AS to_tp")
        heads = listed(stored.values(), _counts(stored, counted=counted), here)
        parts.append(f"SELECT {heads} FROM {stored.source} AS stored")
    return " UNION ALL ".join(parts)


def _counts(steps: Steps, *, counted: bool) -> list[str]:
    return [f"CAST({steps.count()} AS BIGINT) AS n"] if counted else []


def near_enough(interval: Interval, dialect: Dialect) -> str:
    """Return SQL for time points (``from_tp, to_tp``) at a distance in ``interval`` from their predecessors."""
    distance = "instant - earlier"
    within = [f"{distance} >= {interval.low}", *([] if interval.high is None else [f"{distance} <= {interval.high}"])]
    rows = f"SELECT tp AS from_tp, tp + 1 AS to_tp FROM {TIME_POINTS} WHERE {conjunction(within)}"
    return Sweep(POINTS, dialect).coalesced(rows, 0)


def at_the_end(steps: Steps, extent: Extent, *, counted: bool) -> str:
    """Return SQL for the answers at the last time point of the batch: ``v1 … vk [, n]``."""
    heads = listed(steps.values(), _counts(steps, counted=counted)) or "TRUE AS there"
    return f"SELECT {heads} FROM {steps.source} AS given WHERE to_tp = {extent.end}"


@dataclass(frozen=True)
class Window:
    """The parameters of ◇ or since.

    ``interval`` defines which earlier instants are visible.  If ``each`` is true, every answer is an anchor.  If
    ``counted`` is true, the answers have counts.  If ``strict`` is true, an anchor is visible only at later time
    points.
    """

    interval: Interval
    each: bool
    counted: bool
    strict: bool = False

    @property
    def timed(self) -> bool:
        """Whether the operator depends on instants."""
        return not self.interval.everything

    @property
    def runs(self) -> bool:
        """Whether anchors are stored as runs."""
        return self.each and not self.counted and not self.strict and self.interval.high is not None


def anchors(right: Steps | None, stored: Steps | None, window: Window, extent: Extent, dialect: Dialect) -> str:
    """Return SQL for the anchors in a batch and in the store.

    The column ``after`` is the first time point at which Q1 must hold.
    """
    parts = []
    count = ["a.n"] if window.counted else []
    if right is not None and window.counted:
        count = [f"CAST({right.count('a')} AS BIGINT) AS n"]
    if right is not None and window.each:
        last = ["p.instant AS last"] if window.runs else []
        begin = "p.tp + 1 AS from_tp" if window.strict else "p.tp AS from_tp"
        heads = listed(right.values("a"), count, "p.instant", last, begin, "p.tp + 1 AS after")
        each = f"({spread(right, dialect)}) AS a"
        parts.append(f"SELECT {heads} FROM {each} JOIN {TIME_POINTS} AS p ON p.tp = a.tp")
    elif right is not None:
        instant = "p.instant" if window.timed else "CAST(0 AS BIGINT) AS instant"
        heads = listed(right.values("a"), count, instant, "a.from_tp", "a.to_tp AS after")
        timed = f" JOIN {TIME_POINTS} AS p ON p.tp = a.to_tp - 1" if window.timed else ""
        parts.append(f"SELECT {heads} FROM {right.source} AS a{timed}")
    if stored is not None:
        count = ["a.n"] if window.counted else []
        instant = "a.instant" if window.timed else "CAST(0 AS BIGINT) AS instant"
        here = (f"CAST({extent.first} AS BIGINT) AS from_tp", f"CAST({extent.first} AS BIGINT) AS after")
        last = ["a.last"] if window.runs else []
        parts.append(f"SELECT {listed(stored.values('a'), count, instant, last, here)} FROM {stored.source} AS a")
    return " UNION ALL ".join(parts)


def lasting(
    anchored: Steps, left: Steps | None, extent: Extent, dialect: Dialect, *, negated: bool, window: Window
) -> str:
    """Return SQL that adds the column ``until`` to anchors.

    ``until`` is the first time point at which Q1 is false, or the end of the batch.  ``anchored`` is the result of
    ``anchors``.  ``left`` contains the answers of Q1.  If ``negated`` is true, ``left`` contains the answers of ¬Q1.
    ``left`` is None if it would have no rows, for example if Q1 is true.
    """
    instants = ["a.instant", *(["a.last"] if window.runs else [])]
    heads = [*anchored.values("a"), *(["a.n"] if window.counted else []), *instants, "a.from_tp"]
    if left is None:
        until = extent.end if negated else "a.after"
        return f"SELECT {listed(heads, f'{until} AS until')} FROM {anchored.source} AS a"
    answers = f"SELECT {listed(left.values(), PERIOD)} FROM {left.source} AS given"
    held = gaps(left, extent) if negated else Sweep(POINTS, dialect).coalesced(answers, len(left.variables))
    runs = Steps(f"({held})", left.variables)
    source = containing(anchored, runs, "a.after", dialect, "LEFT")
    until = "CASE WHEN a.after < b.to_tp THEN b.to_tp ELSE a.after END"
    if negated:
        keys = listed(left.values())
        group = f" GROUP BY {keys}" if keys else " HAVING COUNT(*) > 0"
        known = f"(SELECT {listed(keys, 'MIN(from_tp) AS first_tp')} FROM {left.source} AS given{group})"
        source += f" LEFT JOIN {known} AS k ON {conjunction(agreeing(anchored, left, 'a', 'k'))}"
        until = f"CASE WHEN k.first_tp IS NULL THEN {extent.end} ELSE {until} END"
    return f"SELECT {listed(heads, f'{until} AS until')} FROM {source}"


def reach(source: str, window: Window, extent: Extent, dialect: Dialect) -> str:
    """Return SQL for the time points at which the anchors of each instant are visible.  The columns are ``instant,
    reach_from, reach_to``.
    """
    interval = window.interval
    instants = f"SELECT instant, tp FROM {TIME_POINTS}"
    for column in ("instant", "last") if window.runs else ("instant",):
        instants += f" UNION ALL SELECT {column} AS instant, CAST(NULL AS BIGINT) AS tp FROM {source} AS anchors"
    moments = f"SELECT instant, MIN(tp) AS tp FROM ({instants}) AS instants GROUP BY instant"
    distances = {}
    if interval.low:
        distances["reach_from"] = interval.low
    if interval.high is not None:
        distances["reach_to"] = interval.high + 1
    found = (_first_ahead if dialect.ahead else _first_before)(moments, distances)
    begin = "reach_from" if interval.low else "CAST(NULL AS BIGINT) AS reach_from"
    end = f"CAST({extent.end} AS BIGINT)" if interval.high is None else f"COALESCE(reach_to, {extent.end})"
    return f"SELECT instant, {begin}, {end} AS reach_to FROM ({found}) AS found"


def _first_ahead(moments: str, distances: Mapping[str, int]) -> str:
    """Return SQL for the first time point at the distance ``distances[name]`` or later, as the column ``name``."""
    firsts = (
        f"MIN(tp) OVER (ORDER BY instant RANGE BETWEEN {distance} FOLLOWING AND UNBOUNDED FOLLOWING) AS {name}"
        for name, distance in distances.items()
    )
    return f"SELECT {listed('instant', firsts)} FROM ({moments}) AS moments"


def _first_before(moments: str, distances: Mapping[str, int]) -> str:
    """Return the same as ``_first_ahead``, by a running minimum over the moments and the distant instants together.

    The order is descending, so that the later time points come first.
    """
    there = [f"CAST({distance} AS BIGINT)" for distance in (0, *distances.values())]
    each = f"SELECT instant, tp, POSEXPLODE(ARRAY({listed(there)})) AS (kind, distance) FROM ({moments}) AS moments"
    kinds = f"SELECT instant, kind, instant + distance AS far, CASE WHEN kind = 0 THEN tp END AS tp FROM ({each}) AS e"
    window = over((), "far DESC, kind", "ROWS UNBOUNDED PRECEDING")
    running = f"SELECT instant, kind, MIN(tp) {window} AS first_tp FROM ({kinds}) AS kinds"
    firsts = (f"MIN(CASE WHEN kind = {n} THEN first_tp END) AS {name}" for n, name in enumerate(distances, 1))
    return f"SELECT {listed('instant', firsts)} FROM ({running}) AS running WHERE kind > 0 GROUP BY instant"


def seen(answers: Steps, reached: str | None, window: Window, dialect: Dialect) -> str:
    """Return SQL for the answers of ◇ or since.  The counts of equal answers are added.

    ``reached`` is the name of the table that ``reach`` defines, or None.
    """
    count = ["n"] if window.counted else []
    begin, end, joint = "a.from_tp", "a.until", ""
    if reached is not None:
        begin = "r.reach_from" if window.interval.low else begin
        end = f"LEAST({end}, {'e' if window.runs else 'r'}.reach_to)"
        joint = f" JOIN {reached} AS r ON a.instant = r.instant"
        joint += f" JOIN {reached} AS e ON a.last = e.instant" if window.runs else ""
    heads = listed(answers.values("a"), [f"a.{each}" for each in count], f"{begin} AS from_tp", f"{end} AS to_tp")
    every = f"SELECT {heads} FROM {answers.source} AS a{joint}"
    some = f"SELECT {listed(answers.values(), count, PERIOD)} FROM ({every}) AS given WHERE from_tp < to_tp"
    sweep = Sweep(POINTS, dialect)
    return (sweep.added_up if window.counted else sweep.coalesced)(some, len(answers.variables))


def anchors_to_store(anchored: Steps, window: Window, extent: Extent, now: int, dialect: Dialect) -> str:
    """Return SQL for the anchors to store: ``v1 … vk [, instant [, last]] [, n]``.

    ``now`` is the last instant of the batch.  The SQL omits an anchor if Q1 was false afterwards, or if the anchor will
    never be visible again.

    Without counts, anchors with the same values are merged.  If the interval has no upper bound, the earliest anchor
    remains.  If the lower bound is 0, the latest anchor remains.  In other cases, anchors are merged into runs.  With
    counts, anchors with the same values and the same instant are merged, and their counts are added.  If the interval
    has no upper bound, all visible anchors with the same values are merged.
    """
    low, high = window.interval.low, window.interval.high
    keys = POINTS.columns(len(anchored.variables))
    if window.runs and high is not None:
        # As periods [instant, last + apart), anchors of one run touch.
        apart = high - low + 1
        reaching = listed(keys, "instant", f"last + {apart} AS last")
        alive = f"SELECT {reaching} FROM {anchored.source} AS anchors WHERE until = {extent.end}"
        # A run retains its start before the window, so that the result does not depend on the batches.
        runs = f"({Sweep(RUNS, dialect).coalesced(alive, len(keys))}) AS runs WHERE last >= {now - high + apart}"
        return f"SELECT {listed(keys, 'instant', f'last - {apart} AS last')} FROM {runs}"
    there = [f"until = {extent.end}", *([f"instant >= {now - high}"] if high is not None else [])]
    rows = f"{anchored.source} AS anchors WHERE {conjunction(there)}"
    instant, group = "", listed(keys)
    if window.timed:
        instant = "MIN(instant) AS instant" if high is None and not window.counted else "MAX(instant) AS instant"
        if window.counted:
            one = f"CASE WHEN instant > {now - low} THEN instant END"
            group = listed(keys, one if high is None else "instant")
    count = ["CAST(SUM(n) AS BIGINT) AS n"] if window.counted else []
    heads = listed(keys, instant, count) or "TRUE AS there"
    tail = f" GROUP BY {group}" if group else " HAVING COUNT(*) > 0"
    return f"SELECT {heads} FROM {rows}{tail}"


def seen_before(stored: Steps, interval: Interval, at: int, *, runs: bool) -> str:
    """Return SQL for the answers of ◇ or since at the last time point before the batch: ``v1 … vk [, n]``.

    ``at`` is the instant of this time point in microseconds.
    """
    seen_now = [f"instant <= {at - interval.low}"]
    if interval.high is not None:
        seen_now.append(f"{'last' if runs else 'instant'} >= {at - interval.high}")
    keys = stored.values()
    heads = listed(keys, ["CAST(SUM(n) AS BIGINT) AS n"] if stored.counted else []) or "TRUE AS there"
    tail = f" GROUP BY {listed(keys)}" if keys else " HAVING COUNT(*) > 0"
    return f"SELECT {heads} FROM {stored.source} AS stored WHERE {conjunction(seen_now)}{tail}"


def since_the_last(alive: Steps, marks: Steps | None, stored: Steps | None, dialect: Dialect) -> str:
    """Return SQL for since2, the number of answers of Q1 since the last answer of Q2, at each time point.

    ``alive`` contains the time points at which Q1 has held since the last answer of Q2, with the counts of Q1.
    ``marks`` contains the answers of Q2.  ``stored`` contains the counts at the end of the previous batch.
    """
    keys = POINTS.columns(len(alive.variables))
    values = [f"{alive.column(variable, 'a')} AS {key}" for variable, key in zip(alive.variables, keys, strict=True)]
    source, mark = f"{alive.source} AS a", "0"
    if marks is not None:
        source = containing(alive, marks, "a.from_tp", dialect, "LEFT")
        mark = "CASE WHEN a.from_tp < b.to_tp THEN 1 ELSE 0 END"
    heads = listed(values, f"{alive.count('a')} AS n", PERIOD_OF_A, f"{mark} AS mark")
    marked = f"SELECT {heads} FROM {source}"
    runs = f"SELECT {listed(keys, 'n', PERIOD, f'SUM(mark) {over(keys, FROM)} AS run')} FROM ({marked}) AS marked"
    total, joint = f"SUM(a.n) {over([*POINTS.columns(len(keys), 'a'), 'a.run'], 'a.from_tp')}", ""
    if stored is not None:
        joint = f" LEFT JOIN {stored.source} AS s ON {conjunction(agreeing(alive, stored, 'a', 's'))}"
        total += " + CASE WHEN a.run = 0 THEN COALESCE(s.n, 0) ELSE 0 END"
    heads = listed(POINTS.columns(len(keys), "a"), f"CAST({total} AS BIGINT) AS n", PERIOD_OF_A)
    return f"SELECT {heads} FROM ({runs}) AS a{joint}"
