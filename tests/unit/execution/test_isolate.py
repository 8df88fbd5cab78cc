"""Which query is to blame: only what happened to it alone counts, and finding it takes few runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netnews import TABLES
from weft.catalog.records import QueryRecord
from weft.errors import ExecutionError, JvmEnded, LimitExceeded
from weft.execution.groups import Group, Member
from weft.execution.isolate import failing_queries, reason
from weft.execution.spark_runner import Limits, SparkRunner, too_many
from weft.planning.plan import plan

LATE = LimitExceeded("the query took longer than 9 s", hint="Narrow it.")
ENDED = JvmEnded("Spark's JVM ended", hint="Look for the cause in the log.")
SHAPE = plan("SELECT msgid FROM msgs", TABLES)


class _Scripted(SparkRunner):
    """Attempts without Spark. The IDs of the queries determine the outcome."""

    def __init__(self, outcome: Callable[[list[int]], Exception | None]) -> None:
        super().__init__(_no_session, None, Limits(9.0, 100))  # type: ignore[arg-type]
        self.outcome = outcome
        self.runs: list[list[int]] = []

    def run(self, compute: Callable[[Any], Any], seconds: float) -> Any:
        ids = compute(None)
        self.runs.append(ids)
        assert len(ids) > 1 or seconds == 9.0
        error = self.outcome(ids)
        if error is not None:
            raise error


def _no_session() -> Any:
    raise AssertionError("no Spark here")


def _group(*ids: int) -> Group:
    return Group(1, SHAPE, tuple(Member(_record(each), None, 5) for each in ids), 5)


def _record(query_id: int) -> QueryRecord:
    return QueryRecord(
        query_id, f"q{query_id}", "", "", 1, (), (), None, "start", None, None, 1, "active", None, 0, None, None
    )


def _found(attempts: SparkRunner, *groups: Group, error: ExecutionError = LATE) -> dict[int, ExecutionError]:
    return dict(failing_queries(attempts, groups, lambda _, group: [m.query.query_id for m in group.members], error))


def test_the_one_at_fault_is_found_among_many_in_few_runs() -> None:
    attempts = _Scripted(lambda ids: LATE if 700 in ids else None)
    assert _found(attempts, _group(*range(1_000)), _group(2_000)) == {700: LATE}
    assert len(attempts.runs) <= 1 + 2 * 10 + 1


def test_several_together_are_never_to_blame() -> None:
    attempts = _Scripted(lambda ids: LATE if len(ids) > 1 else None)
    assert _found(attempts, _group(1, 2, 3)) == {}


def test_a_single_query_that_exceeded_its_time_does_not_run_again() -> None:
    attempts = _Scripted(lambda ids: None)
    assert _found(attempts, _group(1)) == {1: LATE}
    assert attempts.runs == []
    assert _found(attempts, _group(1), error=ENDED) == {}
    assert attempts.runs == [[1]]


def test_a_jvm_that_ended_once_for_no_known_reason_is_nobodys_fault() -> None:
    ends = iter([ENDED, None, None])
    assert _found(_Scripted(lambda ids: next(ends)), _group(1), _group(2)) == {}
    assert _found(_Scripted(lambda ids: ENDED if ids == [2] else None), _group(1), _group(2)) == {2: ENDED}


def test_a_reason_says_what_to_do() -> None:
    assert (
        reason("slow", LATE) == "the query took longer than 9 s. Narrow it. To run the query again: weft resume slow."
    )
    assert reason("q", too_many(1_500, 1_000)) == (
        "the query found 1,500 new rows in one tick, but the limit is 1,000. "
        "Restrict the query to fewer rows, or raise WEFT_QUERY_ROWS. To run the query again: weft resume q."
    )
    assert (
        reason("q", ExecutionError("a sum is beyond 64 bits", hint="Use i2f.")) == "a sum is beyond 64 bits. Use i2f."
    )
