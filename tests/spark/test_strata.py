"""Queries over the results of queries, on real tables: laws 1 and 2 for all of them, and the causes of delays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from every_instant import Timeline
from replayed import DAY, HOUR, START, answers, answers_table, first_instants, load, replay_home
from weft.api import Weft
from weft.writing import outputs as outputs_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "waiting": "SELECT m.msgid, m.newsgroup, m.ts AS posted FROM msgs m WHERE m.ts < NOW() - INTERVAL 2 DAYS "
    "AND NOT EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)",
    "late": "SELECT w.msgid, r.msgid AS reply, r.ts - w._first_at < INTERVAL 1 DAYS AS soon "
    "FROM results.waiting w JOIN msgs r ON r.inreplyto = w.msgid",
    "given_up": "SELECT w.msgid FROM results.waiting w WHERE w._first_at < NOW() - INTERVAL 36 HOURS "
    "AND NOT EXISTS (SELECT * FROM results.late l WHERE l.msgid = w.msgid)",
    "busy": "SELECT m.newsgroup, l.reply FROM results.late l, results.waiting w, msgs m "
    "WHERE l.msgid = w.msgid AND m.newsgroup = w.newsgroup AND m.ts > l._first_at",
}


def message(name: str, day: float, parent: str | None = None, group: str = "sci.space") -> tuple[Any, ...]:
    return (name, group, parent, START + int(day * DAY))


def history(chance: random.Random) -> list[tuple[Any, ...]]:
    """Return the messages of ten days. Some messages answer an earlier message."""
    days = sorted(chance.uniform(0, 10) for _ in range(24))
    found: list[tuple[Any, ...]] = []
    for number, at in enumerate(days):
        parent = chance.choice(found)[0] if found and chance.random() < 0.4 else None
        found.append(message(f"m{number}", at, parent, chance.choice(("sci.space", "rec.x"))))
    return found


@pytest.mark.parametrize("seed", [3])
def test_each_stratum_gives_what_its_text_says_over_the_answers_of_the_lower_ones(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(seed)
    given, end = history(chance), START + 15 * DAY
    cuts = [START + int(day * DAY) for day in sorted(chance.uniform(1, 14) for _ in range(3))]
    whole, parts = replay_home(tmp_path / "whole"), replay_home(tmp_path / "parts")
    load(whole, spark, "msgs", given)
    for low, high in zip([0, *cuts], [*cuts, end], strict=True):
        load(parts, spark, "msgs", [row for row in given if low <= row[3] < high])
        if not low:
            for name, text in QUERIES.items():
                assert whole.install(name, text).stratum == parts.install(name, text).stratum
        parts.tick(now=high)
    whole.tick(now=end)
    assert [query.stratum for query in whole.queries()] == [0, 1, 2, 2]
    for name in QUERIES:
        assert first_instants(parts, name) == first_instants(whole, name) != {}, name

    columns = zip(*[(*row, row[3]) for row in given], strict=True)
    msgs = pa.table(dict(zip(["msgid", "newsgroup", "inreplyto", "date", "ts"], map(list, columns), strict=True)))
    for at, name in enumerate(msgs.column_names[3:], 3):
        msgs = msgs.set_column(at, name, msgs.column(name).cast(pa.timestamp("us")))
    lower = {f"{name}_answers": answers_table(whole, name) for name in ("waiting", "late")}
    timeline = Timeline({"msgs": msgs, **lower})
    moments = {name: ["ts"] for name in ("msgs", *lower)}
    instants = timeline.instants(moments, end, shifts=(0, 2 * DAY, 36 * HOUR))
    for name, text in QUERIES.items():
        own = text.replace("results.waiting", "waiting_answers").replace("results.late", "late_answers")
        assert first_instants(whole, name) == timeline.first(own, instants), name


@pytest.fixture
def weft(tmp_path: Path, spark: SparkSession) -> Weft:
    """A home with a on day 1, b on day 2, an answer to a on day 4, and the queries `waiting` and `late`."""
    made = replay_home(tmp_path / "home")
    load(made, spark, "msgs", [message("a", 1), message("b", 2), message("c", 4, "a")])
    for name in ("waiting", "late"):
        made.install(name, QUERIES[name])
    return made


def outcomes(weft: Weft, *names: str, now: float) -> dict[str, tuple[int, str | None]]:
    done = weft.tick(names, now=START + int(now * DAY)).reports[-1]
    return {outcome.query.name: (outcome.rows, outcome.reason) for outcome in done.outcomes}


def test_what_a_query_reads_is_run_with_it_and_holds_it_where_it_is_paused(
    weft: Weft, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {name: rows for name, (rows, _) in outcomes(weft, "late", now=5).items()} == {"waiting": 2, "late": 1}
    weft.pause("waiting")
    load(weft, spark, "msgs", [message("d", 6, "b")])
    ((rows, reason),) = outcomes(weft, now=7).values()
    assert (rows, reason) == (0, "waits for waiting, which was ticked up to 1993-04-10 00:00:00 UTC and is paused")
    assert weft.catalog.queries.named("late").tau == START + 5 * DAY
    assert weft.show("late").ticks[0].t == START + 5 * DAY
    weft.resume("waiting")
    assert {name: rows for name, (rows, _) in outcomes(weft, now=8).items()} == {"waiting": 1, "late": 1}

    # At this time, d has waited for two days without an answer.
    assert {name: rows for name, (rows, _) in outcomes(weft, now=8.1).items()} == {"waiting": 1, "late": 0}
    assert {name: rows for name, (rows, _) in outcomes(weft, now=8.2).items()} == {"waiting": 0, "late": 0}

    def no_spark() -> Any:
        raise AssertionError("Spark was asked for")

    # The lower query has no new rows, and therefore the higher query has none.
    monkeypatch.setattr(weft.opened, "session", no_spark)
    assert {name: rows for name, (rows, _) in outcomes(weft, now=8.3).items()} == {"waiting": 0, "late": 0}


def test_a_query_asked_once_reads_results_as_they_were_at_its_instant(weft: Weft) -> None:
    weft.tick(now=START + 7 * DAY)
    text = "SELECT msgid, posted, _ordinal AS place FROM results.waiting"
    assert [row[0] for row in weft.try_query(text, now=START + 4 * DAY).rows] == ["a"]
    assert [row[0] for row in weft.try_query(text, now=START + 6 * DAY).rows] == ["a", "b", "c"][:2]


def test_every_type_of_value_is_read_as_it_was(weft: Weft) -> None:
    text = (
        "SELECT msgid, ts, LENGTH(msgid) AS n, TO_DATE(ts) AS d, inreplyto, msgid = 'a' AS yes, 1.50 AS price, "
        "-SQRT(0 - 1.0) AS nan, UNHEX('00ff') AS raw, 0.0 * -1 AS zero, 0.1 AS tenth, CAST(0.1 AS FLOAT) AS single, "
        "EXP(700.5) AS big, CAST(7 AS TINYINT) AS tiny FROM msgs"
    )
    weft.install("kinds", text)
    weft.install("again", "SELECT * FROM results.kinds")
    weft.tick(now=START + 5 * DAY)
    assert weft.catalog.queries.named("again").columns == weft.catalog.queries.named("kinds").columns
    assert repr(answers(weft, "again")) == repr(answers(weft, "kinds"))
    assert len(answers(weft, "again")) == 3


def test_a_tick_that_died_between_its_outputs_goes_on_there(
    weft: Weft, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die_at(point: str, wanted: int) -> Any:
        passed = []

        def failpoint(name: str) -> None:
            passed.append(name)
            if passed.count(point) == wanted:
                raise Killed

        return failpoint

    def kill(point: str, wanted: int, now: float) -> None:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(outputs_module, "failpoint", die_at(point, wanted))
            weft.tick(now=START + int(now * DAY))

    kill("tick.recorded", 1, 5)
    (tick,) = weft.catalog.ticks.latest()
    (output,) = weft.catalog.ticks.outputs(tick.tick_id)
    assert (tick.state, output.name, output.state, output.rows) == ("planned", "ledger", "written", 2)
    load(weft, spark, "msgs", [message("d", 6, "b")])
    kill("tick.written", 1, 5)
    done = weft.tick(now=START + 7 * DAY).reports
    assert [report.t for report in done] == [START + 5 * DAY, START + 7 * DAY]
    assert [(o.query.name, o.rows) for o in done[0].outcomes] == [("waiting", 2), ("late", 1)]
    assert [(o.name, o.state, o.rows) for o in weft.catalog.ticks.outputs(tick.tick_id)] == [
        ("ledger", "written", 2),
        ("ledger-1", "written", 1),
    ]
    assert [values[:2] for _, _, values in answers(weft, "late")] == [("a", "c"), ("b", "d")]
    # Weft completes a dead tick before it pauses a query. Its stored answers remain, and the missing answers come
    # later.
    load(weft, spark, "msgs", [message("e", 8), message("f", 10.5, "c"), message("g", 10.6, "e")])
    kill("tick.recorded", 1, 10.5)
    weft.pause("late")
    assert weft.catalog.ticks.planned() is None
    assert {q.name: q.tau for q in weft.queries()} == {
        "waiting": START + int(10.5 * DAY),
        "late": START + 7 * DAY,
    }
    weft.resume("late")
    weft.tick(now=START + 11 * DAY)
    assert [values[0] for _, _, values in answers(weft, "waiting")] == ["a", "b", "c", "d", "e"]
    assert [values[:2] for _, _, values in answers(weft, "late")] == [("a", "c"), ("b", "d"), ("c", "f"), ("e", "g")]
