from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from definitions import definition
from weft.algebra.schema import BIGINT, STRING, DataType
from weft.catalog import Catalog, Writer
from weft.catalog.records import Choice, Count, QueryRecord
from weft.errors import CatalogError, ClockError, Conflict, NotFound, Refused

Opened = Callable[..., Catalog]


@pytest.fixture
def catalog(tmp_path: Path, opened: Opened) -> Catalog:
    made = opened(tmp_path, create=True, clock="replay", at=0)
    made.tables.create("t", [("a", BIGINT)])
    made.loads.begin(1, "s", "file", None, 0)
    return made


@pytest.fixture
def writer(catalog: Catalog) -> Writer:
    return catalog.writer("tests", "tests", 0)


def install(writer: Writer, name: str = "q", signature: str = "shape", channels: tuple[str, ...] = ()) -> QueryRecord:
    query = definition(
        name,
        signature=signature,
        parameters=(("INT", 7), ("STRING", None)),
        columns=(("a", BIGINT), ("d", DataType("DECIMAL", 10, 2))),
        every_us=60,
        channels=channels,
    )
    return writer.queries.install(query, 5)


def test_a_query_is_kept_as_it_was_given(writer: Writer) -> None:
    query = install(writer, channels=("cursor", "file:a.jsonl"))
    assert query.parameters == (("INT", 7), ("STRING", None))
    assert query.columns == (("a", BIGINT), ("d", DataType("DECIMAL", 10, 2)))
    assert (query.state, query.tau, query.next_ordinal, query.rows, query.next_due) == ("active", None, 1, 0, None)
    assert writer.queries.named("Q") == query == writer.queries.by_id(query.query_id)
    assert [each.channel for each in writer.subscriptions.all(query.query_id)] == ["cursor", "file:a.jsonl"]


def test_queries_of_one_shape_share_a_plan(writer: Writer) -> None:
    first, second, third = install(writer, "a"), install(writer, "b"), install(writer, "c", "other")
    assert first.plan_id == second.plan_id != third.plan_id
    assert [plan.signature for plan in writer.queries.plans()] == ["shape", "other"]
    assert writer.queries.plan(first.plan_id).body == "body"
    writer.queries.remove("c", 6)
    assert [plan.signature for plan in writer.queries.plans()] == ["shape"]
    with pytest.raises(NotFound):
        writer.queries.plan(99)


def test_a_name_is_free_again_after_a_removal_but_not_the_id(writer: Writer) -> None:
    first = install(writer)
    with pytest.raises(Conflict, match="already"):
        install(writer, "Q")
    writer.queries.remove("q", 9)
    with pytest.raises(NotFound):
        writer.queries.named("q")
    second = install(writer)
    assert second.query_id > first.query_id
    assert [each.state for each in writer.queries.all(include_removed=True)] == ["removed", "active"]
    assert writer.queries.all() == (second,)


def test_a_file_is_one_live_querys(writer: Writer) -> None:
    install(writer, "a", channels=("file:x.jsonl",))
    with pytest.raises(Conflict, match="'a'"):
        install(writer, "b", channels=("cursor", "file:x.jsonl"))
    assert [each.name for each in writer.queries.all()] == ["a"]
    writer.queries.remove("a", 9)
    install(writer, "b", channels=("file:x.jsonl",))


def test_names_that_cannot_be_and_names_that_are_not_there(writer: Writer) -> None:
    for name in ("", "../x", "a b", "-x"):
        with pytest.raises(Refused):
            install(writer, name)
    install(writer, "reminders")
    with pytest.raises(NotFound, match="Did you mean reminders"):
        writer.queries.named("remidners")


def test_states_and_skipping(writer: Writer) -> None:
    install(writer)
    failed = writer.queries.set_state("q", "failed", "too many rows")
    assert (failed.state, failed.reason) == ("failed", "too many rows")
    resumed = writer.queries.set_state("q", "active")
    assert (resumed.state, resumed.reason) == ("active", None)
    assert writer.queries.skip_to("q", 70, "shape, from now", "body").tau == 70
    with pytest.raises(ClockError):
        writer.queries.skip_to("q", 69, "shape, from now", "body")


def test_a_tick_is_planned_then_committed(writer: Writer) -> None:
    a, b = install(writer, "a").query_id, install(writer, "b").query_id
    tick = writer.ticks.plan(100, Choice((a, b)), 7)
    assert (tick.t, tick.state, tick.planned_at) == (100, "planned", 7)
    assert [(query.query_id, tau) for query, tau in writer.ticks.members(tick.tick_id)] == [(a, None), (b, None)]
    assert writer.ticks.planned() == tick
    assert writer.home().watermark < 100  # nothing is ticked yet
    with pytest.raises(Conflict):
        writer.ticks.plan(101, Choice(()), 8)
    counts = {a: Count(3, None, 500, 100, 99), b: Count(0, "nothing arrived", None, 100)}
    writer.ticks.commit(tick.tick_id, counts, [("ledger", 4, 3)], 9)
    assert writer.ticks.planned() is None
    home = writer.home()
    assert (home.watermark, home.now, home.t0) == (100, 100, 100)
    first, second = writer.queries.named("a"), writer.queries.named("b")
    assert (first.tau, first.next_ordinal, first.rows, first.next_due, first.last_first_at) == (100, 4, 3, 500, 99)
    assert (second.tau, second.next_ordinal, second.next_due) == (100, 1, None)
    (record,) = writer.ticks.latest()
    assert (record.state, record.committed_at) == ("committed", 9)
    assert writer.ticks.versions(tick.tick_id) == (("ledger", 4, 3),)
    assert [(r.path, r.version, r.rows) for r in writer.tables.versions()] == [("ledger", 4, 3)]
    (done,) = writer.ticks.of_query(b)
    assert (done.t, done.tau, done.rows, done.reason, done.state) == (100, None, 0, "nothing arrived", "committed")
    with pytest.raises(CatalogError, match="already committed"):
        writer.ticks.commit(tick.tick_id, {}, [], 9)


def test_the_last_first_instant_never_falls(writer: Writer) -> None:
    """What reads a query's answers takes it for the greatest, and leaves them alone where that is not new to it."""
    kept = install(writer).query_id
    for t, last, greatest in ((100, 99, 99), (200, 7, 99), (300, None, 99), (400, 350, 350)):
        tick = writer.ticks.plan(t, Choice(), t)
        writer.ticks.commit(tick.tick_id, {kept: Count(int(last is not None), None, None, t, last)}, [], t)
        assert writer.queries.by_id(kept).last_first_at == greatest


def test_first_deliveries_are_chosen_by_their_plans(writer: Writer) -> None:
    a, b, other = install(writer, "a"), install(writer, "b"), install(writer, "c", "other")
    first, second = a.plan_id, other.plan_id
    assert writer.ticks.first_deliveries(Choice()) == (first, second)

    def ticked(choice: Choice) -> list[int]:
        tick = writer.ticks.plan(10, choice, 0)
        ran = [query.query_id for query, _ in writer.ticks.members(tick.tick_id)]
        writer.ticks.commit(tick.tick_id, {key: Count(0, None, None, 10, None) for key in ran}, [], 0)
        return ran

    assert ticked(Choice((a.query_id,))) == [a.query_id]
    assert writer.ticks.first_deliveries(Choice()) == (first, second)
    assert ticked(Choice(but_first_of=(first,))) == [a.query_id, other.query_id], "a has a tau"
    assert writer.ticks.first_deliveries(Choice()) == (first,)
    assert ticked(Choice((other.query_id,), first_of=(first,))) == []
    assert ticked(Choice(first_of=(first,))) == [b.query_id]
    assert writer.ticks.first_deliveries(Choice()) == ()


def test_a_dead_tick_is_found_with_its_logged_clock(writer: Writer, tmp_path: Path, opened: Opened) -> None:
    a = install(writer, "a").query_id
    tick = writer.ticks.plan(100, Choice((a,)), 7)
    with opened(tmp_path, at=0) as other:
        later = other.writer("tick", "later", 10**12)
        assert later.ticks.planned() == tick
        assert later.ticks.planned() is not None
        later.ticks.commit(tick.tick_id, {a: Count(0, "nothing", None, 100)}, [], 11)
        assert later.queries.named("a").tau == 100
        assert later.ticks.plan(100, Choice(()), 12).tick_id > tick.tick_id


def test_no_row_comes_below_a_planned_tick(writer: Writer) -> None:
    writer.ticks.plan(100, Choice(()), 7)
    assert writer.reservations.reserve(1, 1).floor == 100


def test_an_abandoned_tick_moves_nothing(writer: Writer) -> None:
    a = install(writer, "a").query_id
    tick = writer.ticks.plan(100, Choice((a,)), 7)
    writer.ticks.abandon(tick.tick_id)
    assert writer.queries.named("a").tau is None
    assert writer.ticks.planned() is None
    assert writer.ticks.plan(90, Choice(()), 8).t == 90
    with pytest.raises(CatalogError):
        writer.ticks.abandon(tick.tick_id)


def test_a_query_that_is_left_out_keeps_its_tau(writer: Writer) -> None:
    a, b = install(writer, "a").query_id, install(writer, "b").query_id
    tick = writer.ticks.plan(100, Choice((a, b)), 7)
    with pytest.raises(CatalogError, match="not planned"):
        writer.ticks.commit(tick.tick_id, {99: Count(0, None, None, 100)}, [], 9)
    writer.ticks.commit(tick.tick_id, {a: Count(0, None, None, 100)}, [], 9)
    assert (writer.queries.named("a").tau, writer.queries.named("b").tau) == (100, None)


def test_clocks_never_go_back(writer: Writer) -> None:
    tick = writer.ticks.plan(100, Choice(()), 7)
    writer.ticks.commit(tick.tick_id, {}, [], 7)
    with pytest.raises(ClockError, match="which is later than"):
        writer.ticks.plan(99, Choice(()), 8)
    assert writer.reservations.reserve(1, 1).floor == 100
    with pytest.raises(ClockError, match="a running load may add rows"):
        writer.ticks.plan(101, Choice(()), 8)
    assert writer.ticks.plan(100, Choice(()), 8).t == 100


def test_a_wall_home_is_not_ticked_in_the_future(tmp_path: Path, opened: Opened) -> None:
    with opened(tmp_path / "wall", create=True, at=0) as catalog:
        writer = catalog.writer("tick", "a", 0)
        with pytest.raises(ClockError, match="future"):
            writer.ticks.plan(101, Choice(()), 100)
        tick = writer.ticks.plan(100, Choice(()), 100)
        writer.ticks.commit(tick.tick_id, {}, [], 100)
        assert writer.home().now is None


def test_many_queries_are_ticked_in_one_transaction(writer: Writer) -> None:
    ids = [install(writer, f"q{n}").query_id for n in range(100)]
    tick = writer.ticks.plan(100, Choice(tuple(ids)), 7)
    writer.ticks.commit(tick.tick_id, dict.fromkeys(ids, Count(1, None, None, 100)), [], 8)
    assert {query.tau for query in writer.queries.all()} == {100}


def test_the_outbox_moves_a_subscription_on(writer: Writer, catalog: Catalog) -> None:
    query = install(writer, channels=("file:a.jsonl",))
    (sub,) = writer.subscriptions.all(query.query_id)
    sender = catalog.sender("tests", 0)
    with pytest.raises(Conflict, match="in the meantime"):
        sender.outbox.open(replace(sub, delivered=1), 5, None, "{}")
    entry = sender.outbox.open(sub, 5, '{"offset": 0}', "{}")
    assert sender.outbox.unsent() == (entry,)
    with pytest.raises(CatalogError, match="still being delivered"):
        sender.outbox.open(sub, 6, None, "{}")
    failed = sender.outbox.mark_failed(entry.entry_id, "disk full", 50)
    assert (failed.state, failed.attempts, failed.next_attempt_at, failed.last_error) == ("active", 1, 50, "disk full")
    again = sender.outbox.open(sub, 5, '{"offset": 9}', "{}")
    assert (again.entry_id, again.state, again.position, again.attempts) == (
        entry.entry_id,
        "pending",
        '{"offset": 9}',
        2,
    )
    assert again.idempotency_key == entry.idempotency_key
    parked = sender.outbox.mark_failed(entry.entry_id, "disk full", None)
    assert (parked.state, parked.attempts) == ("parked", 2)
    writer.subscriptions.resume(sub.sub_id)
    sender.outbox.open(sub, 5, None, "{}")
    sender.outbox.mark_sent(entry.entry_id, 60, "250 taken")
    (moved,) = writer.subscriptions.all(query.query_id)
    assert (moved.delivered, moved.state, moved.attempts, moved.last_error) == (5, "active", 0, None)
    assert sender.outbox.unsent() == ()
    with pytest.raises(CatalogError, match="already sent"):
        sender.outbox.mark_sent(entry.entry_id, 60)
    (sent,) = sender.outbox.latest([sub.sub_id], 20)
    assert (sent.state, sent.sent_at, sent.reply, sent.attempts) == ("sent", 60, "250 taken", 3)


def test_channels_can_be_added_later(writer: Writer) -> None:
    query = install(writer)
    sub = writer.subscriptions.add(query.query_id, "file:late.csv", delivered=0)
    assert writer.subscriptions.all() == (sub,)
    with pytest.raises(Conflict):
        writer.subscriptions.add(query.query_id, "file:late.csv")


def test_string_columns_are_typed(writer: Writer) -> None:
    table = writer.tables.create("u", [("s", STRING)])
    assert table.schema.columns[0].type == STRING
