"""Many queries of one plan run as columns, and have the answers, outcomes and ticks that they would have one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from replayed import DAY, START, answers, load, replay_home
from weft.execution import crowds, parameters
from weft.execution.ticks import tick as tick_module
from weft.execution.ticks import tick_report as counting_module
from weft.storage.verify import verify
from weft.writing import outputs as outputs_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = [f"group{number}" for number in range(12)]
TEXT = "SELECT msgid FROM msgs WHERE newsgroup = '{}'"
JOINED = "SELECT m.msgid, r.msgid AS reply FROM msgs m, msgs r WHERE r.inreplyto = m.msgid AND r.newsgroup = '{}'"
POINTS = ("tick.planned", "tick.computed", "tick.counting", "tick.committed")
Row = tuple[str, str, str | None, int]


class Killed(BaseException):
    """The end of the process at a failpoint."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three queries are a crowd, and the driver chooses among two."""
    monkeypatch.setattr(crowds, "FEW", 2)
    monkeypatch.setattr(parameters, "FEW", 1)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the crowds that ran."""
    sizes: list[int] = []
    found = crowds.crowds_of

    def crowds_of(*given: Any) -> Any:
        result = found(*given)
        sizes.extend(len(crowd) for crowd, _ in result)
        return result

    monkeypatch.setattr(tick_module, "crowds_of", crowds_of)
    return sizes


def messages(chance: Random, first: int, count: int, day: float) -> list[Row]:
    return [
        (
            f"m{number}",
            chance.choice(GROUPS),
            f"m{chance.randrange(number)}" if number and chance.random() < 0.5 else None,
            START + int((day + chance.random()) * DAY),
        )
        for number in range(first, first + count)
    ]


def dying(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> None:
    def failpoint(name: str) -> None:
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        for module in (tick_module, outputs_module, counting_module):
            patch.setattr(module, "failpoint", failpoint)
        with pytest.raises(Killed):
            action()


def of_group(rows: list[Row], group: str, until: int) -> set[tuple[object, ...]]:
    return {(name,) for name, own, _, ts in rows if own == group and ts < until}


def replies(rows: list[Row], group: str, until: int) -> set[tuple[object, ...]]:
    """A pair begins when both messages are there."""
    at = {name: ts for name, _, _, ts in rows}
    return {
        (parent, name)
        for name, own, parent, ts in rows
        if own == group and parent is not None and ts < until and at[parent] < until
    }


def test_answers_at_every_tick_and_after_every_crash(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    chance, weft = Random(11), replay_home(tmp_path / "home")
    rows = messages(chance, 0, 1, 0)
    load(weft, spark, "msgs", rows)
    for group in GROUPS:
        weft.install(group, TEXT.format(group))
        weft.install(f"replies_{group}", JOINED.format(group))
    weft.install("reader", "SELECT msgid FROM results.group1")
    weft.install("daily", TEXT.format("group4"), every="1d")
    paused = set[str]()
    for number in range(7):
        news = messages(chance, len(rows), 25, number)
        rows = [*rows, *news]
        load(weft, spark, "msgs", news)
        until = START + (number + 1) * DAY
        if number >= 3:
            dying(monkeypatch, POINTS[number % 4], lambda at=until: weft.tick(now=at))  # type: ignore[misc]
        if number == 3:
            weft.pause("group3")
            paused.add("group3")
        if number == 4:
            weft.install("late", TEXT.format("group7"))
            weft.tick(["group5"], now=until)
        if number == 6:
            weft.resume("group3")
            paused.clear()
        done = weft.tick(now=until)
        reports = {each.query.name: each for each in done.reports[-1].outcomes}
        assert done.reports[-1].queries == len(reports) == len(weft.queries()) - len(paused)
        for group in set(GROUPS) - paused:
            found = answers(weft, group)
            assert {values for _, _, values in found} == of_group(rows, group, until), (group, number)
            assert [ordinal for ordinal, _, _ in found] == list(range(1, len(found) + 1))
            assert {values for _, _, values in answers(weft, f"replies_{group}")} == replies(rows, group, until)
            query = weft.catalog.queries.named(group)
            assert query.tau == until
            assert sum(each.rows or 0 for each in weft.catalog.ticks.of_query(query.query_id, 100)) == len(found)
    assert {values for _, _, values in answers(weft, "late")} == of_group(rows, "group7", until)
    assert {values for _, _, values in answers(weft, "reader")} == of_group(rows, "group1", until)
    assert {values for _, _, values in answers(weft, "daily")} == of_group(rows, "group4", until)
    assert len(seen) >= 18 and max(seen) == len(GROUPS)
    assert verify(weft.catalog) == []


def test_a_query_of_a_crowd_that_fails_is_set_aside_and_the_others_go_on(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    chance, weft = Random(5), replay_home(tmp_path / "home")
    rows = messages(chance, 0, 20, 0)
    load(weft, spark, "msgs", rows)
    weft.install_all([_new(group) for group in GROUPS])
    weft.tick(now=START + DAY)
    many = [(f"n{number}", "group2", None, START + DAY) for number in range(9)]
    more = [("o", "group3", None, START + DAY)]
    load(weft, spark, "msgs", [*many, *more])
    monkeypatch.setenv("WEFT_QUERY_ROWS", "5")
    done = weft.tick(now=START + 2 * DAY).reports[-1]
    assert {each.query.name: each.rows for each in done.own if each.rows} == {"group3": 1}
    assert done.queries == len(GROUPS) and seen[-1] == len(GROUPS)
    failed = weft.catalog.queries.named("group2")
    assert failed.state == "failed" and failed.tau == START + DAY
    monkeypatch.setenv("WEFT_QUERY_ROWS", "50")
    weft.resume("group2")
    done = weft.tick(now=START + 3 * DAY).reports[-1]
    assert {each.query.name: each.rows for each in done.own if each.rows} == {"group2": 9}
    assert seen[-1] == len(GROUPS) - 1
    weft.tick(now=START + 4 * DAY)
    assert seen[-1] == len(GROUPS), "the resumed query runs with the others again"


def _new(group: str) -> Any:
    from weft.api.standing import NewQuery

    return NewQuery(group, TEXT.format(group))
