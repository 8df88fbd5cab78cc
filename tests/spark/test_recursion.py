"""Standing queries with WITH RECURSIVE in real homes: on the driver and on Spark, in one tick and in many."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.engines import GRID
from oracle.expressions import LAST
from oracle.histories import history as drawn
from oracle.laws import same
from oracle.recursive_grammar import recursive_query
from oracle.reference import Reference, reference
from oracle.spelling import Text
from replayed import DAY, HOUR, START, first_instants, load, replay_home
from spark.test_random import arrive, delivered, since
from spark.test_states import damaged, kept, lost, outdated
from weft.algebra.schema import INT, STRING
from weft.errors import LimitExceeded
from weft.execution import driver_reader, stored_recursion
from weft.execution.driver_reader import NOTHING, ReadBounds
from weft.execution.stored_recursion import StoredRecursion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREAD: Final = (
    "WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL {} "
    "SELECT m.msgid, t.root FROM msgs m JOIN thread t ON m.inreplyto = t.msgid) "
)
ROUND: Final = (
    "WITH RECURSIVE led(msgid) AS (SELECT msgid FROM msgs WHERE msgid = 'a' {} "
    "SELECT m.msgid FROM msgs m JOIN led ON m.inreplyto = led.msgid) SELECT msgid FROM led"
)
QUERIES_A_HOME: Final = 3


def queries(chance: random.Random, engine: Prepared) -> list[tuple[Text, Reference]]:
    found: list[tuple[Text, Reference]] = []
    while len(found) < QUERIES_A_HOME:
        text = recursive_query(chance)
        seen = reference(engine, text.plain)
        if seen.changes:
            found.append((text, seen))
    return found


@pytest.mark.parametrize(
    "bounds", [pytest.param(ReadBounds(), id="driver"), pytest.param(NOTHING, id="spark", marks=pytest.mark.slow)]
)
def test_ticks_deliver_what_the_text_has_at_each_instant(
    bounds: ReadBounds, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    chance = random.Random(4)
    found = [each for each in (drawn(chance) for _ in range(40)) if not each.ending]
    history = max(found, key=lambda each: sum(map(len, each.rows.values())))
    engine = Prepared()
    engine.load(history.rows)
    given = queries(chance, engine)
    weft = replay_home(tmp_path / "home")
    cuts = (*sorted(chance.sample(range(1, LAST + 1), 2)), LAST + 1)
    stored = [row[5] for rows in history.rows.values() for row in rows if row[5] < cuts[0]]
    done, begun = 0, min(stored, default=cuts[0])
    for until in cuts:
        arrive(weft, spark, history, done, until)
        if done == 0:
            for count, (text, _) in enumerate(given):
                weft.install(f"q{count}", text.spark)
        weft.tick(now=GRID + until)
        assert {query.reason for query in weft.queries()} == {None}
        done = until
        for count, (text, seen) in enumerate(given):
            same(f"{text}\nup to {until}", delivered(weft, f"q{count}"), since(seen, begun, until))


@pytest.mark.parametrize("bounds", [ReadBounds(), NOTHING], ids=["driver", "spark"])
def test_threads_of_replies(
    bounds: ReadBounds, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    weft = replay_home(tmp_path / "home")
    # The reply d arrives before c, to which it replies.
    days = [[("a", None), ("b", "a")], [("d", "c"), ("e", None)], [("c", "b"), ("f", "e")]]
    rows = [[(name, "g", to, START + day * DAY) for name, to in each] for day, each in enumerate(days)]
    load(weft, spark, "msgs", rows[0])
    weft.install("all", THREAD.format("UNION ALL") + "SELECT msgid, root FROM thread")
    weft.install("sizes", THREAD.format("UNION") + "SELECT root, COUNT(*) AS n FROM thread GROUP BY root")
    for day, each in enumerate(rows):
        if day:
            load(weft, spark, "msgs", each)
        weft.tick(now=START + day * DAY + 1)
    wanted = {("a", "a"): 0, ("b", "a"): 0, ("e", "e"): 1, ("c", "a"): 2, ("d", "a"): 2, ("f", "e"): 2}
    assert first_instants(weft, "all") == {row: START + day * DAY for row, day in wanted.items()}
    sizes = {("a", 2): 0, ("e", 1): 1, ("a", 4): 2, ("e", 2): 2}
    assert first_instants(weft, "sizes") == {row: START + day * DAY for row, day in sizes.items()}


@pytest.mark.parametrize(
    "bounds", [pytest.param(ReadBounds(), id="driver"), pytest.param(NOTHING, id="spark", marks=pytest.mark.slow)]
)
def test_a_recursion_that_is_too_deep_is_set_aside(
    bounds: ReadBounds, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    monkeypatch.setenv("WEFT_QUERY_DEPTH", "3")
    weft = replay_home(tmp_path / "home")
    load(weft, spark, "msgs", [(name, "g", to, START) for name, to in (("a", "c"), ("b", "a"), ("c", "b"))])
    weft.install("cycle", ROUND.format("UNION ALL"))
    weft.install("set", ROUND.format("UNION"))
    weft.tick(now=START + 1)
    by_name = {query.name: query for query in weft.queries()}
    assert by_name["set"].reason is None and len(first_instants(weft, "set")) == 3
    assert "more than 3 steps away" in str(by_name["cycle"].reason)
    load(weft, spark, "msgs", [(f"d{n}", "g", f"d{n - 1}" if n else "c", START + DAY) for n in range(2)])
    with pytest.raises(LimitExceeded, match="more than 3 steps away"):
        weft.try_query(ROUND.format("UNION"), now=START + DAY)


DEEP: Final = "SELECT msgid, root FROM thread"
COUNTED: Final = "SELECT root, COUNT(*) AS n FROM thread GROUP BY root"


def replies(chance: random.Random, days: int) -> list[list[tuple[object, ...]]]:
    """Messages of some days.  Some reply to later messages, some to themselves in a circle."""
    names = [f"m{number}" for number in range(8 * days)]
    parents = [chance.choice([None, *names[:4], *names]) for _ in names]
    rows = [
        (name, "g", parent, START + n // 8 * DAY + n)
        for n, (name, parent) in enumerate(zip(names, parents, strict=True))
    ]
    return [rows[8 * day : 8 * day + 8] for day in range(days)]


def derived(rows: list[list[tuple[object, ...]]], top: str) -> dict[tuple[object, ...], int]:
    """The rows of a query over ``thread`` after each day, with their first instants, in plain Python."""
    found: dict[tuple[object, ...], int] = {}
    alive: list[tuple[object, ...]] = []
    for row in (row for day in rows for row in day):
        alive.append(row)
        roots = {str(name): str(name) for name, _, parent, _ in alive if parent is None}
        while more := {str(n): roots[str(p)] for n, _, p, _ in alive if p in roots and n not in roots}:
            roots |= more
        answer: set[tuple[object, ...]] = set(roots.items()) if top == DEEP else set(Counter(roots.values()).items())
        for each in answer:
            found.setdefault(each, int(str(row[3])))
    return found


@pytest.mark.parametrize("accident", [kept, lost, damaged, outdated])
def test_answers_do_not_depend_on_stored_rows(
    accident: Callable[[Path, random.Random], None],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance, continued = random.Random(3), list[bool]()
    continue_ = StoredRecursion.continue_

    def counted(self: StoredRecursion, *arguments: Any) -> bool:
        continued.append(continue_(self, *arguments))
        return continued[-1]

    monkeypatch.setattr(StoredRecursion, "continue_", counted)
    weft, rows = replay_home(tmp_path / "home"), replies(chance, 4)
    for day, each in enumerate(rows):
        load(weft, spark, "msgs", each)
        if not day:
            weft.install("deep", THREAD.format("UNION ALL") + DEEP)
            weft.install("counted", THREAD.format("UNION") + COUNTED)
        weft.tick(now=START + (day + 1) * DAY)
        accident(tmp_path / "home", chance)
    assert first_instants(weft, "deep") == derived(rows, DEEP)
    assert first_instants(weft, "counted") == derived(rows, COUNTED)
    assert continued == ([True] * 6 if accident is kept else [True] * len(continued))
    assert bool(continued) == (accident in (kept, outdated))


LINKS: Final = {
    "reached": "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM links UNION SELECT r.a, l.dst FROM r JOIN links l "
    "ON l.src = r.b) SELECT a, b FROM r",
    "of_view": "WITH RECURSIVE r(a, b) AS (SELECT src, dst FROM linked UNION SELECT r.a, l.dst FROM r JOIN linked l "
    "ON l.src = r.b) SELECT a, b FROM r",
    "ways": "WITH RECURSIVE r(a, b, d) AS (SELECT src, dst, 1 FROM links UNION ALL SELECT r.a, l.dst, r.d + 1 FROM r "
    "JOIN links l ON l.src = r.b WHERE r.d < 3) SELECT a, b, COUNT(*) AS n FROM r GROUP BY a, b",
}
Link = tuple[int, int]
Change = tuple[int, bool, Link]
"""An instant, whether the link begins, and the link."""


def link_changes(chance: random.Random, days: int) -> list[list[Change]]:
    """The changes of links between five nodes, some at one instant."""
    alive, found = set[Link](), list[list[Change]]()
    for day in range(days):
        changes = dict[tuple[int, Link], bool]()
        for hour in sorted(chance.randrange(6) for _ in range(8)):
            link = chance.randrange(5), chance.randrange(5)
            if (START + day * DAY + hour * HOUR, link) not in changes:
                changes[START + day * DAY + hour * HOUR, link] = link not in alive
                alive ^= {link}
        found.append([(at, begins, link) for (at, link), begins in changes.items()])
    return found


def append_changes(feed: Path, changes: list[tuple[int, bool, dict[str, Any]]]) -> None:
    """Add changes of keys to a feed."""
    lines = [{"op": "I" if begins else "D", "time": at, "key": key} for at, begins, key in changes]
    with feed.open("a") as file:
        file.write("".join(f"{json.dumps(line)}\n" for line in lines))


def of_links(changes: list[Change]) -> dict[str, dict[tuple[object, ...], int]]:
    """The rows of the queries over ``links``, with their first instants, in plain Python."""
    found: dict[str, dict[tuple[object, ...], int]] = {name: {} for name in LINKS}
    alive = set[Link]()
    for at in sorted({at for at, _, _ in changes}):
        alive |= {link for when, begins, link in changes if when == at and begins}
        alive -= {link for when, begins, link in changes if when == at and not begins}
        reached, ways, last = set(alive), Counter(alive), Counter(alive)
        while more := {(a, d) for a, b in reached for c, d in alive if b == c} - reached:
            reached |= more
        for _ in range(2):
            following = Counter[Link]()
            for (a, b), n in last.items():
                following.update({(a, d): n for c, d in alive if b == c})
            ways, last = ways + following, following
        counted = {(*link, n) for link, n in ways.items()}
        for name in LINKS:
            for row in counted if name == "ways" else reached:
                found[name].setdefault(row, at)
    return found


def test_stored_rows_over_a_table_whose_rows_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last change is a correction of the past, which outdates the stored rows."""
    continued, touched, continue_ = list[bool](), list[int](), StoredRecursion.continue_

    def counted(self: StoredRecursion, *arguments: Any) -> bool:
        continued.append(continue_(self, *arguments))
        touched.append(0 if self.touched is None else self.touched.num_rows)
        return continued[-1]

    monkeypatch.setattr(StoredRecursion, "continue_", counted)
    days, feed, weft = link_changes(random.Random(5), 5), tmp_path / "links.jsonl", replay_home(tmp_path / "home")
    done: list[Change] = []
    for day, changes in enumerate(days):
        append_changes(feed, [(at, begins, {"src": src, "dst": dst}) for at, begins, (src, dst) in sorted(changes)])
        if not day:
            columns = [("src", INT), ("dst", INT)]
            weft.add_source("links", "changes", str(feed), ["src", "dst"], columns=columns)
        weft.poll_source("links", now=START + (day + 1) * DAY)
        if not day:
            weft.add_view("linked", "SELECT l.src, l.dst FROM links l")
        for name, text in LINKS.items() if not day else ():
            weft.install(name, text)
        weft.tick(now=START + (day + 1) * DAY)
        assert {query.reason for query in weft.queries()} == {None}
        done += changes
        assert {name: first_instants(weft, name) for name in LINKS} == of_links(done), day
    assert continued == [True] * 12 and sum(map(bool, touched)) >= 6
    begin, end = START + 4 * DAY + 7 * HOUR, START + 5 * DAY + HOUR  # the stored rows of the last tick are outdated
    weft.correct_source("links", {"src": 8, "dst": 0}, begin, end, {}, now=START + 6 * DAY)
    weft.tick(now=START + 7 * DAY)
    more: list[Change] = [(begin, True, (8, 0)), (end, False, (8, 0))]
    assert {name: first_instants(weft, name) for name in LINKS} == of_links([*done, *more])


def test_a_tick_reads_what_changes(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that the rounds read do not depend on the number of old rows.  Four rows end and 20 begin."""
    read, give = list[int](), stored_recursion.give

    def counted(engine: Any, views: Any) -> None:
        read.append(sum(rows.data.num_rows for rows in views.local.values()))
        give(engine, views)

    monkeypatch.setattr(stored_recursion, "give", counted)
    sums = []
    for size in (100, 3_000):
        weft, feed = replay_home(tmp_path / f"home{size}"), tmp_path / f"{size}.jsonl"
        old = [{"msgid": f"m{n}", "inreplyto": f"m{n - 1}" if n % 10 else None} for n in range(size)]
        append_changes(feed, [(START + n, True, row) for n, row in enumerate(old)])
        columns = [("msgid", STRING), ("inreplyto", STRING)]
        weft.add_source("msgs", "changes", str(feed), ["msgid", "inreplyto"], columns=columns)
        weft.poll_source("msgs", now=START + DAY)
        weft.install("deep", THREAD.format("UNION ALL") + DEEP)
        weft.tick(now=START + DAY)
        new = [{"msgid": f"n{n}", "inreplyto": f"m{n}" if n < 5 else f"n{n - 5}"} for n in range(20)]
        append_changes(feed, [(START + DAY + n, False, old[10 * n + 7]) for n in range(4)])
        append_changes(feed, [(START + DAY + 5 + n, True, row) for n, row in enumerate(new)])
        weft.poll_source("msgs", now=START + 2 * DAY)
        read.clear()
        weft.tick(now=START + 2 * DAY)
        assert len(first_instants(weft, "deep")) == size + 20
        sums.append(sum(read))
    assert 20 <= sums[0] == sums[1] <= 300


def test_a_depth_that_a_shorter_way_made_smaller_is_no_reason_to_stop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored depth of b is 3.  Since a later message makes it 1, c is 2 steps away, and d is 3."""
    monkeypatch.setenv("WEFT_QUERY_DEPTH", "3")
    weft = replay_home(tmp_path / "home")
    text = ROUND.format("UNION")
    days = [[("a", None), ("x", "a"), ("y", "x"), ("b", "y")], [("b", "a")], [("c", "b"), ("d", "c")], [("e", "d")]]
    for day, each in enumerate(days):
        load(weft, spark, "msgs", [(name, "g", to, START + day * DAY) for name, to in each])
        if not day:
            weft.install("led", text)
        weft.tick(now=START + day * DAY + 1)
        reason = weft.queries()[0].reason
        assert (reason is None) == (day < 3), reason
    assert {name for (name,) in first_instants(weft, "led")} == set("axybcd")
