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
class FedTable:
    """What a feed told of one table: changes, columns that the table lacks, and how far the feed was read (JSON-able).

    ``once`` says that none of the changes can have been recorded before.  ``rejected`` are lines that are no changes.
    """

    changes: Changes
    added: tuple[tuple[str, DataType], ...]
    seen: Mapping[str, Any]
    once: bool = False
    rejected: Sequence[Rejected] = ()


@dataclass(frozen=True)
class Fed:
    """What a feed told of several tables; ``recorded`` is called when all of it is recorded."""

    tables: Sequence[FedTable]
    recorded: Callable[[], None] = _nothing
