"""Cancelling what Spark computes for one command, while other commands go on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from weft.errors import ExecutionError
from weft.interruption import Stopped, current_wish
from weft.runtime.session import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers: Final = itertools.count(1)


@contextmanager
def cancellable(session: Callable[[], SparkSession]) -> Iterator[None]:
    """Spark's jobs that this thread starts within the block end when the command is asked to stop; raises Stopped then.

    ``session`` gives the session; it is called only where somebody can ask.

    What a cancelled job makes of the block must be a failure of this command alone: a tick would take it for a query's.
    """
    wish = current_wish()
    if wish is None:
        yield
        return
    context, tag = session().sparkContext, f"weft-{next(_numbers)}"

    def cancel() -> None:
        with suppress(*spark_errors()):  # a JVM that is gone has no jobs
            context.cancelJobsWithTag(tag)

    context.addJobTag(tag)
    try:
        with wish.ended_by(cancel):
            yield
    except ExecutionError:
        if wish.uttered:
            raise Stopped from None
        raise
    finally:
        with suppress(*spark_errors()):
            context.removeJobTag(tag)
