from __future__ import annotations

from pathlib import Path

import pytest

from weft.algebra.schema import BIGINT, STRING, DataType
from weft.catalog import Catalog, open_catalog
from weft.catalog.records import QueryRecord
from weft.errors import CatalogError, ClockError, Conflict, NotFound, Refused


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = open_catalog(tmp_path, create=True, clock="replay", at=0)
    made.create_table("t", [("a", BIGINT)])
    made.begin_load(1, "s", "file", None, 0)
    made.acquire("tests", "tests", 0)
    return made


def install(catalog: Catalog, name: str = "q", signature: str = "shape", channels: tuple[str, ...] = ()) -> QueryRecord:
    return catalog.install(
        1,
        name,
        "ann",
        "SELECT a FROM t WHERE a = 7",
        signature,
        "body",
        [("INT", 7), ("STRING", None)],
        [("a", BIGINT), ("d", DataType("DECIMAL", 10, 2))],
        60,
        "start",
        None,
        list(channels),
        5,
    )


def test_a_query_is_kept_as_it_was_given(catalog: Catalog) -> None:
    query = install(catalog, channels=("cursor", "file:a.jsonl"))
    assert query.parameters == (("INT", 7), ("STRING", None))
    assert query.columns == (("a", BIGINT), ("d", DataType("DECIMAL", 10, 2)))
    assert (query.state, query.tau, query.next_ordinal, query.rows, query.next_due) == ("active", None, 1, 0, None)
    assert catalog.query("Q") == query == catalog.query_by_id(query.query_id)
    assert [each.channel for each in catalog.subscriptions(query.query_id)] == ["cursor", "file:a.jsonl"]


def test_queries_of_one_shape_share_a_plan(catalog: Catalog) -> None:
    first, second, third = install(catalog, "a"), install(catalog, "b"), install(catalog, "c", "other")
    assert first.plan_id == second.plan_id != third.plan_id
    assert [plan.signature for plan in catalog.plans()] == ["shape", "other"]
    assert catalog.plan(first.plan_id).body == "body"
    catalog.remove(1, "c", 6)
    assert [plan.signature for plan in catalog.plans()] == ["shape"]
    with pytest.raises(NotFound):
        catalog.plan(99)


def test_a_name_is_free_again_after_a_removal_but_not_the_id(catalog: Catalog) -> None:
    first = install(catalog)
    with pytest.raises(Conflict, match="already"):
        install(catalog, "Q")
    catalog.remove(1, "q", 9)
    with pytest.raises(NotFound):
        catalog.query("q")
    second = install(catalog)
    assert second.query_id > first.query_id
    assert [each.state for each in catalog.queries(include_removed=True)] == ["removed", "active"]
    assert catalog.queries() == (second,)


def test_a_file_is_one_live_querys(catalog: Catalog) -> None:
    install(catalog, "a", channels=("file:x.jsonl",))
    with pytest.raises(Conflict, match="'a'"):
        install(catalog, "b", channels=("cursor", "file:x.jsonl"))
    assert [each.name for each in catalog.queries()] == ["a"]
    catalog.remove(1, "a", 9)
    install(catalog, "b", channels=("file:x.jsonl",))


def test_names_that_cannot_be_and_names_that_are_not_there(catalog: Catalog) -> None:
    for name in ("", "../x", "a b", "-x"):
        with pytest.raises(Refused):
            install(catalog, name)
    install(catalog, "reminders")
    with pytest.raises(NotFound, match="Did you mean reminders"):
        catalog.query("remidners")


def test_states_and_skipping(catalog: Catalog) -> None:
    install(catalog)
    failed = catalog.set_state(1, "q", "failed", "too many rows")
    assert (failed.state, failed.reason) == ("failed", "too many rows")
    resumed = catalog.set_state(1, "q", "active")
    assert (resumed.state, resumed.reason) == ("active", None)
    assert catalog.skip_to(1, "q", 70).tau == 70
    with pytest.raises(ClockError):
        catalog.skip_to(1, "q", 69)


def test_a_tick_is_planned_then_committed(catalog: Catalog) -> None:
    a, b = install(catalog, "a").query_id, install(catalog, "b").query_id
    tick = catalog.plan_tick(1, 100, [(a, None), (b, None)], 7)
    assert (tick.t, tick.state, tick.queries, tick.planned_at) == (100, "planned", ((a, None), (b, None)), 7)
    assert catalog.planned_tick() == tick
    assert catalog.home().forward < 100  # nothing is ticked yet
    with pytest.raises(Conflict):
        catalog.plan_tick(1, 101, [], 8)
    catalog.commit_tick(1, tick.tick_id, 4, {a: (3, None, 500), b: (0, "nothing arrived", None)}, [("ledger", 4, 3)], 9)
    assert catalog.planned_tick() is None
    home = catalog.home()
    assert (home.forward, home.now, home.t0) == (100, 100, 100)
    first, second = catalog.query("a"), catalog.query("b")
    assert (first.tau, first.next_ordinal, first.rows, first.next_due) == (100, 4, 3, 500)
    assert (second.tau, second.next_ordinal, second.next_due) == (100, 1, None)
    (record,) = catalog.ticks()
    assert (record.state, record.ledger_version, record.committed_at) == ("committed", 4, 9)
    assert catalog.tick_versions(tick.tick_id) == (("ledger", 4, 3),)
    assert [(r.path, r.version, r.rows) for r in catalog.recorded_versions()] == [("ledger", 4, 3)]
    (done,) = catalog.tick_queries(b)
    assert (done.t, done.tau, done.rows, done.reason, done.state) == (100, None, 0, "nothing arrived", "committed")
    with pytest.raises(CatalogError, match="committed already"):
        catalog.commit_tick(1, tick.tick_id, 4, {}, [], 9)


def test_a_dead_tick_is_found_with_its_logged_clock(catalog: Catalog, tmp_path: Path) -> None:
    a = install(catalog, "a").query_id
    tick = catalog.plan_tick(1, 100, [(a, 50)], 7)
    with open_catalog(tmp_path, at=0) as later:
        token = later.acquire("tick", "later", 10**12).token
        assert later.planned_tick() == tick
        assert later.planned_tick() is not None
        later.commit_tick(token, tick.tick_id, None, {a: (0, "nothing", None)}, [], 11)
        assert later.query("a").tau == 100
        assert later.plan_tick(token, 100, [], 12).tick_id > tick.tick_id


def test_no_row_comes_below_a_planned_tick(catalog: Catalog) -> None:
    catalog.plan_tick(1, 100, [], 7)
    assert catalog.reserve(1, 1, 1).floor == 100


def test_an_abandoned_tick_moves_nothing(catalog: Catalog) -> None:
    a = install(catalog, "a").query_id
    tick = catalog.plan_tick(1, 100, [(a, None)], 7)
    catalog.abandon_tick(1, tick.tick_id)
    assert catalog.query("a").tau is None
    assert catalog.planned_tick() is None
    assert catalog.plan_tick(1, 90, [], 8).t == 90
    with pytest.raises(CatalogError):
        catalog.abandon_tick(1, tick.tick_id)


def test_a_query_that_is_left_out_keeps_its_tau(catalog: Catalog) -> None:
    a, b = install(catalog, "a").query_id, install(catalog, "b").query_id
    tick = catalog.plan_tick(1, 100, [(a, None), (b, None)], 7)
    with pytest.raises(CatalogError, match="not planned"):
        catalog.commit_tick(1, tick.tick_id, None, {99: (0, None, None)}, [], 9)
    catalog.commit_tick(1, tick.tick_id, None, {a: (0, None, None)}, [], 9)
    assert (catalog.query("a").tau, catalog.query("b").tau) == (100, None)


def test_clocks_never_go_back(catalog: Catalog) -> None:
    tick = catalog.plan_tick(1, 100, [], 7)
    catalog.commit_tick(1, tick.tick_id, None, {}, [], 7)
    with pytest.raises(ClockError, match="before it"):
        catalog.plan_tick(1, 99, [], 8)
    assert catalog.reserve(1, 1, 1).floor == 100
    with pytest.raises(ClockError, match="reserved"):
        catalog.plan_tick(1, 101, [], 8)
    assert catalog.plan_tick(1, 100, [], 8).t == 100


def test_a_wall_home_is_not_ticked_in_the_future(tmp_path: Path) -> None:
    with open_catalog(tmp_path / "wall", create=True, at=0) as catalog:
        token = catalog.acquire("tick", "a", 0).token
        with pytest.raises(ClockError, match="future"):
            catalog.plan_tick(token, 101, [], 100)
        tick = catalog.plan_tick(token, 100, [], 100)
        catalog.commit_tick(token, tick.tick_id, None, {}, [], 100)
        assert catalog.home().now is None


def test_many_queries_are_ticked_in_one_transaction(catalog: Catalog) -> None:
    ids = [install(catalog, f"q{n}").query_id for n in range(100)]
    tick = catalog.plan_tick(1, 100, [(each, None) for each in ids], 7)
    catalog.commit_tick(1, tick.tick_id, 1, dict.fromkeys(ids, (1, None, None)), [], 8)
    assert {query.tau for query in catalog.queries()} == {100}


def test_the_outbox_moves_a_subscription_on(catalog: Catalog) -> None:
    query = install(catalog, channels=("file:a.jsonl",))
    (sub,) = catalog.subscriptions(query.query_id)
    with pytest.raises(CatalogError, match="does not follow"):
        catalog.open_entry(1, sub.sub_id, 2, 5, None)
    entry = catalog.open_entry(1, sub.sub_id, 1, 5, '{"offset": 0}')
    assert catalog.unsent() == (entry,)
    with pytest.raises(CatalogError, match="still under way"):
        catalog.open_entry(1, sub.sub_id, 1, 6, None)
    failed = catalog.mark_failed(1, entry.entry_id, "disk full", 50)
    assert (failed.state, failed.attempts, failed.next_attempt_at, failed.last_error) == ("active", 1, 50, "disk full")
    again = catalog.open_entry(1, sub.sub_id, 1, 5, '{"offset": 9}')
    assert (again.entry_id, again.state, again.position) == (entry.entry_id, "pending", '{"offset": 9}')
    assert again.idempotency_key == entry.idempotency_key
    parked = catalog.mark_failed(1, entry.entry_id, "disk full", None)
    assert (parked.state, parked.attempts) == ("parked", 2)
    catalog.resume_subscription(1, sub.sub_id)
    catalog.open_entry(1, sub.sub_id, 1, 5, None)
    catalog.mark_sent(1, entry.entry_id, 60)
    (moved,) = catalog.subscriptions(query.query_id)
    assert (moved.delivered, moved.state, moved.attempts, moved.last_error) == (5, "active", 0, None)
    assert catalog.unsent() == ()
    with pytest.raises(CatalogError, match="sent already"):
        catalog.mark_sent(1, entry.entry_id, 60)
    (sent,) = catalog.entries(sub.sub_id)
    assert (sent.state, sent.sent_at) == ("sent", 60)


def test_channels_can_be_added_later(catalog: Catalog) -> None:
    query = install(catalog)
    sub = catalog.subscribe(1, query.query_id, "file:late.csv", delivered=0)
    assert catalog.subscriptions() == (sub,)
    with pytest.raises(Conflict):
        catalog.subscribe(1, query.query_id, "file:late.csv")


def test_string_columns_are_typed(catalog: Catalog) -> None:
    table = catalog.create_table("u", [("s", STRING)])
    assert table.schema.columns[0].type == STRING
