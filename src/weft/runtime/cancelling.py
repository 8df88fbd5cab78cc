"""Cancel the Spark jobs of one command while other commands continue.

Some tasks never check for cancellation. Examples are a nested-loop join in generated code, and a regular expression
that backtracks. Weft therefore kills the JVM, as after a time limit (``watchdog``).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from weft.errors import ExecutionError
from weft.interruption import CancelToken, Stopped, current_cancel_token, stop_here
from weft.runtime.session import Jvm, spark_errors

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_numbers: Final = itertools.count(1)

_LEAVE_SECONDS: Final = 3.0
"""The seconds after which Weft kills the JVM if cancelled tasks are still running."""


@contextmanager
def cancellable(session: Callable[[], SparkSession]) -> Iterator[Callable[[], SparkSession]]:
    """If the command is cancelled, cancel the Spark jobs of the ``with`` block and raise Stopped.

    Yield a function that returns the session of ``session``. From its first call until the end of the block, the jobs
    of this thread can be cancelled. Do not use ``cancellable`` in a tick, because the tick would blame a query for the
    failure.
    """
    cancel_token = current_cancel_token()
    if cancel_token is None:
        yield session
        return
    ended = False
    with ExitStack() as tagged:
        contexts: list[SparkContext] = []

        def tagging() -> SparkSession:
            if ended:
                return session()
            stop_here()
            spark = session()
            if spark.sparkContext not in contexts:
                contexts.append(spark.sparkContext)
                tagged.enter_context(_cancelled_by(cancel_token, spark.sparkContext))
            return spark

        try:
            yield tagging
        except ExecutionError:
            if cancel_token.cancelled:
                raise Stopped from None
            raise
        finally:
            ended = True


@contextmanager
def _cancelled_by(cancel_token: CancelToken, context: SparkContext) -> Iterator[None]:
    tag = f"weft-{next(_numbers)}"

    def cancel() -> None:
        with suppress(*spark_errors()):  # a dead JVM has no jobs
            context.cancelJobsWithTag(tag)

    context.addJobTag(tag)
    try:
        with cancel_token.on_cancel(cancel):
            yield
    finally:
        with suppress(*spark_errors()):
            context.removeJobTag(tag)


def was_cancelled() -> bool:
    """Return whether the computation of this thread was cancelled. A cancelled query is not the cause of the
    failure.
    """
    cancel_token = current_cancel_token()
    return cancel_token is not None and cancel_token.ends_something


def kill_unresponsive(jvm: Jvm) -> None:
    """Kill the JVM if cancelled tasks still run after some seconds and no other job is running."""
    until = time.monotonic() + _LEAVE_SECONDS
    with suppress(*spark_errors()):
        while jvm.lives() and _tasks(jvm):
            if time.monotonic() > until:
                if not jvm.session.sparkContext.statusTracker().getActiveStageIds():
                    jvm.end()
                return
            time.sleep(0.1)


def _tasks(jvm: Jvm) -> int:
    """Tasks may run longer than their job, so count the tasks."""
    executors = jvm.session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(each.numRunningTasks() for each in executors)
