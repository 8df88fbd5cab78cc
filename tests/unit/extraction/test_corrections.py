"""Retroactive corrections of tracked tables: what is so then, what was known before, what is refused; no Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.algebra.schema import DataType
from weft.api import Weft
from weft.errors import NotFound, Refused, WeftError

DAY = 86_400_000_000
Rows = list[tuple[Any, ...]]


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    """A home with the source staff: Ann and Ben came on day 1, Ben changed on day 10, when Coy came."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        file = tmp_path / "staff.csv"
        file.write_text("id,name,dept\n1,Ann,D\n2,Ben,S\n")
        opened.add_source("staff", "csv", str(file), ["id"])
        opened.poll_source("staff", now=DAY)
        file.write_text("id,name,dept\n1,Ann,D\n2,Ben,D\n3,Coy,S\n")
        opened.poll_source("staff", now=10 * DAY)
        yield opened


def history_rows(weft: Weft, name: str = "staff", **how: Any) -> Rows:
    found = weft.history(name, **how).stretches
    return [(*each.values, each.begin // DAY, each.end and each.end // DAY) for each in found]


BEFORE = [(1, "Ann", "D", 1, None), (2, "Ben", "S", 1, 10), (2, "Ben", "D", 10, None), (3, "Coy", "S", 10, None)]


def test_a_part_of_a_period_gets_other_values(weft: Weft) -> None:
    done = weft.correct_source("staff", {"ID": "2"}, 3 * DAY, "1970-01-06", {"Dept": "X"}, now=12 * DAY)
    assert (done.name, done.changed, done.gone, done.at) == ("staff", 3, 0, 12 * DAY)
    assert history_rows(weft)[1:4] == [(2, "Ben", "S", 1, 3), (2, "Ben", "X", 3, 5), (2, "Ben", "S", 5, 10)]
    assert history_rows(weft, known=12 * DAY - 1) == BEFORE


def test_a_part_is_deleted_and_the_row_that_holds_now_goes_on(weft: Weft, tmp_path: Path) -> None:
    weft.correct_source("staff", {"id": 1}, 2 * DAY, 11 * DAY, None, now=12 * DAY)
    assert history_rows(weft)[:2] == [(1, "Ann", "D", 1, 2), (1, "Ann", "D", 11, None)]
    with (tmp_path / "staff.csv").open("a") as file:
        file.write("4,Dee,S\n")
    polled = weft.poll_source("staff", now=13 * DAY)
    assert (polled.began, polled.ended, polled.open_rows) == (1, 0, 4)
    assert history_rows(weft)[:2] == [(1, "Ann", "D", 1, 2), (1, "Ann", "D", 11, None)]


def test_a_correction_over_several_rows_of_a_key_makes_one_of_those_that_agree(weft: Weft) -> None:
    weft.correct_source("staff", {"id": 2}, 5 * DAY, 12 * DAY, {"dept": "D"}, now=12 * DAY)
    assert history_rows(weft)[1:3] == [(2, "Ben", "S", 1, 5), (2, "Ben", "D", 5, None)]
    again = weft.correct_source("staff", {"id": 2}, 5 * DAY, 12 * DAY, {"dept": "D"}, now=13 * DAY)
    assert (again.changed, again.gone, again.at) == (0, 0, None)
    weft.correct_source("staff", {"id": 2}, DAY, 5 * DAY, {"dept": "D"}, now=14 * DAY)
    assert history_rows(weft)[1] == (2, "Ben", "D", 1, None)


def test_where_no_row_held_all_columns_say_that_one_did(weft: Weft) -> None:
    with pytest.raises(
        Refused, match=r"has no row with that key from 1970-01-03 00:00:00 UTC .*gives no value for: name"
    ):
        weft.correct_source("staff", {"id": 3}, 2 * DAY, 4 * DAY, {"dept": "S"}, now=12 * DAY)
    weft.correct_source("staff", {"id": 3}, 2 * DAY, 11 * DAY, {"dept": "S", "name": "Coy"}, now=12 * DAY)
    assert history_rows(weft)[-1] == (3, "Coy", "S", 2, None)
    nothing = weft.correct_source("staff", {"id": 9}, 2 * DAY, 4 * DAY, None, now=13 * DAY)
    assert nothing.at is None


@pytest.mark.parametrize(
    ("key", "span", "values", "said"),
    [
        ({"id": 2}, (3, 13), {"dept": "X"}, "is not in the past"),
        ({"id": 2}, (0, 3), {"dept": "X"}, "before the recorded history"),
        ({"id": 2}, (3, 3), {"dept": "X"}, "--from must be before --to"),
        ({"name": "Ben"}, (3, 4), {"dept": "X"}, "the key of staff is id, but name is given"),
        ({}, (3, 4), {"dept": "X"}, "the key of staff is id, but nothing is given"),
        ({"id": "two"}, (3, 4), {"dept": "X"}, "'two' is not of type BIGINT"),
        ({"id": 2}, (3, 4), {"dpt": "X"}, "no column 'dpt'"),
        ({"id": 2}, (3, 4), {"id": 3}, "belongs to the key"),
        ({"id": 2}, (3, 4), {}, "changes nothing"),
    ],
)
def test_a_refusal_changes_nothing(
    weft: Weft, key: dict[str, Any], span: tuple[int, int], values: dict[str, Any] | None, said: str
) -> None:
    with pytest.raises(WeftError) as refused:
        weft.correct_source("staff", key, span[0] * DAY, span[1] * DAY, values, now=12 * DAY)
    assert said in f"{refused.value} {refused.value.hint}"
    assert history_rows(weft) == BEFORE


def test_an_empty_condition_of_a_history_is_refused(weft: Weft) -> None:
    with pytest.raises(Refused, match="--where is empty"):
        weft.history("staff", where=" ")


def test_only_rows_of_a_source_are_corrected(weft: Weft, tmp_path: Path) -> None:
    weft.add_view("depts", "SELECT dept FROM staff")
    weft.refresh_views(now=10 * DAY)
    with pytest.raises(Refused, match="is a view"):
        weft.correct_source("depts", {"dept": "D"}, DAY, 2 * DAY, None, now=12 * DAY)
    with pytest.raises(NotFound):
        weft.correct_source("stuff", {"id": 1}, DAY, 2 * DAY, None, now=12 * DAY)


def test_views_follow_exactly_and_keep_what_they_said(weft: Weft) -> None:
    weft.add_view("sizes", "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept")
    weft.add_view("week", "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept, MOVING_WINDOW(INTERVAL 2 DAYS)")
    weft.add_view("long", "SELECT s.name, s.dept FROM staff s WHERE PERIOD_LENGTH(s) > INTERVAL 6 DAYS")
    weft.refresh_views(now=10 * DAY)
    assert history_rows(weft, "long") == [("Ann", "D", 1, None), ("Ben", "S", 1, 10)]
    weft.correct_source("staff", {"id": 2}, 3 * DAY, 7 * DAY, {"dept": "X"}, now=12 * DAY)
    assert {each.trouble for each in weft.keep_views(now=12 * DAY)} == {None}
    assert history_rows(weft, "sizes") == [
        ("D", 1, 1, 10),
        ("S", 1, 1, 3),
        ("X", 1, 3, 7),
        ("S", 1, 7, None),
        ("D", 2, 10, None),
    ]
    assert history_rows(weft, "week")[1:3] == [("S", 1, 1, 5), ("X", 1, 3, 9)]
    assert history_rows(weft, "long") == [("Ann", "D", 1, None)]
    assert history_rows(weft, "long", known=11 * DAY) == [("Ann", "D", 1, None), ("Ben", "S", 1, 10)]


def test_a_feed_that_is_read_again_does_not_undo_a_correction(tmp_path: Path) -> None:
    feed = tmp_path / "staff.jsonl"
    changes = [(1, "I", "D"), (5, "U", "R"), (8, "U", "S")]
    lines = [json.dumps({"op": op, "time": at * DAY, "key": {"id": 1}, "row": {"dept": d}}) for at, op, d in changes]
    feed.write_text("\n".join(lines) + "\n")
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        columns = [("id", DataType("INT")), ("dept", DataType("STRING"))]
        weft.add_source("staff", "changes", str(feed), ["id"], columns=columns)
        weft.poll_source("staff", now=9 * DAY)
        first = history_rows(weft)
        assert first == [(1, "D", 1, 5), (1, "R", 5, 8), (1, "S", 8, None)]
        weft.correct_source("staff", {"id": 1}, DAY, 6 * DAY, {"dept": "X"}, now=10 * DAY)
        weft.correct_source("staff", {"id": 1}, 2 * DAY, 3 * DAY, None, now=11 * DAY)
        with feed.open("a") as file:
            file.write(json.dumps({"op": "U", "time": 12 * DAY, "key": {"id": 1}, "row": {"dept": "T"}}) + "\n")
        weft.remove_source("staff")
        weft.add_source("staff", "changes", str(feed), ["id"], columns=columns)  # it has not read anything yet
        weft.poll_source("staff", now=13 * DAY)
        assert history_rows(weft) == [
            (1, "X", 1, 2),
            (1, "X", 3, 6),
            (1, "R", 6, 8),
            (1, "S", 8, 12),
            (1, "T", 12, None),
        ]


def test_random_corrections_of_keys_are_what_a_list_of_days_says(tmp_path: Path) -> None:
    chance, last = random.Random(7), 12
    file = tmp_path / "t.jsonl"
    recorded = 0
    held: dict[int, dict[int, float | None]] = {key: {} for key in range(3)}
    now: dict[int, float | None] = {0: 1.5, 1: None}
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        file.write_text('{"k": 0, "x": 1.5}\n')
        weft.add_source("t", "jsonl", str(file), ["k"], columns=[("k", DataType("INT")), ("x", DataType("DOUBLE"))])
        for day in range(1, last):
            file.write_text("".join(json.dumps({"k": key, "x": x}) + "\n" for key, x in now.items()))
            weft.poll_source("t", now=day * DAY, allow_empty=True)
            if day > 2:
                key, begin = chance.randrange(3), chance.randrange(1, day - 1)
                end, there = chance.randint(begin + 1, day - 1), chance.random() < 0.6
                x = chance.choice([None, 1.5, -0.0, float("nan")])
                done = weft.correct_source("t", {"k": key}, begin * DAY, end * DAY, {"x": x} if there else None)
                recorded += done.at is not None
                for each in range(begin, end):
                    held[key].pop(each, None)
                    if there:
                        held[key][each] = x
            for key, x in now.items():
                held[key][day] = x
            found = history_rows(weft, "t")
            for key in range(3):
                days = {
                    d: str(x or 0.0 if x is not None else x)
                    for k, x, b, e in found
                    if k == key
                    for d in range(b, day + 1 if e is None else e)
                }
                assert days == {d: str(x or 0.0 if x is not None else x) for d, x in held[key].items()}, (day, key)
            now = {key: chance.choice([None, 1.5, 2.5]) for key in range(3) if chance.random() < 0.7}
            now = now or {0: 2.5}
    assert recorded > 4
