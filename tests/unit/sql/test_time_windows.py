"""WINDOW: each row is in exactly the windows that contain its time, computed here by a search of all windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluated import EPOCH, micros, moment
from netnews import MSGS, TABLES
from weft.algebra.calendar import near
from weft.algebra.relation import NowFrom
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import TIMESTAMP
from weft.algebra.traverse import thresholds
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.sql.dialects.duckdb_dialect import MACROS, local_text
from weft.sql.lower.query import bind

MINUTE = 60_000_000


def rows(text: str, times: Sequence[dt.datetime | None]) -> list[tuple[Any, ...]]:
    """The rows of a query over the table msgs, in which each row has a time ``date``."""
    with duckdb.connect() as connection:
        for name, body in MACROS.items():
            connection.execute(f"CREATE MACRO {name} AS {body}")
        columns = ", ".join(f'"{each.name}" {each.type}' for each in MSGS.columns)
        connection.execute(f"CREATE TABLE msgs ({columns.replace('STRING', 'VARCHAR')})")
        for number, time in enumerate(times):
            connection.execute("INSERT INTO msgs (msgid, date) VALUES (?, ?)", [str(number), time])
        return connection.execute(local_text(plan(text, TABLES).text)).fetchall()


@settings(max_examples=30)
@given(
    st.lists(st.one_of(st.none(), st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))), max_size=4),
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(-6, 6),
    st.sampled_from(["minutes", "hours", "days", "milliseconds"]),
)
def test_each_row_is_in_the_windows_that_contain_its_time(
    times: list[dt.datetime | None], one: int, other: int, start: int, unit: str
) -> None:
    length, slide = max(one, other), min(one, other)
    start = start if abs(start) < slide else 0
    size = {"minutes": MINUTE, "hours": 60 * MINUTE, "days": 1440 * MINUTE, "milliseconds": 1000}[unit]
    call = f"WINDOW(date, '{length} {unit}', '{slide} {unit}', '{start} {unit}')"
    found = rows(f"SELECT msgid, {call}.start AS s, window.end AS e FROM msgs", times)
    expected = set()
    for number, time in enumerate(times):
        if time is not None:
            near = micros(time) // (slide * size)
            for multiple in range(near - length - 3, near + 3):
                begun = moment(multiple * slide * size + start * size)
                end = begun + dt.timedelta(microseconds=length * size)
                if begun <= time < end:
                    expected.add((str(number), begun, end))
    assert set(found) == expected and len(found) == len(expected)


def test_windows_are_groups() -> None:
    times = [EPOCH + dt.timedelta(minutes=each) for each in (1, 9, 10, 25)]
    text = "SELECT window.start, window.end, COUNT(*) AS n FROM msgs GROUP BY WINDOW(date, '10 minutes')"
    assert rows(f"{text} HAVING COUNT(*) > 1", times) == [(EPOCH, EPOCH + dt.timedelta(minutes=10), 2)]
    window = "WINDOW(date, '20 minutes', '10 minutes')"
    sliding = f"SELECT WINDOW_TIME(window) AS t, COUNT(*) AS n FROM msgs GROUP BY {window}"
    last = {EPOCH + dt.timedelta(minutes=each, microseconds=-1): n for each, n in ((10, 2), (20, 3), (30, 2), (40, 1))}
    assert dict(rows(sliding, times)) == last


def test_the_end_of_a_window_is_a_threshold_near_its_start() -> None:
    text = "SELECT window.start, COUNT(*) AS n FROM msgs GROUP BY WINDOW(ts, '10 minutes') HAVING window.end <= NOW()"
    (threshold,) = thresholds(bind(text, TABLES))
    assert isinstance(threshold, NowFrom)
    moved, slack = near(threshold.threshold)
    assert (moved.base, moved.micros, slack) == (ColumnRef("grouped", "start", TIMESTAMP), 10 * MINUTE, 0)


@pytest.mark.parametrize(("length", "unit"), [("1 hour", "HOUR"), ("1 day", "DAY"), ("60 seconds", "MINUTE")])
def test_a_window_of_one_unit_is_the_start_of_the_unit(length: str, unit: str) -> None:
    alone = plan(f"SELECT WINDOW(ts, '{length}').start FROM msgs", TABLES)
    assert f"DATE_TRUNC('{unit}', msgs.ts) AS `start`" in alone.text
    grouped = f"SELECT window.start AS s, COUNT(*) AS n FROM msgs GROUP BY ALL, WINDOW(ts, '{length}')"
    with pytest.raises(SqlError, match="GROUP BY"):
        plan(grouped, TABLES)
    by_number = plan(f"SELECT WINDOW(ts, '{length}').start AS s, COUNT(*) AS n FROM msgs GROUP BY 1", TABLES)
    by_name = plan(f"SELECT WINDOW(ts, '{length}').start AS s, COUNT(*) AS n FROM msgs GROUP BY s", TABLES)
    assert by_number.text == by_name.text and f"GROUP BY DATE_TRUNC('{unit}', msgs.ts)" in by_name.text


def test_an_alias_and_a_column_called_window_stay_what_they_are() -> None:
    assert [ref.name for ref in bind("SELECT window.name FROM users AS window", TABLES).outputs] == ["name"]
    inner = "SELECT WINDOW(ts, '1 day'), msgid FROM msgs"
    assert [each.name for each in bind(inner, TABLES).outputs] == ["window", "msgid"]
    assert [each.name for each in bind(f"SELECT window, d.msgid FROM ({inner}) AS d", TABLES).outputs] == [
        "window",
        "msgid",
    ]


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("SELECT SESSION_WINDOW(ts, '5 minutes') AS s FROM msgs", "depends on the rows that come later", "NOT EXISTS"),
        ("SELECT msgid FROM msgs WHERE WINDOW(ts, '1 day').start > date", "belongs in a select list", ""),
        ("SELECT WINDOW(ts, '1 month') AS w FROM msgs", "a month has no fixed length", "DATE_TRUNC('MONTH', ts)"),
        ("SELECT WINDOW(ts, '1 day', '1 second') AS w FROM msgs", "86,400 windows", "a longer slide"),
        ("SELECT WINDOW(ts, '1 day') AS w, WINDOW(date, '1 day') AS v FROM msgs", "one window of time", "two queries"),
        ("SELECT WINDOW(ts, '1 hour', '2 hours') AS w FROM msgs", "the slide is positive and at most", "'5 minutes'"),
        ("SELECT WINDOW(ts, '1 hour', '1 hour', '1 hour') AS w FROM msgs", "shorter than the slide", "'2 hours'"),
        ("SELECT WINDOW(ts, INTERVAL 1 HOUR) AS w FROM msgs", "as constant texts", "'10 minutes'"),
        ("SELECT WINDOW(NOW(), '1 hour') AS w FROM msgs", "not NOW()", "WINDOW(ts"),
        ("SELECT WINDOW(msgid, '1 hour') AS w FROM msgs", "not STRING", "WINDOW(ts"),
        ("SELECT WINDOW(ts) AS w FROM msgs", "2 to 4 arguments, not 1", "WINDOW(ts"),
        ("SELECT window.middle FROM msgs GROUP BY WINDOW(ts, '1 day')", "has no field 'middle'", "start"),
        ("SELECT WINDOW_TIME(ts) AS t FROM msgs", "takes a window, not TIMESTAMP", "WINDOW_TIME(WINDOW("),
    ],
)
def test_an_invalid_window_is_refused(text: str, reason: str, hint: str) -> None:
    with pytest.raises(SqlError) as refused:
        plan(text, TABLES)
    assert reason in str(refused.value) and hint in str(refused.value)
