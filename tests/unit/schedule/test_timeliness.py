from __future__ import annotations

from dataclasses import replace

from weft.catalog.records import QueryRecord
from weft.schedule.timeliness import due, is_due, next_run, next_wake

QUERY = QueryRecord(
    query_id=1, name="q", user="u", sql="", plan_id=1, parameters=(), columns=(), every_us=10, from_mode="start",
    from_instant=None, tau=None, next_ordinal=1, state="active", reason=None, installed_at=0, next_due=None,
)  # fmt: skip


def test_a_query_that_was_never_run_is_due() -> None:
    assert next_run(QUERY) is None
    assert is_due(QUERY, 0)


def test_a_query_is_due_when_its_timeliness_is_over() -> None:
    query = replace(QUERY, tau=100)
    assert next_run(query) == 110
    assert not is_due(query, 109)
    assert is_due(query, 110)


def test_without_a_timeliness_each_tick_runs_it() -> None:
    assert is_due(replace(QUERY, every_us=None, tau=100), 100)


def test_only_active_queries_are_due() -> None:
    others = [replace(QUERY, state=state) for state in ("paused", "removed", "failed")]
    assert due([*others, QUERY], 5) == (QUERY,)
    assert next_wake(others, 5, 60) is None


def test_a_runner_wakes_for_the_first_that_is_due() -> None:
    slow, fast = replace(QUERY, tau=100, every_us=1000), replace(QUERY, tau=100, every_us=30)
    each = replace(QUERY, tau=100, every_us=None)
    assert next_wake([slow, fast], 100, 60) == 130
    assert next_wake([slow, each], 100, 60) == 160
    assert next_wake([slow, QUERY], 100, 60) == 100
    assert next_wake([fast], 500, 60) == 500
