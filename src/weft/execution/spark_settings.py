"""How Spark plans the parts of a tick: scans of whole tables, and joins among small relations.

A tick's news and look-ups are small and in one partition each, so joins among them need no exchange: without
broadcasts (a job each) and without adaptive execution (a job a stage) the union of all branches is one job, a task a
branch.  Nor is code generated for it: its constants are new at every tick, so the code would be compiled and warmed up
anew each time, which took several times as long as the work.  Scans do not change from tick to tick, and keep all that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SCAN: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@contextmanager
def small(spark: SparkSession, *, when: bool = True) -> Iterator[None]:
    """Within the block Spark plans for small relations (unless ``when`` is false: a first delivery is not small)."""
    with _settings(spark, _SMALL if when else {}):
        yield


@contextmanager
def scanning(spark: SparkSession) -> Iterator[None]:
    """Within the block Spark plans for scans of whole tables; what is kept in memory keeps its plan."""
    with _settings(spark, _SCAN):
        yield


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(spark.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
