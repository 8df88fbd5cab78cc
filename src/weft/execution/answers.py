"""The branches of a tick as one relation of ledger rows: ``query_id, first_at, row_hash, row``.

Every branch is brought to one general form (a row is an array of strings, lossless; its hash is taken over a versioned,
type-tagged, length-prefixed encoding of the values by position, design section 1), so that one union serves all plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from weft.algebra.scalar import ColumnRef
from weft.execution.groups import Group
from weft.execution.parameters import register_parameters
from weft.execution.phases import ANALYSIS, READING, phase
from weft.execution.reader import Reader
from weft.execution.temp_views import Views
from weft.execution.windows import slices_of
from weft.planning.plan import Branch, columns_read, encoded
from weft.runtime.session import error_text, spark_errors
from weft.runtime.settings import rows_only

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_VERSION = "1"
"""Of the encoding under the hash: rows hashed by another version could be delivered again."""


MANY: Final = "a task of Weft gave too many rows"
"""What a task raises that is stopped because its branch gives too many rows."""

_RAISED: Final = "USER_RAISED_EXCEPTION"
"""Spark's condition of what RAISE_ERROR raises; no query may call it."""

COLLECTED: Final = 5_000
"""Rows that all queries of a branch may give to the driver, times the allowance of ``guarded`` (half a million)."""

_TOO_LARGE: Final = "spark.driver.maxResultSize"
"""In Spark's error for a result of more bytes than it gives to the driver."""

_REPEATED: Final = 100
"""Rows that a branch may give for each one that its queries may add: the same row may come many times over."""


_UNITED: Final = 16
"""SELECTs that are united in one chain."""

_ROWS_OF_A_TASK: Final = 2**33
"""Spark's monotonically_increasing_id counts a task's rows in its lower 33 bits."""


def ledger_select(branch: Branch, query_id: int | None) -> str:
    """The SQL of a branch in the ledger's general form; ``query_id`` None: the branch gives it itself."""
    refs = [ColumnRef("b", output.name, output.value.type) for output in branch.outputs if output.name != "_query_id"]
    key = "b._query_id" if query_id is None else f"CAST({query_id} AS BIGINT)"
    row = ", ".join(encoded(ref) for ref in refs)
    return (
        f"SELECT {key} AS query_id, b._first_at AS first_at, {_hash(refs)} AS row_hash, ARRAY({row}) AS row\n"
        f"FROM ({branch.sql}) AS b"
    )


def _hash(refs: Sequence[ColumnRef]) -> str:
    parts = []
    for ref in refs:
        text = _identity(ref)
        tag = f"{ref.type}:"
        parts.append(f"COALESCE(CONCAT('{tag}', LENGTH({text}), ':', {text}), '{tag}N')")
    return f"UNHEX(SUBSTRING(SHA2(CONCAT('{_VERSION};', {', '.join(parts)}), 256), 1, 32))"


def _identity(ref: ColumnRef) -> str:
    """The stored form, but -0.0 and 0.0 are one value."""
    if ref.type.name in ("DOUBLE", "FLOAT"):
        return f"IF({ref.scan}.{ref.column} = 0, '0.0', {encoded(ref)})"
    return encoded(ref)


@dataclass(frozen=True)
class Candidates:
    """What the branches of some groups give, in the general form; a row may be there more than once.

    ``small``: it is made from rows in the driver's memory alone.  ``branches`` is their number.
    """

    rows: DataFrame
    small: bool
    branches: int


def candidates(
    reader: Reader, groups: Sequence[Group], most: int | None, *, collected: int | None = None, small_only: bool = False
) -> Candidates:
    """Makes the views that the groups' branches read, and the branches over them; nothing of them is computed yet.

    A task that gives many more rows than its queries may add (``most`` each; None: any number), or, where all is small,
    many more than ``collected``, fails, and says so (``MANY``), before it fills the disk.  With ``small_only`` NotSmall
    is raised where not every view is of rows in the driver's memory.
    """
    spark = reader.spark
    work = [(group, group.branches()) for group in groups]
    branches = [branch for _, found in work for branch in found]
    views = Views(reader, columns_by_table(branches), small_only)
    with phase(READING):
        paths = [path for b in branches for path in b.paths.values() if path.table in reader.tables]
        views.register(paths, slices_of(work))
        for group, found in work:
            register_parameters(spark, group, found, views.local)
    parts = []
    for group, found in work:
        queries = len(group.members)
        single = group.members[0].query.query_id if queries == 1 else None
        bounds = [most * queries] if most is not None else []
        bounds += [collected] if collected is not None and views.small else []
        selects = [ledger_select(branch, single) for branch in found]
        parts += [guarded(each, min(bounds)) for each in selects] if bounds else selects
    # One text: each relation that is made of another is analysed as a whole again.
    with phase(ANALYSIS):
        rows = spark.sql(_united(parts)) if parts else union(spark, [])
    return Candidates(rows, views.small, len(parts))


def _united(selects: Sequence[str]) -> str:
    """UNION ALL of the SELECTs; of many as a tree, since Spark's parser goes down a chain one by one."""
    if len(selects) > _UNITED:
        size = -(-len(selects) // _UNITED)
        selects = [_united(selects[at : at + size]) for at in range(0, len(selects), size)]
    return "\nUNION ALL\n".join(f"({each})" for each in selects)


def guarded(select: str, most: int) -> str:
    """The SELECT; a task that gives many times more than ``most`` fails.  Nothing has to be exchanged to know that."""
    allowed = min(most * _REPEATED, _ROWS_OF_A_TASK - 1)
    return (
        f"SELECT * FROM (\n{select}\n) AS g\n"
        f"WHERE CASE WHEN MONOTONICALLY_INCREASING_ID() % {_ROWS_OF_A_TASK} < {allowed} THEN TRUE "
        f"ELSE CAST(RAISE_ERROR('{MANY}') AS BOOLEAN) END"
    )


def gave_too_many(error: Exception) -> bool:
    """Whether an error of Spark is that of a task which ``guarded`` stopped.

    The condition and its parameter tell: an error of another condition may quote the SQL of ``guarded`` in its text.
    """
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return False
    try:
        told = error.getMessageParameters() or {}
        return error.getCondition() == _RAISED and told.get("errorMessage") == MANY
    except spark_errors():  # the JVM is asked, which may be gone
        return False


def in_memory(spark: SparkSession, rows: DataFrame) -> pa.Table | None:
    """What one job gives that reads no file, in the driver's memory; None where it is too much for that.

    ``rows`` are ``guarded`` by ``COLLECTED``.
    """
    try:
        with rows_only(spark):
            # Every task is sent the whole union: as many tasks as work at once will do.
            found: pa.Table = rows.coalesce(spark.sparkContext.defaultParallelism).toArrow()
            return found
    except spark_errors() as error:
        if not gave_too_many(error) and _TOO_LARGE not in error_text(error):
            raise
        return None


def union(spark: SparkSession, parts: Sequence[DataFrame]) -> DataFrame:
    """UNION ALL of relations in the general form; of none: the empty one."""
    if parts:
        return reduce(lambda a, b: a.unionAll(b), parts)
    return spark.range(0).selectExpr(
        "id AS query_id",
        "CAST(NULL AS TIMESTAMP) AS first_at",
        "CAST(NULL AS BINARY) AS row_hash",
        "CAST(NULL AS ARRAY<STRING>) AS row",
    )


def columns_by_table(branches: Iterable[Branch]) -> dict[str, set[str]]:
    """By table, the columns that any of the branches reads."""
    found: dict[str, set[str]] = {}
    for branch in branches:
        for table, names in columns_read(branch).items():
            found.setdefault(table, set()).update(names)
    return found
