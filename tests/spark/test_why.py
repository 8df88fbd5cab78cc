"""``why`` names rows without which an answer does not hold, or another row replaces them (``planning.witnesses``)."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from every_instant import Timeline
from replayed import DAY, HOUR, START, answers, load, micros, replay_home
from weft.errors import NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.execution.why import Combination, Witness

QUERIES: Final = {
    "all": "SELECT msgid FROM msgs",
    "of_group": "SELECT m.msgid, m.newsgroup FROM msgs m WHERE m.newsgroup = 'sci.space'",
    "replies": "SELECT m.msgid, r.msgid AS reply FROM msgs m JOIN msgs r ON r.inreplyto = m.msgid",
    "answered": "SELECT m.msgid FROM msgs m WHERE EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)",
    "silent": "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 1 DAY AND NOT EXISTS "
    "(SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)",
    "soon": "SELECT m.msgid, r.msgid AS reply FROM msgs m, msgs r WHERE r.inreplyto = m.msgid "
    "AND r.ts < m.ts + INTERVAL 6 HOURS",
    "either": "SELECT m.msgid FROM msgs m WHERE m.newsgroup IS NULL OR EXISTS "
    "(SELECT * FROM msgs r WHERE r.inreplyto = m.msgid AND r.newsgroup IS NULL)",
    "both": "SELECT msgid FROM msgs WHERE newsgroup = 'rec.x' UNION SELECT inreplyto FROM msgs "
    "WHERE inreplyto IS NOT NULL",
    "counts": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup",
    "busy": "SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 3",
    "threads": "SELECT m.msgid, (SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid) AS n FROM msgs m",
    "most": "SELECT MAX(n) AS n FROM (SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup) g",
    "kinds": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT newsgroup FROM msgs) d",
    "before": "SELECT msgid, LAG(msgid) OVER (PARTITION BY newsgroup ORDER BY ts) AS previous FROM msgs",
    "threads_of": "WITH RECURSIVE t(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL UNION ALL "
    "SELECT m.msgid, t.root FROM msgs m JOIN t ON m.inreplyto = t.msgid) SELECT t.msgid, t.root FROM t",
    "left_out": "SELECT m.msgid, r.msgid AS reply FROM msgs m LEFT JOIN msgs r ON r.inreplyto = m.msgid",
}
STATES: Final = ("counts", "busy", "most", "kinds", "before", "threads_of")
"""The queries whose answers are rows of states."""
COLUMNS: Final = ("msgid", "newsgroup", "inreplyto", "date")


def messages(chance: random.Random) -> list[tuple[Any, ...]]:
    """Messages of five days, with equal instants and NULLs.  The number of a message is in its ID."""
    rows: list[tuple[Any, ...]] = []
    for instant in sorted(chance.randrange(5 * 24) for _ in range(40)):
        parent = chance.choice([None, None, *(row[0] for row in rows)])
        rows.append((f"m{len(rows)}", chance.choice(["sci.space", "rec.x", None]), parent, START + instant * HOUR))
    return rows


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    """The rows as an Arrow table with the column ts."""
    named = {name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}
    instants = pa.array(named["date"], pa.timestamp("us", "UTC"))
    texts = {name: pa.array(named[name], pa.string()) for name in COLUMNS[:3]}
    return pa.table({**texts, "date": instants, "ts": instants})


def removable(found: Combination) -> list[frozenset[str]]:
    """The IDs of each row that a combination names, and of all rows together from which the row of a state follows."""

    def ids(each: Witness) -> frozenset[str]:
        if each.table is None:
            assert bool(each.count) == bool(each.members) and not each.more
            return frozenset().union(*map(ids, each.members))
        return frozenset((str(each.values[[name for name, _ in each.columns].index("msgid")]),))

    return [gone for gone in map(ids, found.witnesses) if gone]  # a row of constants has none


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))])
def test_an_answer_does_not_hold_without_a_named_witness(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rows = messages(random.Random(seed))
    tried = removed = absent = 0
    with replay_home(tmp_path) as weft:
        load(weft, spark, "msgs", rows, own_time=3)
        for name, text in QUERIES.items():
            weft.install(name, text)
        for day in (1, 3, 7):
            weft.tick(now=START + day * DAY)
        whole = Timeline({"msgs": table_of(rows)})
        for name, text in QUERIES.items():
            found = answers(weft, name)
            assert found, name
            for ordinal, first_at, values in random.Random(seed).sample(found, 1):
                assert values in whole.at(text, first_at)
                why = weft.why(name, ordinal)
                assert (why.first_at, tuple(map(micros, why.values))) == (first_at, values)
                assert why.combinations, (name, values)
                tried += 1
                if name in STATES:
                    assert all(each.members for one in why.combinations for each in one.witnesses if not each.table)
                absent += sum(len(each.absent) for each in why.combinations)
                for gone in {each for combination in why.combinations for each in removable(combination)}:
                    rest = Timeline({"msgs": table_of([row for row in rows if row[0] not in gone])})
                    if values not in rest.at(text, first_at):
                        removed += 1
                        continue
                    others = [each for each in why.combinations if gone not in removable(each)]
                    assert others or why.more, (name, values, gone)
    assert tried == len(QUERIES)
    assert removed >= 10
    assert absent >= 1


def test_why_names_driver_rows_and_what_was_absent(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "sci.space", None, START), ("b", "sci.space", "a", START + HOUR), ("c", None, None, START + HOUR)]
    rows += [("d", "sci.space", "b", START + 2 * HOUR)]
    with replay_home(tmp_path) as weft:
        load(weft, spark, "msgs", rows, own_time=3)
        for name in ("silent", "answered", "counts"):
            weft.install(name, QUERIES[name])
        weft.install("thread", QUERIES["threads_of"])
        weft.install(
            "third", "SELECT msgid FROM msgs QUALIFY ROW_NUMBER() OVER (PARTITION BY newsgroup ORDER BY ts) = 3"
        )
        weft.tick(now=START + 3 * DAY)
        silent = {values: weft.why("silent", n).combinations for n, _, values in answers(weft, "silent")}
        assert set(silent) == {("c",), ("d",)}
        [cause] = silent["c",]
        assert "1 day" in cause.why
        assert [(each.role, each.values[0]) for each in cause.witnesses] == [("joined", "c")]
        assert cause.absent == ("there is no row of msgs (as r) with r.inreplyto = 'c'",)
        [cause] = weft.why("answered", 1).combinations
        assert [(each.role, each.alias, each.values[0]) for each in cause.witnesses] == [
            ("driver", "r", "b"),
            ("joined", "m", "a"),
        ]
        two = next(n for n, _, values in answers(weft, "counts") if values == ("sci.space", 2))
        [cause] = weft.why("counts", two).combinations
        [group] = cause.witnesses
        assert group.count == 2
        assert [each.values[0] for each in group.members] == ["a", "b"]
        chain = weft.why("thread", next(n for n, _, values in answers(weft, "thread") if values == ("d", "a")))
        [cause] = chain.combinations
        [row] = cause.witnesses
        read = []
        while row.count:  # each row of the recursion follows from a message and the row of its parent
            read += [each.values[0] for each in row.members if each.table]
            row = row.members[-1]
        assert read == ["d", "b", "a"]
        ranked = weft.why("third", 1)
        [row] = ranked.combinations[0].witnesses
        assert (row.alias, row.count, ranked.values) == ("row", 3, (row.members[0].values[0],))
        with pytest.raises(NotFound, match="counts has no answer 99"):
            weft.why("counts", 99)


def test_why_follows_the_text_that_gave_the_answer(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "sci.space", None, START), ("b", "rec.x", None, START + HOUR)]
    with replay_home(tmp_path) as weft:
        load(weft, spark, "msgs", rows, own_time=3)
        weft.install("some", "SELECT msgid FROM msgs WHERE newsgroup = 'sci.space'")
        weft.tick(now=START + DAY)
        weft.install("some", "SELECT msgid FROM msgs WHERE newsgroup = 'rec.x'", replace=True)
        weft.tick(now=START + 2 * DAY)
        assert [weft.why("some", n).combinations[0].witnesses[0].values[0] for n in (1, 2)] == ["a", "b"]


def test_why_shows_intervals_and_no_parameters(spark: SparkSession, tmp_path: Path) -> None:
    hours = [("a", None, 0), ("b", "a", 1), ("c", "a", 3), ("d", "b", 3)]
    rows = [(name, "rec.x", parent, START + hour * HOUR) for name, parent, hour in hours]
    pairs = "FROM msgs m JOIN msgs r ON r.inreplyto = m.msgid"
    with replay_home(tmp_path) as weft:
        load(weft, spark, "msgs", rows, own_time=3)
        weft.install("delay", f"SELECT m.msgid, r.ts - m.ts AS delay {pairs}")
        weft.install("mean", f"SELECT m.msgid, AVG(r.ts - m.ts) AS a, MAX(r.ts - m.ts) AS m {pairs} GROUP BY m.msgid")
        weft.install("same", f"SELECT r.ts - m.ts AS delay, COUNT(*) AS n {pairs} GROUP BY r.ts - m.ts")
        weft.install(
            "fast",
            "SELECT d.msgid FROM results.delay d WHERE NOT EXISTS "
            "(SELECT 1 FROM msgs r WHERE r.inreplyto = d.msgid AND r.ts > d._first_at + d.delay)",
        )
        weft.install(
            "flag", "SELECT m.msgid, EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid) AS b FROM msgs m"
        )
        weft.tick(now=START + DAY)
        two = next(n for n, at, values in answers(weft, "mean") if values[0] == "a" and at == START + 3 * HOUR)
        [cause] = weft.why("mean", two).combinations
        [group] = cause.witnesses
        assert group.values[1:] == (dt.timedelta(hours=2), dt.timedelta(hours=3))
        assert {kind.declared for _, kind in group.columns[1:]} == {"INTERVAL DAY TO SECOND"}
        assert group.count == 2
        [cause] = weft.why("same", 1).combinations
        assert (cause.witnesses[0].values[0], cause.witnesses[0].count) == (dt.timedelta(hours=1), 1)
        [cause] = weft.why("fast", 1).combinations
        assert "+ INTERVAL '1' HOUR" in cause.absent[0]
        first = weft.why("flag", next(n for n, _, values in answers(weft, "flag") if values == ("a", False)))
        assert {each for cause in first.combinations for each in cause.absent} == {
            "there is no row of msgs (as r) with r.inreplyto = 'a'"
        }
        assert dict(weft.explain_installed("delay").columns)["delay"].declared == "INTERVAL DAY TO SECOND"
