"""Read the change data feed of a user's Delta table with delta-rs: the inserted and deleted rows by version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import ExtractionError, NotFound
from weft.storage.table import delta_errors
from weft.store import Store

CHANGE: Final = "_change_type"
VERSION: Final = "_commit_version"
COMMITTED: Final = "_commit_timestamp"
"""The name of the time column of a change data feed.

The feed adds three columns to the table: the kind of change, the version, and the commit time (milliseconds UTC). The
kinds are insert, delete, update_preimage and update_postimage.
"""

_PROPERTY: Final = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class TableState:
    """The state of a Delta table at its last version.

    ``table_id`` identifies the table. ``feeds`` is True if the change data feed is on. ``committed_at`` is the time of
    the last commit (µs UTC). ``columns`` is an empty Arrow table with the columns of the Delta table.
    """

    table_id: str
    version: int
    feeds: bool
    committed_at: int
    columns: pa.Table


def is_delta(path: Store) -> bool:
    """Return whether the folder is a Delta table."""
    return (path / "_delta_log").exists()


def state_of(path: Store) -> TableState:
    """Return the state of the table. Raise NotFound if the table is missing, and ExtractionError if a read fails."""
    with _reading(path):
        table = _opened(path)
        feeds = str(table.metadata().configuration.get(_PROPERTY)).lower() == "true"
        (last,) = table.history(1)
        columns = pa.schema(table.schema().to_arrow()).empty_table()
        return TableState(str(table.metadata().id), table.version(), feeds, int(last["timestamp"]) * 1_000, columns)


def rows_at(path: Store, version: int) -> pa.Table:
    """Return all rows of the table at ``version``.

    Raise NotFound if the table does not exist. Raise ExtractionError if the version cannot be read, for example because
    VACUUM deleted its files.
    """
    with _reading(path):
        table = _opened(path)
        table.load_as_version(version)
        return _plain(table.to_pyarrow_table())


def changes_between(path: Store, first: int, last: int) -> pa.Table:
    """Return the changes from version ``first`` to ``last``, with the columns of the table and of the feed.

    Raise NotFound if the table does not exist. Raise ExtractionError if a part of the feed is missing, for example
    because VACUUM deleted a file or because the feed was off for a version.
    """
    with _reading(path):
        return _plain(pa.table(_opened(path).load_cdf(first, last)))


def _opened(path: Store) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(path.uri, storage_options=path.options)


@contextmanager
def _reading(path: Store) -> Iterator[None]:
    if not is_delta(path):
        raise NotFound(
            f"there is no Delta table in {path}",
            hint="Check the path, or poll again later if the source is temporarily unavailable.",
        )
    try:
        yield
    except delta_errors() as error:
        message = " ".join(str(error).split())[:300]
        raise ExtractionError(f"the Delta table cannot be read: {message}", where=str(path)) from None


def _plain(rows: pa.Table) -> pa.Table:
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
    """Return the commit time (µs UTC) of each version. The versions are ascending."""
    micros = pc.cast(pc.cast(changes.column(COMMITTED), pa.timestamp("us")), pa.int64()).to_pylist()
    return dict(sorted(dict(zip(changes.column(VERSION).to_pylist(), micros, strict=True)).items()))
