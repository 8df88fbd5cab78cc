from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import Refused
from weft.instants import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MIN_INSTANT,
    format_full,
    format_instant,
    format_interval,
    format_rfc3339,
    from_datetime,
    parse_instant,
    parse_interval,
    read_day,
    read_instant,
    to_date,
    to_datetime,
)
from weft.schedule.clock import now_us

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00,5z", 500_000),
        ("1970-01-01 02:00:00 +02:00", 0),
        ("1970-01-01 02:00:00+0200", 0),
        ("1969-12-31T19:00:00-05", 0),
        ("1970-01-01 05:45:00+05:45", 0),
        ("  1970-01-01 00:00:00 UTC  ", 0),
        ("1900-01-01", -2208988800000000),
        ("1970-01-01T00:00:00.0000019", 1),
    ],
)
def test_instants_are_read(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "now", "1993", "1993-13-01", "1993-02-30", "1993-02-03T25:00",
     "1993-02-03 10:00 CET", "93-02-03", "1993-02-03T10:00+99:00", "1993-02-03T10:00+01:75", "2020-01-01; DROP",
     "0000-01-01", "9999-12-31T23:00-02:00", "0001-01-01 00:00 +01:00"],
)  # fmt: skip
def test_an_invalid_instant_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_instant(text)
    assert refused.value.hint


@given(st.datetimes(timezones=st.just(dt.timezone.utc)))
def test_shown_instants_are_read_back(moment: dt.datetime) -> None:
    instant = (moment - EPOCH) // dt.timedelta(microseconds=1)
    assert parse_instant(format_instant(instant)) == instant


@given(st.datetimes(timezones=st.just(dt.timezone.utc)))
def test_every_form_names_the_same_instant(moment: dt.datetime) -> None:
    instant = from_datetime(moment)
    assert to_datetime(instant) == moment
    assert instant == (moment - EPOCH) // dt.timedelta(microseconds=1)
    assert read_instant(format_rfc3339(instant)) == read_instant(format_full(instant)) == instant
    assert dt.datetime.fromisoformat(format_full(instant)) == moment.replace(tzinfo=None)


def test_days_are_read() -> None:
    assert [read_day(text) for text in ("1970-01-01", " 1969-12-31 ", "1970-02-30", "1970-1-1", "0000-01-01")] == [
        0,
        -1,
        None,
        None,
        None,
    ]
    assert to_date(-1) == dt.date(1969, 12, 31)


def test_the_ends_of_the_calendar() -> None:
    assert format_instant(FIRST_INSTANT) == "0001-01-01 00:00:00 UTC"
    assert format_rfc3339(LAST_INSTANT) == "9999-12-31T23:59:59.999999Z"
    assert format_rfc3339(LAST_INSTANT + 1) == str(LAST_INSTANT + 1)
    assert format_full(LAST_INSTANT + 1) == "9999-12-31 23:59:59.999999"
    assert format_instant(733_968_000_500_000) == "1993-04-05 00:00:00.5 UTC"


def test_instants_are_shown() -> None:
    assert format_instant(parse_instant("1993-04-05 12:00")) == "1993-04-05 12:00:00 UTC"
    assert format_instant(1) == "1970-01-01 00:00:00.000001 UTC"
    assert format_instant(MIN_INSTANT) == "the beginning of time"
    assert format_instant(2**62).endswith("after 1970-01-01 00:00:00 UTC")


def test_intervals_are_read() -> None:
    assert parse_interval("10m") == 600_000_000
    assert parse_interval("90s") == 90_000_000
    assert parse_interval("1h 30M") == 5_400_000_000
    assert parse_interval("2d") == 2 * 86_400_000_000
    assert parse_interval("1w") == 7 * 86_400_000_000
    assert parse_interval("250ms") == 250_000


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "0s", "1.5h", "5 minutes", "1y", "99999999999d"])
def test_an_invalid_interval_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_interval(text)


@given(st.integers(1, 10**15))
def test_intervals_are_read_back(length: int) -> None:
    assert parse_interval(format_interval(length)) == length


def test_the_clock_goes_on() -> None:
    first = now_us()
    assert first > parse_instant("2024-01-01")
    assert now_us() >= first
    assert format_interval(0) == "0s"
    assert format_interval(-60_000_000) == "-1m"
