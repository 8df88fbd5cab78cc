"""What the monitors of databases share: a table's rows, each value as text, become those of a tracked table."""

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


def added_columns(found: Sequence[tuple[str, DataType]], schema: TableSchema, evolve: bool, where: str) -> Columns:
    """The columns found that the tracked table lacks, where they are taken; raises Refused for others than it has."""
    both = match_columns(found, schema, None, True, where)
    refuse_lost([name for name, _ in both.absent], schema.name, where)
    if both.added and not evolve:
        raise Refused(
            f"the source of {schema.name} has also {', '.join(name for name, _ in both.added)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {schema.name} --evolve` takes columns that are new.",
        )
    return both.added


def rows_of(
    records: Iterable[TextRecord], columns: Columns, where: str, progress: Progress | None, *, counted: str = "row"
) -> pa.Table:
    """The records, whose cells are texts by name, as rows of those columns; BINARY is base64.

    Raises ExtractionError where a value is not of its column's type; ``counted`` is what it calls the record.
    """
    names = tuple(name for name, _ in columns)
    empty = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns]).empty_table()
    pieces, read = [empty], 0
    with connect() as connection:
        # As JSON has them: a cell that is missing is NULL, and an empty text is one.
        caster = Caster(Layout("json", names, ("VARCHAR",) * len(names)), OwnTimes(), columns, where, counted=counted)
        for batch in caster.text_batches(records, connection):
            refuse_rejected(batch, where)
            pieces.append(batch.rows.select(list(names)))
            read += batch.read
            if progress is not None:
                progress(read)
    return pa.concat_tables(pieces)
