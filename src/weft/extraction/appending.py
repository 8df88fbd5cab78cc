"""Tables that people make and append to, annotations for example (Tapestry, section 8): rows, all or none of them.

Who appended is recorded with each row, in the column ``_by`` of a table that was made to be appended to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.catalog.records import BY, TableRecord
from weft.execution.home import Home
from weft.execution.tables import OWN_TIME, SEQ
from weft.extraction.batches import Batch, arrow_schema
from weft.extraction.given_rows import Pieces, Reader
from weft.extraction.ingest import untracked
from weft.extraction.spooling import spooled
from weft.extraction.storing import Summary, beginning, looked_through, registered, store_batches
from weft.extraction.timing import DEFAULT_TIMING
from weft.printable import require_text


def make_table(to: Home, name: str, columns: Sequence[tuple[str, DataType]], keys: Sequence[str] = ()) -> TableRecord:
    """Makes a table with these columns, ``ts`` and ``_by``; raises Conflict for a name that is taken, Refused."""
    with beginning(to, name) as writer:
        return writer.tables.create(name, columns, keys, authored=True)


def append_rows(to: Home, name: str, read: Reader, user: str, source: str) -> Summary:
    """Appends what ``read`` gives to the table, as arrived now, in the name of ``user``.

    All rows are one commit: a crash at any point leaves all of them or none.  Raises NotFound, Refused where a row is
    wrong and for a table that tracks a source; ClockError on a replay home without a clock; LeaseBusy, StorageError.
    Nothing is stored then.
    """
    require_text(user, "the user's name")
    table = untracked(to.catalog.tables.named(name))
    columns = [(c.name, c.type) for c in table.schema.columns if c.name != table.schema.start]
    own = [(each, kind) for each, kind in columns if each != BY]
    looked_through(to, table.name, table.keys, lambda: (), DEFAULT_TIMING)
    schema = arrow_schema(columns)
    with spooled(_numbered(read(own), schema, user), schema) as rows:
        with beginning(to, table.name) as writer:
            load = registered(writer, to, writer.tables.named(name), source, "append", None, {}, DEFAULT_TIMING)
        return store_batches(load, [Batch(rows, (), rows.num_rows)] if rows.num_rows else [])


def _numbered(pieces: Pieces, schema: pa.Schema, user: str) -> Iterator[pa.Table]:
    """The pieces as a batch has its rows: in the columns of ``schema``, with who appended them and their places."""
    before = 0
    for piece in pieces:
        count = piece.num_rows
        columns = {name: piece.column(name) for name in piece.column_names} | {
            BY: pa.repeat(pa.scalar(user), count),
            OWN_TIME: pa.nulls(count, pa.int64()),
            SEQ: pa.array(range(before, before + count), pa.int64()),
        }
        yield pa.table([columns[name] for name in schema.names], schema=schema)
        before += count
