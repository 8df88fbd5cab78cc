"""Which settings of Spark are a user's to make, and which are Weft's own: right answers rest on them.

A standing query means the same at every tick, on every machine; what changes Spark's meaning of a text, of an instant
or of an error is therefore not a matter of taste.
"""

from __future__ import annotations

import difflib
from typing import Final

_SAME: Final = "a query must mean the same at every tick, and Weft's own reading of it rests on that"
_TEXT: Final = "a query is untrusted text"
_OWN: Final = {
    "spark.master": "it is set as master in [spark]",
    "spark.driver.memory": "it is set as memory in [spark]",
    "spark.driver.extraJavaOptions": "Java's zone, encoding and end on lack of memory are Weft's",
    "spark.app.name": "Weft finds its own JVM by it",
    "spark.jars": "Weft starts Spark with the jars of Delta that fit it",
    "spark.jars.packages": "Weft starts Spark with the jars of Delta that fit it",
    "spark.driver.extraClassPath": "Weft starts Spark with the jars of Delta that fit it",
    "spark.sql.extensions": "Delta is one, and others change what SQL means",
    "spark.sql.catalog.spark_catalog": "tables are Delta's",
    "spark.sql.catalogImplementation": "what Weft knows of tables is in its own catalog",
    "spark.sql.warehouse.dir": "what Weft knows of tables is in its own catalog",
    "spark.sql.session.timeZone": "instants are UTC; a person's zone is [users.NAME] zone",
    "spark.sql.timestampType": _SAME,
    "spark.sql.ansi.enabled": "what has no value is NULL: one row must not fail a standing query",
    "spark.sql.caseSensitive": _SAME,
    "spark.sql.storeAssignmentPolicy": _SAME,
    "spark.sql.mapKeyDedupPolicy": _SAME,
    "spark.sql.defaultCatalog": "tables are Delta's",
    "spark.sql.runSQLOnFiles": _TEXT,
    "spark.sql.variable.substitute": _TEXT,
    "spark.sql.optimizer.excludedRules": "ticks set it for their parts",
    "spark.sql.optimizer.enableJsonExpressionOptimization": _SAME,
    "spark.sql.adaptive.enabled": "ticks set it for their parts",
    "spark.sql.autoBroadcastJoinThreshold": "ticks set it for their parts",
    "spark.sql.maxSinglePartitionBytes": "ticks set it for their parts",
    "spark.sql.parquet.outputTimestampType": "instants are microseconds",
    "spark.databricks.delta.snapshotPartitions": "what Delta does in a tick is measured with it",
    "spark.databricks.delta.commitStats.collect": "what Delta does in a tick is measured with it",
}
_OWN_BELOW: Final = {
    "spark.sql.legacy.": _SAME,
    "spark.sql.json.": _SAME,
    "spark.sql.jsonGenerator.": _SAME,
    "spark.sql.codegen.": "ticks set it for their parts",
    "spark.sql.decimalOperations.": _SAME,
    "spark.sql.parquet.int96": "instants are microseconds",
    "spark.sql.parquet.datetimeRebase": "instants are microseconds",
    "spark.sql.ansi.": _SAME,
    "spark.submit.": "Weft starts Spark itself",
    "spark.databricks.delta.retentionDurationCheck.": "files that somebody still reads must stay",
}
ADJUSTABLE: Final = frozenset(
    {
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.ui.enabled",
        "spark.ui.showConsoleProgress",
        "spark.sql.ui.explainMode",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
        "spark.sql.parquet.pushdown.inFilterThreshold",
    }
)
"""Those that Weft sets, and a user may set otherwise: they change no answer."""
_SHORT: Final = ("spark.master", "spark.memory")


def why_refused(name: str) -> str | None:
    """Why a setting of Spark is not a user's to make; None where it is.

    >>> why_refused("spark.sql.runSQLOnFiles")
    'a query is untrusted text'
    >>> why_refused("spark.executor.cores") is None
    True
    """
    lower = {known.lower(): reason for known, reason in _OWN.items()}
    below = (reason for start, reason in _OWN_BELOW.items() if name.lower().startswith(start.lower()))
    return lower.get(name.lower()) or next(below, None)


def meant(name: str) -> str | None:
    """The key of [spark] that a name of two words looks like: Spark itself has none of those that Weft would pass on.

    >>> meant("spark.memroy"), meant("spark.sql.shuffle.partitions")
    ('spark.memory', None)
    """
    if name.count(".") > 1:
        return None
    return next(iter(difflib.get_close_matches(name, _SHORT, 1, 0.0)), None)
