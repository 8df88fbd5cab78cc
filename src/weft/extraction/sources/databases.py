"""Shared by the database monitors: convert the rows of a table, read as text, to those of a tracked table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.errors import Refused
from weft.extraction.batches import Progress
from weft.extraction.files.columns import match_columns
from weft.extraction.files.rows import Caster, Layout, OwnTimes
from weft.extraction.files.text_records import TextRecord
from weft.extraction.sources.snapshot import refuse_lost, refuse_rejected
from weft.storage.columns import arrow_type
from weft.storage.local_sql import connect

Columns = tuple[tuple[str, DataType], ...]


def added_columns(columns: Sequence[tuple[str, DataType]], schema: TableSchema, evolve: bool, where: str) -> Columns:
    """Return the columns that the tracked table lacks, if ``evolve`` accepts them. Raise Refused for a mismatch."""
    both = match_columns(columns, schema, None, True, where)
    refuse_lost([name for name, _ in both.absent], schema.name, where)
    if both.added and not evolve:
        raise Refused(
            f"the source of {schema.name} has new columns: {', '.join(name for name, _ in both.added)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {schema.name} --evolve` adds new columns.",
        )
    return both.added


def rows_of(
    records: Iterable[TextRecord], columns: Columns, where: str, progress: Progress | None, *, counted: str = "row"
) -> pa.Table:
    """Return records, whose cells are texts by name, as rows of these columns; BINARY is base64.

    Raise ExtractionError for a value that is not of its column's type; ``counted`` is the word for a record in the
    message.
    """
    names = tuple(name for name, _ in columns)
    empty = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns]).empty_table()
    pieces, read = [empty], 0
    with connect() as connection:
        # As in JSON, a missing cell is NULL and an empty text is not.
        caster = Caster(Layout("json", names, ("VARCHAR",) * len(names)), OwnTimes(), columns, where, counted=counted)
        for batch in caster.text_batches(records, connection):
            refuse_rejected(batch, where)
            pieces.append(batch.rows.select(list(names)))
            read += batch.read
            if progress is not None:
                progress(read)
    return pa.concat_tables(pieces)
