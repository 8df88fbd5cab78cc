"""Cancelling what Spark computes for one command, while other commands go on.

Spark tells a task that its job was cancelled; a nested-loop join in generated code, a pattern that backtracks, do not
look.  Such a task would hold a core for ever, so the JVM is ended with it, as beyond a limit (``watchdog``).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from weft.errors import ExecutionError
from weft.interruption import Stopped, current_cancel_token
from weft.runtime.session import Jvm, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers: Final = itertools.count(1)

_LEAVE_SECONDS: Final = 3.0
"""How long cancelled tasks may take to notice."""


@contextmanager
def cancellable(session: Callable[[], SparkSession]) -> Iterator[None]:
    """Spark's jobs that this thread starts within the block end when the command is asked to stop; raises Stopped then.

    ``session`` gives the session; it is called only where somebody can ask.

    What a cancelled job makes of the block must be a failure of this command alone: a tick would take it for a query's.
    """
    cancel_token = current_cancel_token()
    if cancel_token is None:
        yield
        return
    context, tag = session().sparkContext, f"weft-{next(_numbers)}"

    def cancel() -> None:
        with suppress(*spark_errors()):  # a JVM that is gone has no jobs
            context.cancelJobsWithTag(tag)

    context.addJobTag(tag)
    try:
        with cancel_token.on_cancel(cancel):
            yield
    except ExecutionError:
        if cancel_token.cancelled:
            raise Stopped from None
        raise
    finally:
        with suppress(*spark_errors()):
            context.removeJobTag(tag)


def was_cancelled() -> bool:
    """Whether what this thread computes was cancelled, so that its failure says nothing about the query."""
    cancel_token = current_cancel_token()
    return cancel_token is not None and cancel_token.ends_something


def end_what_goes_on(jvm: Jvm) -> None:
    """Ends the JVM if tasks of what was cancelled do not notice; not while it computes something else."""
    until = time.monotonic() + _LEAVE_SECONDS
    with suppress(*spark_errors()):
        while jvm.lives() and _tasks(jvm):
            if time.monotonic() > until:
                if not jvm.session.sparkContext.statusTracker().getActiveStageIds():
                    jvm.end()
                return
            time.sleep(0.1)


def _tasks(jvm: Jvm) -> int:
    """How many tasks run, those of jobs that are over among them."""
    executors = jvm.session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(each.numRunningTasks() for each in executors)
