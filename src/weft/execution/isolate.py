"""Find the queries that fail, set them aside, and compute the other queries.

``isolated`` is for computations in this process. ``failing_queries`` is for computations in Spark. A computation in
Spark may take long or end the JVM. A failure counts against a query only if the query ran alone. ``weft.faults``
defines the errors for which a single query is responsible.
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
"""A function that runs a group of queries in the same way as a tick. If a query fails, the function raises an error."""
Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SECONDS: Final = 15.0
_PATIENCE: Final = 4
"""The time limit of the second half of a group, relative to the duration of a successful first half."""


def isolated(
    items: Mapping[int, Item],
    compute: Callable[[list[Item]], Result],
    set_aside: Callable[[Mapping[int, ExecutionError]], None],
) -> list[Result]:
    """Return the results of ``compute`` for the items (by query ID). Set aside each item that fails by itself.

    If ``compute`` fails for several items, call ``compute`` for each half of the items. The list has one result for
    each part that succeeded. A failed call of ``compute`` must have no lasting effect. Errors of the home (``faults``)
    pass through unchanged.
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


def failing_queries(
    runner: SparkRunner, groups: Sequence[Group], trial: Trial, error: ExecutionError
) -> Iterator[tuple[int, ExecutionError]]:
    """Yield the ID and the error (one of FAULTS) of each query that fails when the query runs alone.

    ``error`` is the error of all groups together. A single query that exceeded its time limit does not run again.
    """
    alone = [each.query.query_id for group in groups for each in group.members]
    if len(alone) == 1 and isinstance(error, LimitExceeded):
        yield alone[0], error
        return
    for group in groups:
        yield from _failing(runner, group, trial, runner.limits.seconds)


def reason(name: str, error: WeftError) -> str:
    """Return one line of text that explains to the user why the query is set aside and how to continue."""
    text = f"{error.message} ({error.where})" if error.where else error.message
    if error.hint:
        text = f"{text.rstrip('.')}. {error.hint}"
    may_pass = isinstance(error, LimitExceeded | JvmEnded) or (isinstance(error, QueryFault) and error.defect)
    return f"{text} To run the query again: weft resume {name}." if may_pass else text


def _failing(runner: SparkRunner, group: Group, trial: Trial, seconds: float) -> Iterator[tuple[int, ExecutionError]]:
    """Find the failing queries of a group by halving the group.

    Queries of one plan may differ in a constant that Spark rejects. If several queries together exceed ``seconds``,
    each single query may still be fast. Each half therefore gets half the time, but a single query gets the full time
    limit.
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
    try:
        runner.run(lambda reader: trial(reader, group), seconds)
    except FAULTS as error:
        return error
    finally:
        runner.release()
    return None
