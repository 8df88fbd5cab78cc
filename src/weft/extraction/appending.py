"""Tables that people make and append to, annotations for example (Tapestry, section 8): a few rows, all or none.

Who appended is recorded with each row, in the column ``_by`` of a table that was made to be appended to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from weft.algebra.schema import DataType
from weft.catalog.records import BY, TableRecord
from weft.errors import Refused
from weft.execution.home import Home
from weft.extraction.batches import Row, batches_of
from weft.extraction.ingest import existing
from weft.extraction.storing import Summary, beginning, looked_through, registered, store_batches
from weft.extraction.timing import DEFAULT_TIMING

MAX_ROWS: Final = 10_000
"""The most rows of one append: they are held in memory, so that one that is wrong refuses all."""

Reader = Callable[[Sequence[tuple[str, DataType]]], Iterable[dict[str, object]]]
"""Gives rows of these columns, typed as they are; raises Refused for one that is not."""


def make_table(to: Home, name: str, columns: Sequence[tuple[str, DataType]], keys: Sequence[str] = ()) -> TableRecord:
    """Makes a table with these columns, ``ts`` and ``_by``; raises Conflict for a name that is taken, Refused."""
    with beginning(to, name) as writer:
        return writer.tables.create(name, columns, keys, authored=True)


def append_rows(to: Home, name: str, read: Reader, user: str, source: str) -> Summary:
    """Appends what ``read`` gives to the table, as arrived now, in the name of ``user``.

    Raises NotFound, Refused where a row is wrong, where there are more than MAX_ROWS, and for a table that tracks a
    source; ClockError on a replay home without a clock; LeaseBusy, StorageError.  Nothing is stored then.
    """
    table = to.catalog.tables.named(name)
    existing(to.catalog, table.name)
    own = [(c.name, c.type) for c in table.schema.columns if c.name not in (table.schema.start, BY)]
    rows = list(islice(read(own), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise Refused(
            f"these are more than {MAX_ROWS:,} rows", where=source, hint=f"`weft ingest file` loads them into {name}."
        )
    columns = [(c.name, c.type) for c in table.schema.columns if c.name != table.schema.start]
    by = {BY: user} if any(each == BY for each, _ in columns) else {}
    batches = list(batches_of((Row({**row, **by}, None) for row in rows), columns))
    looked_through(to, table.name, table.keys, lambda: batches, DEFAULT_TIMING)
    with beginning(to, table.name) as writer:
        load = registered(writer, to, writer.tables.named(name), source, "append", None, {}, DEFAULT_TIMING)
    return store_batches(load, batches)
