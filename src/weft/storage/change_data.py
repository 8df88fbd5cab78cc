"""The change data feed of somebody's Delta table, read by delta-rs: which rows came and went with each version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import ExtractionError, NotFound
from weft.location import Location
from weft.storage.delta_log import delta_errors

CHANGE: Final = "_change_type"
VERSION: Final = "_commit_version"
COMMITTED: Final = "_commit_timestamp"
"""Columns that a change data feed has beside the table's: insert, delete, update_preimage or update_postimage; the
version; and when it was committed (milliseconds UTC)."""

_PROPERTY: Final = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class TableState:
    """A Delta table as of its last version: what tells it from another one, whether it tells its changes, when that
    version was committed (µs UTC), and no rows of it, with their columns."""

    table_id: str
    version: int
    feeds: bool
    committed_at: int
    columns: pa.Table


def is_delta(path: Location) -> bool:
    """Whether a folder is a Delta table."""
    return (path / "_delta_log").exists()


def state_of(path: Location) -> TableState:
    """The table as it is now; raises NotFound, ExtractionError."""
    with _reading(path):
        table = _opened(path)
        feeds = str(table.metadata().configuration.get(_PROPERTY)).lower() == "true"
        (last,) = table.history(1)
        columns = pa.schema(table.schema().to_arrow()).empty_table()
        return TableState(str(table.metadata().id), table.version(), feeds, int(last["timestamp"]) * 1_000, columns)


def rows_at(path: Location, version: int) -> pa.Table:
    """All rows of a version; raises NotFound, ExtractionError, also where files of it were deleted (VACUUM)."""
    with _reading(path):
        table = _opened(path)
        table.load_as_version(version)
        return _plain(table.to_pyarrow_table())


def changes_between(path: Location, first: int, last: int) -> pa.Table:
    """What the feed tells of the versions from ``first`` to ``last``: the table's columns and the feed's own three.

    Raises NotFound, ExtractionError, also where a part of it is missing: files that were deleted (VACUUM), a log that
    was cleaned up, versions that were written while the feed was off.
    """
    with _reading(path):
        return _plain(pa.table(_opened(path).load_cdf(first, last)))


def _opened(path: Location) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(path.uri)


@contextmanager
def _reading(path: Location) -> Iterator[None]:
    if not is_delta(path):
        raise NotFound(f"there is no Delta table in {path}", hint="The source may be away for a moment.")
    try:
        yield
    except delta_errors() as error:
        told = " ".join(str(error).split())[:300]
        raise ExtractionError(f"the Delta table cannot be read: {told}", where=str(path)) from None


def _plain(rows: pa.Table) -> pa.Table:
    """The rows with texts and bytes in their plain encoding, and the feed's instants in microseconds."""
    plain = []
    for field in rows.schema:
        kind = field.type
        if pa.types.is_string_view(kind):
            kind = pa.string()
        elif pa.types.is_binary_view(kind):
            kind = pa.binary()
        plain.append(pa.field(field.name, kind))
    return rows.cast(pa.schema(plain))


def committed_at(changes: pa.Table) -> dict[int, int]:
    """The versions among the changes, rising, and when each was committed (µs UTC)."""
    micros = pc.cast(pc.cast(changes.column(COMMITTED), pa.timestamp("us")), pa.int64()).to_pylist()
    return dict(sorted(dict(zip(changes.column(VERSION).to_pylist(), micros, strict=True)).items()))
