"""Which queries cannot be run: one that Spark refuses, or that goes beyond its limits, must not stop the others.

Only what happened to a query that ran alone counts against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from weft.errors import ExecutionError, JvmEnded, LimitExceeded, WeftError
from weft.execution.attempts import Attempts
from weft.execution.groups import Group
from weft.execution.reader import Reader
from weft.runtime.session import interrupted, root_cause, spark_errors

Trial: TypeAlias = Callable[[Reader, Group], object]
"""Runs the queries of a group as the tick would; raises where it cannot be done."""

_LEAST_SECONDS: Final = 15.0
_PATIENCE: Final = 4
"""Where one half of a group's queries took a second, the other half is given this many before it is split."""


def failing_queries(attempts: Attempts, groups: Sequence[Group], trial: Trial) -> Iterator[tuple[int, ExecutionError]]:
    """The queries of the groups that fail when run alone, each with its error (LimitExceeded and JvmEnded, too).

    One after another as they are found, which may take long.
    """
    for group in groups:
        yield from _failing(attempts, group, trial, attempts.limits.seconds)


def reason(name: str, error: WeftError) -> str:
    """Why a query is set aside, and what can be done, in one line."""
    told = f"{error.message} ({error.where})" if error.where else error.message
    if error.hint:
        told = f"{told.rstrip('.')}. {error.hint}"
    return f"{told} `weft resume {name}` lets it go on." if isinstance(error, LimitExceeded | JvmEnded) else told


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
    except (LimitExceeded, JvmEnded) as error:
        return error
    except spark_errors() as problem:
        if interrupted(problem):
            raise KeyboardInterrupt from None
        return ExecutionError(root_cause(problem))
    finally:
        attempts.release()
    return None
