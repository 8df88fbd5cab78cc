"""A tick that died is settled before anything else changes what it names; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from delta_tables import write_ledger
from weft.api.weft import Weft
from weft.catalog.records import Choice
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.storage.verify import verify

T = 1_000_000
QUERY = "SELECT msgid FROM msgs"


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        opened.catalog.tables.create("msgs", MAIL_COLUMNS, MAIL_KEY)
        opened.install("q", QUERY)
        opened.install("other", QUERY.replace("msgid", "subject"))
        opened.tick(now=T)
        yield opened


def die(weft: Weft, *, written: bool) -> None:
    """Leaves a tick as a process that is killed leaves it: planned, with its answers in the ledger or without."""
    with weft.catalog.writing("tick", weft.clock) as writer:
        tick = writer.ticks.plan(2 * T, Choice(), 0)
        if written:
            rows = [(query.query_id, 1, tick.t, ["a"]) for query, _ in writer.ticks.members(tick.tick_id)]
            writer.ticks.open_outputs(tick.tick_id, [("ledger", "ledger")])
            write_ledger(weft.home / "ledger", tick.tick_id, rows)


CHANGES: dict[str, Callable[[Weft], object]] = {
    "pause": lambda weft: weft.pause("other"),
    "remove": lambda weft: weft.remove("other"),
    "purge": lambda weft: weft.remove("other", purge=True),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("written", [True, False])
def test_after_a_dead_tick_a_change_leaves_a_home_that_ticks_on(weft: Weft, change: str, written: bool) -> None:
    die(weft, written=written)
    CHANGES[change](weft)
    assert weft.catalog.ticks.planned() is None
    assert verify(weft.catalog) == []
    (query,) = weft.catalog.queries.all() if change != "pause" else (weft.catalog.queries.named("q"),)
    assert (query.tau, query.rows) == ((2 * T, 1) if written else (T, 0))
    weft.tick(now=3 * T)
    assert weft.catalog.queries.named("q").tau == 3 * T
    assert len(list(weft.results("q"))) == int(written)


def test_a_dead_tick_does_not_override_a_skip(weft: Weft) -> None:
    weft.pause("q")
    with weft.catalog.writing("resume", weft.clock) as writer:
        writer.queries.set_state("q", "active")
    die(weft, written=False)
    with weft.catalog.writing("pause", weft.clock) as writer:
        writer.queries.set_state("q", "paused")
    before = weft.catalog.queries.named("q")
    skipped = weft.resume("q", skip=True)
    assert weft.catalog.ticks.planned() is None
    assert skipped.tau is not None
    assert skipped.tau >= T
    assert skipped.plan_id != before.plan_id
    assert weft.catalog.queries.plan(skipped.plan_id).body == _from_now_body(weft)
    weft.tick(now=3 * T)
    assert weft.catalog.queries.named("q").tau == 3 * T


def _from_now_body(weft: Weft) -> str:
    """The plan of the same text, installed --from now."""
    installed = weft.install("from-now", QUERY, start="now")
    return weft.catalog.queries.plan(installed.plan_id).body
