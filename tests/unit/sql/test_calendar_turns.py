"""Comparisons of calendar functions of NOW: the thresholds are all the instants at which the truth changes.

The expected truth is computed in plain Python from the function itself, at the instants around each month end, midnight
and change of a clock, and just before and after the thresholds that Weft computes.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Iterable
from itertools import chain, pairwise, zip_longest
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluated import DAY, judged, months_later, shown, value
from netnews import table
from temporal_values import tracked
from weft.algebra.access import DeltaScan
from weft.algebra.calendar import near
from weft.algebra.relation import NowBefore, NowFrom, Predicate, Turns, condition, opposite
from weft.algebra.schema import DATE, INT, TIMESTAMP
from weft.algebra.traverse import thresholds, walk
from weft.derivation.access_paths import access_paths
from weft.errors import SqlError
from weft.planning.explain import explain
from weft.planning.plan import plan
from weft.sql.lower.query import bind
from weft.sql.lower.zones import changes

TABLES = {"t": table(1, "t", {"c": TIMESTAMP, "d": DATE, "y": INT})}
MICRO = dt.timedelta(microseconds=1)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
operators = st.sampled_from(sorted(OPERATORS))
days = st.one_of(
    st.dates(dt.date(1995, 1, 1), dt.date(2010, 12, 31)),
    st.builds(
        lambda year, month, back: dt.date(year, month, calendar.monthrange(year, month)[1] - back),
        st.integers(1995, 2010), st.integers(1, 12), st.integers(0, 3),
    ),
)  # fmt: skip
times = st.one_of(
    st.sampled_from([dt.time(0), dt.time(12), dt.time(0, 0, 0, 1), dt.time(23, 59, 59, 999_999)]), st.times()
)
moments = st.builds(dt.datetime.combine, days, times)
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Juneau", "Asia/Kolkata", "+05:30", "UTC")


def where(text: str) -> Predicate:
    """The predicate of a condition on the table t."""
    return condition(bind(f"SELECT c FROM t WHERE {text}", TABLES).input)


def limits(predicate: Predicate, row: dict[str, Any]) -> list[dt.datetime]:
    found = (value(part.threshold, row) for part in walk(predicate) if isinstance(part, (NowFrom, NowBefore)))
    return [each for each in found if each is not None]


def check(
    text: str, row: dict[str, Any], wanted: Callable[[dt.datetime], bool | None], nows: Iterable[dt.datetime]
) -> None:
    """The condition is true at exactly the instants at which ``wanted`` is; its negation, at which that is False."""
    for given_text, sense in ((text, True), (f"NOT ({text})", False)):
        predicate = where(given_text)
        every = {each + step for each in (*nows, *limits(predicate, row)) for step in (-MICRO, 0 * MICRO, MICRO)}
        found = judged(predicate, row)
        for now in sorted(every):
            assert found(now) == (wanted(now) is sense), (given_text, now)
        for part in walk(predicate):
            if isinstance(part, Turns):
                check_periods(part, row, sorted(every))


def check_periods(part: Turns, row: dict[str, Any], nows: list[dt.datetime]) -> None:
    """The periods of a comparison and of its negation exclude each other, follow each other, and leave no gap."""
    held, broken = ([judged(item, row) for item in each.items] for each in (part, opposite(part)))
    in_turn = [*chain.from_iterable(zip_longest(*((held, broken) if part.begun else (broken, held))))]
    places = [[place for place, found in enumerate(in_turn) if found is not None and found(now)] for now in nows]
    assert all(len(each) == 1 for each in places), part
    if all(isinstance(turn, NowFrom) for turn in part.turns):
        assert places == sorted(places), part


def around(expected: dt.datetime, time: dt.time, reach: int = 40) -> list[dt.datetime]:
    """The midnights near a moment, and the same time on each day."""
    dates = [expected.date() + n * DAY for n in range(-reach, reach + 1)]
    return [dt.datetime.combine(date, at) for date in dates for at in (dt.time(0), time)]


@settings(max_examples=40)
@given(moments, st.sampled_from([1, -1, 2, 3, 5, 6, 11, 12, 13, -12, 24, 48, 1200]), operators)
@example(dt.datetime(1999, 2, 28, 12), 1, ">=")
@example(dt.datetime(2000, 2, 29, 12), 12, ">")
@example(dt.datetime(1999, 2, 28, 12), 12, "<")
@example(dt.datetime(1999, 4, 30, 23), 1, "=")
def test_now_moved_by_months(c: dt.datetime, months: int, operator: str) -> None:
    expected = months_later(c, months)
    check(
        f"NOW() - INTERVAL '{months}' MONTH {operator} c",
        {"c": c},
        lambda now: OPERATORS[operator](months_later(now, -months), c),
        around(expected, c.time()),
    )


@settings(max_examples=40)
@given(moments, st.sampled_from([1, -1, 3, 12]), operators)
def test_days_moved_by_months(c: dt.datetime, months: int, operator: str) -> None:
    def wanted(now: dt.datetime) -> bool:
        day = dt.datetime.combine(now.date(), dt.time(0))
        return OPERATORS[operator](months_later(day, -months), c)

    nows = around(months_later(c, months), c.time())
    check(f"ADD_MONTHS(NOW(), {-months}) {operator} c", {"c": c}, wanted, nows)
    check(f"CURRENT_DATE - INTERVAL '{months}' MONTH {operator} c", {"c": c}, wanted, nows)
    row, day = {"d": c.date()}, dt.datetime.combine(c.date(), dt.time(0))
    by_day = lambda now: OPERATORS[operator](months_later(dt.datetime.combine(now.date(), dt.time(0)), -months), day)  # noqa: E731
    check(f"ADD_MONTHS(CURRENT_DATE, {-months}) {operator} d", row, by_day, nows)


def months_between(start: dt.datetime, end: dt.datetime) -> int:
    """Whole months from start to end, towards 0, as Java counts them."""
    day = end.date()
    if end > start and end.time() < start.time():
        day -= DAY
    if end < start and end.time() > start.time():
        day += DAY
    packed = lambda date: (date.year * 12 + date.month) * 32 + date.day  # noqa: E731
    difference = packed(day) - packed(start.date())
    return difference // 32 if difference >= 0 else -(-difference // 32)


@settings(max_examples=40)
@given(moments, st.integers(-4, 5), operators, st.sampled_from([("MONTH", 1), ("QUARTER", 3), ("YEAR", 12)]))
@example(dt.datetime(1999, 1, 31, 12), 1, ">=", ("MONTH", 1))
@example(dt.datetime(1999, 3, 31, 12), -1, "<=", ("MONTH", 1))
def test_whole_months_until_now(c: dt.datetime, count: int, operator: str, unit: tuple[str, int]) -> None:
    def wanted(now: dt.datetime) -> bool:
        months = months_between(c, now)
        return OPERATORS[operator](months // unit[1] if months >= 0 else -(-months // unit[1]), count)

    nows = [each for more in (-1, 0, 1) for each in around(months_later(c, (count + more) * unit[1]), c.time(), 3)]
    check(f"TIMESTAMPDIFF({unit[0]}, c, NOW()) {operator} {count}", {"c": c}, wanted, nows)


@settings(max_examples=40)
@given(moments, operators, st.integers(-2, 2))
def test_years_and_last_days(c: dt.datetime, operator: str, more: int) -> None:
    compared = OPERATORS[operator]
    starts = [dt.datetime(c.year + n, 1, 1) for n in range(-4, 5)]
    check(f"YEAR(NOW()) {operator} YEAR(c) + {more}", {"c": c}, lambda now: compared(now.year, c.year + more), starts)
    check(f"YEAR(NOW()) {operator} {c.year}", {}, lambda now: compared(now.year, c.year), starts)
    check(f"y + {more} {operator} YEAR(NOW())", {"y": c.year}, lambda now: compared(c.year + more, now.year), starts)

    def last_day(now: dt.datetime) -> dt.datetime:
        return dt.datetime(now.year, now.month, calendar.monthrange(now.year, now.month)[1])

    check(f"LAST_DAY(NOW()) {operator} c", {"c": c}, lambda now: compared(last_day(now), c), around(c, c.time()))


def clock_changes(zone: str) -> list[dt.datetime]:
    """The instants at which a clock changes, to the quarter of an hour, near the dates of ``moments``."""
    hours = [dt.datetime(1995, 1, 1) + n * dt.timedelta(hours=12) for n in range(16 * 366 * 2)]
    found = []
    for before, after in pairwise(hours):
        if shown(before, zone) - before != shown(after, zone) - after:
            quarters = [before + n * dt.timedelta(minutes=15) for n in range(49)]
            found += [b for a, b in pairwise(quarters) if shown(a, zone) - a != shown(b, zone) - b]
    return found


CHANGES = {zone: clock_changes(zone) for zone in ZONES}


@st.composite
def clock_times(draw: st.DrawFn) -> tuple[str, dt.datetime]:
    """A zone, and what its clock shows or skips near one of its changes, or at another time."""
    zone = draw(st.sampled_from(ZONES))
    if not CHANGES[zone] or draw(st.integers(0, 4)) == 0:
        return zone, draw(moments)
    near_change = shown(draw(st.sampled_from(CHANGES[zone])), zone)
    quarters = draw(st.integers(-12, 12)) * dt.timedelta(minutes=15)
    return zone, near_change + quarters + draw(st.sampled_from([-1, 0, 0, 1])) * MICRO


@settings(max_examples=40)
@given(clock_times(), operators)
def test_the_clock_of_a_zone(drawn: tuple[str, dt.datetime], operator: str) -> None:
    zone, c = drawn
    nows = [c + n * dt.timedelta(minutes=15) for n in range(-60, 61)]
    wanted = lambda now: OPERATORS[operator](shown(now, zone), c)  # noqa: E731
    check(f"FROM_UTC_TIMESTAMP(NOW(), '{zone}') {operator} c", {"c": c}, wanted, nows)
    check(
        f"c {operator} CONVERT_TIMEZONE('{zone}', NOW())",
        {"c": c},
        lambda now: OPERATORS[operator](c, shown(now, zone)),
        nows,
    )


@settings(max_examples=15)
@given(clock_times(), operators)
def test_days_and_months_of_a_zone(drawn: tuple[str, dt.datetime], operator: str) -> None:
    zone, c = drawn
    nows = [c + n * dt.timedelta(hours=1) for n in range(-50, 51)]
    check(
        f"CAST(FROM_UTC_TIMESTAMP(NOW(), '{zone}') AS DATE) {operator} d",
        {"d": c.date()},
        lambda now: OPERATORS[operator](shown(now, zone).date(), c.date()),
        nows,
    )
    check(
        f"FROM_UTC_TIMESTAMP(NOW(), '{zone}') - INTERVAL 1 MONTH {operator} c",
        {"c": c},
        lambda now: OPERATORS[operator](months_later(shown(now, zone), -1), c),
        around(months_later(c, 1), c.time(), 4),
    )


@pytest.mark.parametrize(
    "text",
    ["NOW() - INTERVAL 1 MONTH > c", "ADD_MONTHS(NOW(), -1) > d", "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin') > c",
     "TIMESTAMPDIFF(MONTH, c, NOW()) >= 1", "YEAR(NOW()) = YEAR(c)", "LAST_DAY(NOW()) < c"],
)  # fmt: skip
def test_null_is_neither_true_nor_false(text: str) -> None:
    row = {"c": None, "d": None}
    for given_text in (text, f"NOT ({text})"):
        assert not any(judged(where(given_text), row)(dt.datetime(year, 3, 1)) for year in (1970, 2000, 2030))


@settings(max_examples=15)
@given(moments, st.sampled_from([1, 3, 12, 120, -1]), st.sampled_from(ZONES))
def test_the_slack_of_a_delta_scan_covers_each_threshold(c: dt.datetime, months: int, zone: str) -> None:
    for text in (
        f"NOW() - INTERVAL '{months}' MONTH >= c",
        f"c + INTERVAL '{months}' MONTH <= NOW()",
        f"ADD_MONTHS(NOW(), {months}) < c",
        f"TIMESTAMPDIFF(MONTH, c, NOW()) >= {months}",
        f"FROM_UTC_TIMESTAMP(NOW(), '{zone}') - INTERVAL '{months}' MONTH < c",
    ):
        for part in walk(where(text)):
            if isinstance(part, (NowFrom, NowBefore)):
                moved, slack = near(part.threshold)
                assert value(moved.base, {"c": c}) == c and not moved.intervals
                off = value(part.threshold, {"c": c}) - c - dt.timedelta(microseconds=moved.micros)
                assert abs(off) <= dt.timedelta(microseconds=slack), (text, off)


def test_each_branch_of_a_threshold_reads_a_slice_of_the_table() -> None:
    found = plan("SELECT c FROM t WHERE NOW() - INTERVAL 1 MONTH >= c", TABLES)
    paths = [access_paths(event)["t"] for event in found.branches]
    assert len(paths) == 5 and all(isinstance(path, DeltaScan) for path in paths)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("TIMESTAMPDIFF(MONTH, c, NOW()) >= 2", "NOW reaches an instant of the calendar about 61 days after t.c"),
        ("TIMESTAMPDIFF(MONTH, c, NOW() - INTERVAL 3 DAYS) >= 2", "an instant of the calendar about 64 days after t.c"),
        (
            "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin') > c",
            "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin') > t.c becomes true or false",
        ),
        ("ADD_MONTHS(NOW(), 12) >= c", "NOW reaches an instant of the calendar about 365 days before t.c"),
        ("c + INTERVAL 1 YEAR <= NOW()", "NOW reaches t.c + INTERVAL 1 YEAR"),
    ],
)
def test_explain_says_where_an_instant_of_the_calendar_is(text: str, words: str) -> None:
    assert words in "\n".join(explain(plan(f"SELECT c FROM t WHERE {text}", TABLES)).brief)


@pytest.mark.parametrize("comparison", ["MAX(t.c) < NOW() - INTERVAL 1 MONTH", "MIN(t.c) > NOW() - INTERVAL 1 YEAR"])
def test_explain_shows_a_condition_on_an_aggregate_and_the_calendar_as_written(comparison: str) -> None:
    text = f"SELECT COUNT(*) AS n FROM t GROUP BY d HAVING {comparison}"
    shown = "\n".join(explain(plan(text, TABLES)).brief)
    assert f"too: {comparison} becomes true or false" in shown and "instant of the calendar" not in shown


def test_the_past_between_two_instants_of_the_calendar() -> None:
    tables = {"s": tracked(1, "s", id="INT")}
    ordered = plan("SELECT id FROM s FOR SYSTEM_TIME FROM (NOW() - INTERVAL 2 MONTHS) TO NOW()", tables)
    assert len([part for part in walk(ordered.query) if isinstance(part, NowFrom)]) == 8 and "1970" not in ordered.text
    with pytest.raises(SqlError, match="their order depends on NOW"):
        plan("SELECT id FROM s FOR SYSTEM_TIME FROM (NOW() - INTERVAL 1 MONTH) TO (NOW() - INTERVAL 30 DAYS)", tables)


def test_how_clocks_change() -> None:
    hour = 3_600_000_000
    assert [(each.size, each.phase) for each in changes("Europe/Berlin") or ()] == [(hour, 0)]
    assert [(each.size, each.phase) for each in changes("Australia/Adelaide") or ()] == [(hour, hour // 2)]
    assert changes("+02:00") == changes("Asia/Kolkata") == ()
    assert changes("Asia/Gaza") is None


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("MONTH(NOW()) = 3", "the condition becomes true and false without end", "DATE_TRUNC('MONTH', NOW())"),
        ("HOUR(FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin')) >= 9", "HOUR of NOW()", "Compare whole times"),
        ("FROM_UTC_TIMESTAMP(NOW(), 'Asia/Gaza') > c", "has changed at irregular instants", "'+02:00'"),
        ("FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berln') > c", "is not a time zone", "Did you mean 'Europe/Berlin'?"),
        ("FROM_UTC_TIMESTAMP(NOW(), CAST(y AS STRING)) > c", "takes a constant time zone", "'Europe/Berlin'"),
        ("TIMESTAMPDIFF(MONTH, NOW(), c) >= 2", "a number of MONTHS from NOW()", "NOW() <= DATEADD(MONTH, -2, ts)"),
        ("TIMESTAMPDIFF(MONTH, c, NOW()) >= y", "compare it with a constant whole number", "INTERVAL 36 HOURS"),
        ("NOW() - INTERVAL '1 month 2 days' > c", "an INTERVAL of months and of days", "Add two intervals"),
    ],
)
def test_a_condition_without_thresholds_is_refused(text: str, reason: str, hint: str) -> None:
    with pytest.raises(SqlError) as refused:
        where(text)
    assert reason in str(refused.value) and hint in str(refused.value)


def test_a_comparison_has_few_thresholds() -> None:
    counts = {text: sum(1 for _ in thresholds(bind(f"SELECT c FROM t WHERE {text}", TABLES))) for text in (
        "NOW() - INTERVAL 1 MONTH > c", "NOW() - INTERVAL 1 YEAR > c", "ADD_MONTHS(NOW(), -1) > d",
        "FROM_UTC_TIMESTAMP(NOW(), 'Europe/Berlin') > c",
    )}  # fmt: skip
    assert list(counts.values()) == [7, 3, 1, 3]
