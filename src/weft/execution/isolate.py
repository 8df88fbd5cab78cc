"""Find the queries that fail, set them aside, and compute the others without them.

``isolated`` handles computations in this process; ``failing_queries`` handles those in Spark, where a trial may take
long and end the JVM. Only a failure in a run of its own counts against a query. ``weft.faults`` defines which errors
are a query's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from weft.errors import ExecutionError, JvmEnded, LimitExceeded, QueryFault, WeftError
from weft.execution.groups import Group
from weft.execution.reader import Reader
from weft.execution.spark_runner import SparkRunner
from weft.faults import FAULTS, query_faults

Trial: TypeAlias = Callable[[Reader, Group], object]
"""Runs the queries of a group as the tick would; raises if they fail."""
Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SECONDS: Final = 15.0
_PATIENCE: Final = 4
"""If one half of a group took a second, the other half gets this many seconds before it is split."""


def isolated(
    items: Mapping[int, Item],
    compute: Callable[[list[Item]], Result],
    set_aside: Callable[[Mapping[int, ExecutionError]], None],
) -> list[Result]:
    """Return what ``compute`` gives for all items (by query id) except those that fail alone, which are set aside.

    The result is a list of one or, after a failure, one result for each part: the items are halved until the failing
    one is alone. A failing ``compute`` must leave nothing behind. Raise errors that belong to the home (``faults``).
    """
    failed: dict[int, ExecutionError] = {}
    results = list(_parts(items, compute, failed)) if items else []
    if failed:
        set_aside(failed)
    return results


def _parts(
    items: Mapping[int, Item], compute: Callable[[list[Item]], Result], failed: dict[int, ExecutionError]
) -> Iterator[Result]:
    try:
        with query_faults():
            result = compute(list(items.values()))
    except FAULTS as error:
        keys = list(items)
        if len(keys) == 1:
            failed[keys[0]] = error
            return
        half = len(keys) // 2
        for part in (keys[:half], keys[half:]):
            yield from _parts({key: items[key] for key in part}, compute, failed)
        return
    yield result


def failing_queries(runner: SparkRunner, groups: Sequence[Group], trial: Trial) -> Iterator[tuple[int, ExecutionError]]:
    """Yield the queries of the groups that fail when Spark runs them alone, each with its error (one of FAULTS).

    Each query is yielded as soon as it is found; the search may take long.
    """
    for group in groups:
        yield from _failing(runner, group, trial, runner.limits.seconds)


def reason(name: str, error: WeftError) -> str:
    """Return one line: why the query is set aside and what the user can do."""
    text = f"{error.message} ({error.where})" if error.where else error.message
    if error.hint:
        text = f"{text.rstrip('.')}. {error.hint}"
    may_pass = isinstance(error, LimitExceeded | JvmEnded) or (isinstance(error, QueryFault) and error.defect)
    return f"{text} `weft resume {name}` resumes it." if may_pass else text


def _failing(runner: SparkRunner, group: Group, trial: Trial, seconds: float) -> Iterator[tuple[int, ExecutionError]]:
    """Yield the failing queries of a group by halving, since queries of one plan may differ in a constant that Spark
    rejects.

    Exceeding ``seconds`` says nothing against several queries, so each half gets half the time; a single query gets the
    full limit.
    """
    alone, limit = len(group.members) == 1, runner.limits.seconds
    error = _tried(runner, group, trial, limit if alone else seconds)
    if alone and isinstance(error, JvmEnded) and not error.known:
        error = _tried(runner, group, trial, limit)  # another process may have ended the JVM
    if error is None:
        return
    if alone:
        yield group.members[0].query.query_id, error
        return
    half = len(group.members) // 2
    seconds = min(limit, max(_LEAST_SECONDS, seconds / 2))
    for part in (group.members[:half], group.members[half:]):
        began = time.monotonic()
        failing = list(_failing(runner, replace(group, members=part), trial, seconds))
        if not failing:
            seconds = min(seconds, max(_LEAST_SECONDS, _PATIENCE * (time.monotonic() - began)))
        yield from failing


def _tried(runner: SparkRunner, group: Group, trial: Trial, seconds: float) -> ExecutionError | None:
    """Return the error of running the group's queries, or None."""
    try:
        runner.run(lambda reader: trial(reader, group), seconds)
    except FAULTS as error:
        return error
    finally:
        runner.release()
    return None
