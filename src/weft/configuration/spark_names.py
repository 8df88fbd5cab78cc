"""Decide which Spark settings a user may change.

A standing query must have the same meaning at every tick and on every machine. Users therefore cannot change how Spark
interprets a text, an instant or an error.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

_SAME: Final = "a query must mean the same at every tick, and Weft's own evaluation depends on this setting"
_TEXT: Final = "a query is untrusted text"
_JARS: Final = "Weft starts Spark with a fixed set of jars"
_OWN: Final = {
    "spark.master": "set master in [spark] instead",
    "spark.driver.memory": "set memory in [spark] instead",
    "spark.driver.extraJavaOptions": "Weft sets Java's time zone, encoding and behaviour when out of memory",
    "spark.app.name": "Weft finds its JVM by this name",
    "spark.jars": _JARS,
    "spark.jars.packages": _JARS,
    "spark.driver.extraClassPath": _JARS,
    "spark.sql.extensions": "extensions change the meaning of SQL",
    "spark.sql.catalog.spark_catalog": "Weft has a catalog of its own",
    "spark.sql.catalogImplementation": "Weft has a catalog of its own",
    "spark.sql.warehouse.dir": "Weft has a catalog of its own",
    "spark.sql.session.timeZone": "instants are UTC; a person's zone is [users.NAME] zone",
    "spark.sql.timestampType": _SAME,
    "spark.sql.ansi.enabled": "Weft relies on NULL for undefined values: one row must not fail a standing query",
    "spark.sql.caseSensitive": _SAME,
    "spark.sql.storeAssignmentPolicy": _SAME,
    "spark.sql.mapKeyDedupPolicy": _SAME,
    "spark.sql.defaultCatalog": "Weft has a catalog of its own",
    "spark.sql.runSQLOnFiles": _TEXT,
    "spark.sql.variable.substitute": _TEXT,
    "spark.sql.optimizer.excludedRules": "Weft changes it within a tick",
    "spark.sql.optimizer.enableJsonExpressionOptimization": _SAME,
    "spark.sql.inMemoryColumnarStorage.partitionPruning": _SAME,
    "spark.sql.columnNameOfCorruptRecord": _SAME,
    "spark.sql.adaptive.enabled": "Weft changes it within a tick",
    "spark.sql.autoBroadcastJoinThreshold": "Weft changes it within a tick",
    "spark.sql.maxSinglePartitionBytes": "Weft changes it within a tick",
    "spark.sql.parquet.outputTimestampType": "instants are microseconds",
}
_OWN_BELOW: Final = {
    "spark.sql.legacy.": _SAME,
    "spark.sql.json.": _SAME,
    "spark.sql.jsonGenerator.": _SAME,
    "spark.sql.codegen.": "Weft changes it within a tick",
    "spark.sql.decimalOperations.": _SAME,
    "spark.sql.parquet.int96": "instants are microseconds",
    "spark.sql.parquet.datetimeRebase": "instants are microseconds",
    "spark.sql.ansi.": _SAME,
    "spark.submit.": "Weft starts Spark itself",
}
_SWITCH: Final = ("true", "false")
ADJUSTABLE: Final[dict[str, int | tuple[str, ...] | None]] = {
    "spark.driver.host": None,
    "spark.driver.bindAddress": None,
    "spark.ui.enabled": _SWITCH,
    "spark.ui.showConsoleProgress": _SWITCH,
    "spark.sql.ui.explainMode": ("simple", "extended", "codegen", "cost", "formatted"),
    "spark.executorEnv.PYTHONSAFEPATH": None,
    "spark.sql.execution.arrow.maxBytesPerBatch": None,
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.sources.parallelPartitionDiscovery.threshold": 0,
    "spark.sql.parquet.pushdown.inFilterThreshold": 0,
}
"""The settings of Weft that a user may override, because they do not change an answer.

The value gives the valid range: the minimum of an integer, the allowed words, or None for any value.
"""
_USUAL: Final = (
    "spark.driver.cores", "spark.driver.maxResultSize", "spark.driver.memoryOverhead", "spark.executor.cores",
    "spark.executor.instances", "spark.executor.memory", "spark.executor.memoryOverhead", "spark.local.dir",
    "spark.cores.max", "spark.default.parallelism", "spark.dynamicAllocation.enabled", "spark.eventLog.enabled",
    "spark.memory.fraction", "spark.network.timeout", "spark.serializer", "spark.sql.files.maxPartitionBytes",
)  # fmt: skip
"""Other common settings that Weft suggests after a misspelling."""
_SHORT: Final = ("master", "memory")
"""The keys that Weft itself defines in the section [spark]."""
_ALIKE: Final = 0.65
_SECRET: Final = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)


def why_refused(name: str) -> str | None:
    """Return the reason why a user may not change a Spark setting. Return None if the change is allowed.

    >>> why_refused("spark.sql.runSQLOnFiles")
    'a query is untrusted text'
    >>> why_refused("spark.executor.cores") is None
    True
    """
    lower = {known.lower(): reason for known, reason in _OWN.items()}
    below = (reason for start, reason in _OWN_BELOW.items() if name.lower().startswith(start.lower()))
    return lower.get(name.lower()) or next(below, None)


def secret(name: str) -> bool:
    """Return whether Spark would hide the value of a setting with this name.

    >>> secret("spark.authenticate.secret"), secret("spark.hadoop.fs.s3a.access.key"), secret("spark.local.dir")
    (True, True, False)
    """
    return _SECRET.search(name) is not None


def suggestion_for(name: str) -> str | None:
    """Return the correct name of a misspelled setting. Return None if no setting has a similar name.

    For a name of two words, only Weft's own keys in [spark] are candidates. A longer name is similar if one word
    differs by one typing error, or if only ``sql`` is missing.

    >>> suggestion_for("spark.memroy"), suggestion_for("spark.sql.shufle.partitions")
    ('spark.memory', 'spark.sql.shuffle.partitions')
    >>> suggestion_for("spark.shuffle.partitions")
    'spark.sql.shuffle.partitions'
    >>> suggestion_for("spark.sql.shuffle.partitions"), suggestion_for("spark.driver.port")
    (None, None)
    """
    known = (*_OWN, *ADJUSTABLE, *_USUAL)
    if name in known:
        return None
    if name.count(".") <= 1:
        near = difflib.get_close_matches(name.rpartition(".")[2].lower(), _SHORT, 1, _ALIKE)
        return f"spark.{near[0]}" if near else None
    longer = f"spark.sql.{name.removeprefix('spark.')}"
    return longer if longer in ADJUSTABLE else next((each for each in known if _misspelt(name, each)), None)


def _misspelt(name: str, known: str) -> bool:
    words, right = name.lower().split("."), known.lower().split(".")
    if len(words) != len(right):
        return False
    other = [(a, b) for a, b in zip(words, right, strict=True) if a != b]
    return not other or (len(other) == 1 and _one_slip(*other[0]))  # Spark's names are case-sensitive


def _one_slip(a: str, b: str) -> bool:
    """Return whether two words of at least five letters differ by one missing, extra, wrong or swapped letter."""
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b, shortest = a[same:], b[same:], min(len(a), len(b))
    turned = a[:2] == b[:2][::-1] and a[2:] == b[2:]
    return shortest >= 5 and (a[1:] == b or a == b[1:] or a[1:] == b[1:] or turned)


def why_invalid(name: str, text: str) -> str | None:
    """Return the reason why Spark would reject the value. Return None if the value is valid or the setting is unknown.

    >>> why_invalid("spark.sql.shuffle.partitions", "lots")
    'it should be an integer from 1 on'
    """
    allowed = ADJUSTABLE.get(name)
    if isinstance(allowed, int):
        fits = text.isdecimal() and text.isascii() and allowed <= int(text[:12]) and int(text[:12]) < 2**31
        return None if fits else f"it should be an integer from {allowed} on"
    if isinstance(allowed, tuple) and text.lower() not in allowed:
        return f"it should be {' or '.join(allowed)}"
    return None
