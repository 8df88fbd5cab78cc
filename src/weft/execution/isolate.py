"""Which queries fail: a query that fails is set aside, and the others are computed without it.

``isolated`` is for what this process computes, ``failing_queries`` for what Spark computes, where a trial may take
long and end the JVM.  Only what a query did alone counts against it.  Which errors are a query's: ``weft.faults``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from weft.errors import ExecutionError, JvmEnded, LimitExceeded, QueryFault, WeftError
from weft.execution.groups import Group
from weft.execution.reader import Reader
from weft.execution.spark_runner import Attempts
from weft.faults import FAULTS, query_faults

Trial: TypeAlias = Callable[[Reader, Group], object]
"""Runs the queries of a group as the tick would; raises where it cannot be done."""
Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SECONDS: Final = 15.0
_PATIENCE: Final = 4
"""Where one half of a group's queries took a second, the other half is given this many before it is split."""


def isolated(
    items: Mapping[int, Item],
    compute: Callable[[list[Item]], Result],
    set_aside: Callable[[Mapping[int, ExecutionError]], None],
) -> list[Result]:
    """What ``compute`` gives for all items (by query id) but those with which it fails alone, which are set aside.

    That is one result, or, where something fails, one for each part: items are halved until the failing one is found.
    ``compute`` changes nothing that stays when it fails.  Raises what belongs to the home (``faults``).
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


def failing_queries(attempts: Attempts, groups: Sequence[Group], trial: Trial) -> Iterator[tuple[int, ExecutionError]]:
    """The queries of the groups that fail when run alone by Spark, each with its error (one of FAULTS).

    One after another as they are found, which may take long.
    """
    for group in groups:
        yield from _failing(attempts, group, trial, attempts.limits.seconds)


def reason(name: str, error: WeftError) -> str:
    """Why a query is set aside, and what can be done, in one line."""
    told = f"{error.message} ({error.where})" if error.where else error.message
    if error.hint:
        told = f"{told.rstrip('.')}. {error.hint}"
    may_pass = isinstance(error, LimitExceeded | JvmEnded) or (isinstance(error, QueryFault) and error.defect)
    return f"{told} `weft resume {name}` lets it go on." if may_pass else told


def _failing(attempts: Attempts, group: Group, trial: Trial, seconds: float) -> Iterator[tuple[int, ExecutionError]]:
    """Queries of one plan may differ in a constant that Spark chokes on: halves are tried until one is left.

    Running out of ``seconds`` says nothing against several queries, so that half of them has half of it; a single one
    has all of its time.
    """
    alone, limit = len(group.members) == 1, attempts.limits.seconds
    error = _tried(attempts, group, trial, limit if alone else seconds)
    if alone and isinstance(error, JvmEnded) and not error.known:
        error = _tried(attempts, group, trial, limit)  # somebody else may have ended it
    if error is None:
        return
    if alone:
        yield group.members[0].query.query_id, error
        return
    half = len(group.members) // 2
    seconds = min(limit, max(_LEAST_SECONDS, seconds / 2))
    for part in (group.members[:half], group.members[half:]):
        began = time.monotonic()
        found = list(_failing(attempts, replace(group, members=part), trial, seconds))
        if not found:
            seconds = min(seconds, max(_LEAST_SECONDS, _PATIENCE * (time.monotonic() - began)))
        yield from found


def _tried(attempts: Attempts, group: Group, trial: Trial, seconds: float) -> ExecutionError | None:
    """What stood in the way of the group's queries, None for nothing."""
    try:
        attempts.run(lambda reader: trial(reader, group), seconds)
    except FAULTS as error:
        return error
    finally:
        attempts.release()
    return None
