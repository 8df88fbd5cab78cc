"""Unite the branches of a tick into one relation of ledger rows: ``query_id, first_at, row_hash, row``.

All branches produce the same general form. One union can therefore combine all plans. ``row`` is an array of strings
that represent the values without loss. ``row_hash`` is a hash of the row's values in column order. The hash input
contains a version number and the type, length and text of each value (design section 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.algebra.scalar import ColumnRef
from weft.execution.duckdb_answers import small_answers
from weft.execution.groups import Group
from weft.execution.guarded import guarded
from weft.execution.parameters import register_parameters
from weft.execution.phases import ANALYSIS, COMPUTING, READING, phase
from weft.execution.reader import Reader
from weft.execution.states import StateReader
from weft.execution.temp_views import NotSmall
from weft.execution.windows import slices_of
from weft.planning.plan import IDENTITY_VERSION, PARAMETER_TABLE, Branch, encoded, identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNITED: Final = 16


def ledger_select(branch: Branch, query_id: int | None) -> str:
    """Return SQL that selects the rows of a branch in the ledger's general form.

    If ``query_id`` is None, the query ID comes from the branch's column ``_query_id``.
    """
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
        text = identity(ref)
        tag = f"{ref.type}:"
        parts.append(f"COALESCE(CONCAT('{tag}', LENGTH({text}), ':', {text}), '{tag}N')")
    return f"UNHEX(SUBSTRING(SHA2(CONCAT('{IDENTITY_VERSION};', {', '.join(parts)}), 256), 1, 32))"


@dataclass(frozen=True)
class Candidates:
    """The rows of several groups in the ledger's general form, possibly with duplicates.

    ``small`` is true if all input rows are in the driver's memory. ``rows`` is an Arrow table if DuckDB computed them.
    """

    rows: DataFrame | pa.Table
    small: bool
    branches: int


def candidates(
    reader: Reader,
    groups: Sequence[Group],
    most: int | None,
    *,
    collected: int | None = None,
    small_only: bool = False,
    by_duckdb: bool = False,
    states: StateReader | None = None,
) -> Candidates:
    """Register the input views of the groups, and return the union of all branches as a lazy DataFrame.

    A task with far too many rows fails with the message ``MANY`` before the disk is full. The limit for a task is
    ``_REPEATED`` × ``most`` rows per query. If ``most`` is None, this limit does not apply. If the driver's memory
    holds all input rows, the limit is at most ``_REPEATED`` × ``collected`` rows. With ``small_only``, raise NotSmall
    if an input view is not in the driver's memory. With ``by_duckdb``, DuckDB may compute the rows at once. ``states``
    reads the states; the default computes those in Spark whose input is not in the driver's memory.
    """
    work = [(group, group.branches()) for group in groups]
    branches = [branch for _, branches_of_group in work for branch in branches_of_group]
    views = (states or StateReader(reader, small_only)).views(branches)
    with phase(READING):
        paths = [path for b in branches for path in b.paths.values() if not path.table.startswith(PARAMETER_TABLE)]
        views.read(paths, slices_of(work))
    if by_duckdb and views.in_memory:
        with phase(COMPUTING):
            found = small_answers(work, views)
        if found is not None:
            return Candidates(found, True, len(branches))
    if small_only and not views.small:
        raise NotSmall
    with phase(READING):
        views.register()
        for group, branches_of_group in work:
            register_parameters(reader.spark, group, branches_of_group, views.local)
    parts = []
    for group, branches_of_group in work:
        queries = len(group.members)
        single = group.members[0].query.query_id if queries == 1 else None
        bounds = [most * queries] if most is not None else []
        bounds += [collected] if collected is not None and views.small else []
        selects = [ledger_select(branch, single) for branch in branches_of_group]
        parts += [guarded(each, min(bounds)) for each in selects] if bounds else selects
    # Use one SQL text, because Spark would analyze a union of DataFrames again for each part.
    with phase(ANALYSIS):
        rows = reader.spark.sql(_united(parts)) if parts else union(reader.spark, [])
    return Candidates(rows, views.small, len(parts))


def _united(selects: Sequence[str]) -> str:
    """Combine the SELECTs as a balanced tree, because Spark's parser recurses once per link of a UNION ALL chain."""
    if len(selects) > _UNITED:
        size = -(-len(selects) // _UNITED)
        selects = [_united(selects[at : at + size]) for at in range(0, len(selects), size)]
    return "\nUNION ALL\n".join(f"({each})" for each in selects)


def union(spark: SparkSession, parts: Sequence[DataFrame]) -> DataFrame:
    """Return the UNION ALL of relations in the general form. If ``parts`` is empty, return an empty relation."""
    if parts:
        return reduce(lambda a, b: a.unionAll(b), parts)
    return spark.range(0).selectExpr(
        "id AS query_id",
        "CAST(NULL AS TIMESTAMP) AS first_at",
        "CAST(NULL AS BINARY) AS row_hash",
        "CAST(NULL AS ARRAY<STRING>) AS row",
    )
