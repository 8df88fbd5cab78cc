"""Call a function of Weft on the executors, once for each of several arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from weft.runtime.cancelling import cancellable
from weft.runtime.session import plain_errors
from weft.runtime.turn import turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Given = TypeVar("Given")
Result = TypeVar("Result")


def on_executors(
    session: Callable[[], SparkSession], function: Callable[[Given], Result], given: Sequence[Given], doing: str
) -> list[Result]:
    """Return the results of ``function`` for each argument, in order. Each call is a task, which Spark may repeat.

    ``doing`` completes the phrase "while …" in an error. ``function`` may have the keys of an object store, and should
    be small: Spark sends it over its own connections, but more than 1 MiB through a temporary file that only this user
    may read. The arguments may pass through a file, and must have no keys. Raise ExecutionError if a task fails
    repeatedly. If the command is cancelled, cancel the tasks and raise Stopped.
    """
    with cancellable(session) as tagged, turn(), plain_errors(doing):
        each = tagged().sparkContext.parallelize(given, len(given))
        return each.mapPartitions(partial(_called, function)).collect()


def cores(session: Callable[[], SparkSession]) -> int:
    """Return how many tasks run at the same time. Raise ExecutionError if Spark does not start."""
    return session().sparkContext.defaultParallelism


def _called(function: Callable[[Given], Result], given: Iterable[Given]) -> Iterator[Result]:
    return map(function, given)


def task_numbers() -> tuple[int, int]:
    """Return the number of the partition and of the attempt, in a task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return task.partitionId(), task.attemptNumber()
