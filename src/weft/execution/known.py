"""Find the answers of a tick that the ledger has already, as far as the driver can."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from weft.execution.driver_reader import Bounds, count_text, over_bound, rows_of
from weft.execution.look_ups import ANSWER, LookUpResult, LookUps
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile


def known_answers(
    ledger: Sequence[DataFile], queries: Sequence[int], keys: pa.Table, bounds: Bounds, look_ups: LookUps | None
) -> LookUpResult:
    """Look up which of the answers ``keys`` (query id, hash) of these queries are in the ledger's files, or a
    superset.
    """
    files = answer_files(ledger, queries)
    rows = rows_of(files)
    if not files or rows <= bounds.filtered:
        how = f"the whole ledger, {count_text(rows)} in {count_text(len(files), 'file')}" if files else "nothing so far"
        return LookUpResult("driver", how, read_data_files(files, ANSWER))
    if look_ups is None:
        return LookUpResult("Spark", f"no arrangement, and {over_bound(rows, bounds.filtered)}")
    return look_ups.answers(ledger, keys)


def answer_files(ledger: Sequence[DataFile], queries: Sequence[int]) -> list[DataFile]:
    """Return the ledger's files that may have answers of these queries."""
    if not queries:
        return []
    low, high = min(queries), max(queries)
    return [
        file
        for file in ledger
        if file.least.get("query_id", low) <= high and file.greatest.get("query_id", high) >= low
    ]
