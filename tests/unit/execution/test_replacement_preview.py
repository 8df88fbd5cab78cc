"""A standing query's text is replaced: what stays, what is refused, and a kill around it.  No Spark."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import forked
from answered import answered
from weft.api import Weft
from weft.catalog.records import Choice, Count
from weft.errors import Conflict, NotFound, Refused, SqlError, SynopsisError
from weft.execution.replacement_preview import Replacement

SECOND = 1_000_000
OLD, NEW = "SELECT n, s FROM t WHERE n > 1", "SELECT n, s FROM t WHERE s <> 'b'"


@pytest.fixture
def clock() -> list[int]:
    return [1_000 * SECOND]


@pytest.fixture
def weft(tmp_path: Path, clock: list[int]) -> Iterator[Weft]:
    (tmp_path / "t.csv").write_text("n,s\n1,a\n2,b\n")
    with Weft.open(tmp_path / "home", wall=lambda: clock[0], create=True) as opened:
        opened.ingest_file(tmp_path / "t.csv", "t")
        opened.install("q", OLD, user="ann", every="1h", to=["file:q.csv", "delta:q"])
        answered(opened, "q", 3)
        opened.mute("q", "delta:q")
        opened.subscribe("q", "file:late.jsonl", from_start=True)
        clock[0] += 60 * SECOND
        yield opened


def test_a_name_in_use_is_refused_with_a_hint_to_replace_the_text(weft: Weft) -> None:
    with pytest.raises(Conflict) as result:
        weft.install("q", NEW)
    assert "--replace" in str(result.value.hint)


def test_the_effect_of_a_replacement_is_shown_in_one_line(weft: Weft) -> None:
    found = Replacement(weft.show("q").query, 4, 2, None, SECOND)
    assert repr(found) == "<q: 4 new answers, 2 known, 1 only from the old text>"


def test_all_but_the_text_stays_and_the_old_text_is_kept(weft: Weft, clock: list[int]) -> None:
    old, channels = weft.show("q").query, weft.show("q").subscriptions
    found = weft.install("Q", NEW, replace=True)
    kept = ("query_id", "name", "user", "every_us", "columns", "next_ordinal", "state", "installed_at", "from_instant")
    assert [getattr(found, each) for each in kept] == [getattr(old, each) for each in kept]
    assert (found.sql, found.tau, found.next_due, found.replaced_at) == (NEW, None, None, clock[0])
    shown = weft.show("q")
    assert shown.subscriptions == channels
    (text,) = shown.replaced
    assert (text.sql, text.since, text.until, text.tau, text.rows) == (OLD, old.installed_at, clock[0], old.tau, 3)
    assert [row.ordinal for row in weft.results("q")] == [1, 2, 3]
    weft.install("q", OLD, replace=True, user="bob", every="2h", start="now")
    found = weft.show("q").query
    assert (found.user, found.every_us, found.from_mode, found.from_instant) == ("bob", 7_200 * SECOND, "now", clock[0])
    assert [each.sql for each in weft.show("q").replaced] == [OLD, NEW]
    weft.install("q", NEW, replace=True)
    assert weft.show("q").query.from_instant == clock[0]  # it stands from where the one before it stood
    assert weft.install("q", OLD, replace=True, start="start").from_instant is None
    assert weft.health().problems == ()


def test_one_that_failed_goes_on_and_one_that_is_paused_stays_so(weft: Weft) -> None:
    with weft.writing("test") as writer:
        writer.queries.set_state("q", "failed", "it took too long")
    found = weft.install("q", NEW, replace=True)
    assert (found.state, found.reason) == ("active", None)
    weft.pause("q")
    assert weft.install("q", OLD, replace=True).state == "paused"
    assert weft.resume("q").state == "active"


def ticked(weft: Weft, t: int, next_due: int | None = None) -> None:
    """A tick of all queries that finds nothing."""
    with weft.writing("tick") as writer:
        tick = writer.ticks.plan(t, Choice(), t)
        counts = {query.query_id: Count(0, None, next_due, t) for query, _ in writer.ticks.members(tick.tick_id)}
        writer.ticks.commit(tick.tick_id, counts, [], t)


@pytest.mark.parametrize(
    ("text", "given", "error", "words"),
    [
        ("SELECT n FROM t", {}, Conflict, "but q has answers"),
        ("SELECT n, s AS text FROM t", {}, Conflict, r"returns \(n BIGINT, text STRING\)"),
        ("SELECT s, n FROM t", {}, Conflict, r"has answers \(n BIGINT, s STRING\)"),
        ("SELECT CAST(n AS INT) AS n, s FROM t", {}, Conflict, "but q has answers"),
        (OLD, {}, Conflict, "already has this text"),
        ("SELECT n, s FROM results.q", {}, Conflict, "would read its own results"),
        ("SELECT n, s FROM results.above", {}, Conflict, "the results of above, which depend on its own"),
        ("SELECT n, s FROM gone", {}, SqlError, "gone"),
        (NEW, {"to": ["file:b.jsonl"]}, Refused, "does not change its channels"),
        (NEW, {"digest": "hourly"}, Refused, "does not change its channels"),
        (NEW, {"keep": "synopsis"}, Refused, "SQL query that is answered from the history of its tables"),
        ("t(n, s)", {"language": "monpoly"}, Refused, "SQL query that is answered from the history of its tables"),
        (NEW, {"every": "soon"}, Refused, "soon"),
    ],
)
def test_an_invalid_replacement_changes_nothing(
    weft: Weft, text: str, given: dict[str, object], error: type[Exception], words: str
) -> None:
    weft.install("above", "SELECT n, s FROM results.q WHERE n > 5")
    before = weft.show("q")
    with pytest.raises(error, match=words):
        weft.install("q", text, replace=True, **given)  # type: ignore[arg-type]
    assert weft.show("q") == before
    with pytest.raises(error, match=words):
        weft.replacement("q", text, **given)  # type: ignore[arg-type]


def test_there_has_to_be_one_and_no_synopsis(weft: Weft) -> None:
    with pytest.raises(NotFound, match="qq"):
        weft.install("qq", NEW, replace=True)
    weft.install("p", "SELECT n FROM t", keep="synopsis")
    for refused in (weft.replacement, lambda *given: weft.install(*given, replace=True)):
        with pytest.raises(SynopsisError, match="p is maintained as a synopsis"):
            refused("p", "SELECT n FROM t WHERE n > 1")


def test_what_reads_its_results_looks_again_and_comes_after_it(weft: Weft, clock: list[int]) -> None:
    weft.install("lower", "SELECT n, s FROM t")
    weft.install("above", "SELECT n, s FROM results.q")
    weft.install("top", "SELECT a.n, a.s FROM results.above a JOIN results.q q ON q.n = a.n")
    weft.install("later", "SELECT n, s FROM results.q", start="now")
    weft.install("skipping", "SELECT n FROM results.q")
    weft.pause("skipping")
    clock[0] += SECOND
    weft.resume("skipping", skip=True)
    names = ("above", "top", "later", "skipping")
    ticked(weft, clock[0] + 1)
    begins = {name: weft.show(name).query.from_instant for name in names}
    assert begins == {"above": None, "top": None, "later": clock[0] - SECOND, "skipping": clock[0]}
    text = "SELECT n, s FROM results.lower"
    weft.install("q", text, replace=True)
    found = {each.name: each for each in weft.queries()}
    assert {name: each.stratum for name, each in found.items()} == {
        "q": 1, "lower": 0, "above": 2, "top": 3, "later": 2, "skipping": 2
    }  # fmt: skip
    assert [found[name].tau for name in names] == [None] * 4
    assert {name: found[name].from_instant for name in names} == begins
    assert weft.catalog.queries.waiting_since(clock[0])[0] == clock[0]
    assert found["lower"].tau is not None
    assert weft.show("lower").read_by == ("q",)
    ticked(weft, clock[0] + 2)
    taus = {name: weft.show(name).query.tau for name in names}
    weft.install("q", OLD, replace=True, start="now")  # nothing of it will begin before what they have gone through
    assert {name: weft.show(name).query.tau for name in names} == taus
    assert [weft.show(name).query.stratum for name in ("q", *names)] == [0, 1, 2, 1, 1]


def test_explain_says_when_a_reader_of_results_is_due_and_what_it_reads_again(weft: Weft, clock: list[int]) -> None:
    weft.install("low", "SELECT n, s FROM t WHERE NOW() > ts + INTERVAL 1 DAY")
    weft.install("above", "SELECT n, s FROM results.low")
    clock[0] += SECOND
    assert "which is its first" in str(weft.explain_installed("above").next_due)  # type: ignore[union-attr]
    ticked(weft, clock[0], clock[0] + 86_400 * SECOND)
    result = str(weft.explain_installed("above").next_due)  # type: ignore[union-attr]
    assert "time alone can make an answer appear, or when rows arrive in results.low" in result
    weft.install("low", "SELECT n, s FROM t WHERE NOW() > ts + INTERVAL 2 DAYS", replace=True)
    for name in ("low", "above"):
        result = str(weft.explain_installed(name).next_due)  # type: ignore[union-attr]
        assert result == "Next due: the next tick, which reads the whole history again."
    weft.install("low", "SELECT n, s FROM t", replace=True, start="now")
    assert "reads the history from 1970" in str(weft.explain_installed("low").next_due)  # type: ignore[union-attr]


def test_with_the_text_it_has_only_its_owner_and_its_timeliness_change(weft: Weft, clock: list[int]) -> None:
    weft.install("above", "SELECT n, s FROM results.q")
    ticked(weft, clock[0])
    before = {each.name: each for each in weft.queries()}
    found = weft.install("q", OLD, replace=True, user="bob", every="2h")
    assert found == replace(before["q"], user="bob", every_us=7_200 * SECOND)
    assert weft.show("above").query == before["above"] and weft.show("q").replaced == ()
    assert weft.catalog.queries.next_wake(0) == clock[0]  # that of the other, which runs with each tick
    weft.pause("above")
    assert weft.catalog.queries.next_wake(0) == clock[0] + 7_200 * SECOND


@pytest.mark.parametrize("point", ["replace.checked", "replace.stored"])
def test_killed_it_is_the_old_one_or_the_new_one(weft: Weft, point: str) -> None:
    before = weft.show("q")
    program = f"from weft.api import Weft; Weft.open({str(weft.home)!r}).install('q', {NEW!r}, replace=True)"
    died = forked.run([sys.executable, "-c", program], point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    after = weft.show("q")
    if point == "replace.checked":
        assert after == before
        weft.install("q", NEW, replace=True)
        after = weft.show("q")
    else:
        with pytest.raises(Conflict, match="already has this text"):
            weft.install("q", NEW, replace=True)
    assert (after.query.sql, after.query.rows, len(after.replaced)) == (NEW, 3, 1)
    assert [replace(each, delivered=0) for each in after.subscriptions] == [
        replace(each, delivered=0) for each in before.subscriptions
    ]
