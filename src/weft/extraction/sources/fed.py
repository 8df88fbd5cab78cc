"""The result of reading a feed of changes of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.extraction.batches import Rejected

Changes = Callable[[pa.Table], pa.Table]
"""Returns the changes of a table (``storage.changes``), given its open rows."""


def _nothing() -> None:
    """Do nothing: the default for feeds that need no acknowledgement."""


@dataclass(frozen=True)
class TableFeed:
    """The changes of one table, the columns that the table lacks, and the position reached in the feed (JSON-able).

    ``once`` states that none of the changes can be recorded already. ``rejected`` are lines that are not changes.
    """

    changes: Changes
    added: tuple[tuple[str, DataType], ...]
    seen: Mapping[str, Any]
    once: bool = False
    rejected: Sequence[Rejected] = ()


@dataclass(frozen=True)
class FeedBatch:
    """The changes of several tables from one feed. ``recorded`` is called after all of them are recorded."""

    tables: Sequence[TableFeed]
    recorded: Callable[[], None] = _nothing
