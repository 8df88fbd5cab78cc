"""How Spark plans a tick: small relations that sit in one partition each, or whole tables.

A tick's news and look-ups are small and in one partition, so joins among them need no exchange: without broadcasts
(a job each) and without adaptive execution (a job a stage) the union of all branches is one job, a task a branch.  A
first delivery reads whole tables, and there Spark's own choices are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@contextmanager
def planned_for(spark: SparkSession, *, small: bool) -> Iterator[None]:
    """Within the block Spark plans for small relations where ``small``, else as it is."""
    if not small:
        yield
        return
    before = {name: spark.conf.get(name) for name in _SMALL}
    try:
        for name, value in _SMALL.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                spark.conf.set(name, value)
