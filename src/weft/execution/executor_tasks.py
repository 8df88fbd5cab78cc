"""Call a function of Weft on the executors, once for each of several arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

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

    Spark accepts one result for each argument. ``doing`` completes the phrase "while …" in an error. The arguments are
    part of the function, and may have the keys of an object store. Spark sends them over its own connections, and more
    than 1 MiB through a temporary file that only this user may read. Raise ExecutionError if a task fails repeatedly.
    """
    with turn(), plain_errors(doing):
        numbers = session().sparkContext.parallelize(range(len(given)), len(given))
        return numbers.mapPartitions(partial(_called, function, list(given))).collect()


def cores(session: Callable[[], SparkSession]) -> int:
    """Return how many tasks run at the same time. Raise ExecutionError if Spark does not start."""
    return session().sparkContext.defaultParallelism


def _called(function: Callable[[Given], Result], given: Sequence[Given], numbers: Iterable[int]) -> Iterator[Result]:
    return (function(given[number]) for number in numbers)


def task_numbers() -> tuple[int, int]:
    """Return the number of the partition and of the attempt, in a task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return task.partitionId(), task.attemptNumber()
