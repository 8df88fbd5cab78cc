"""Describe the files of an attached table, and give their rows an instant.

An *attached* table is a table of the home whose rows stay in a Delta table that another program writes. Its own Delta
log names the files of that table. The path in an ``add`` action is a made-up name (``entry``), and the partition value
``COLUMN`` describes the file as JSON. Everything else is as for other tables: reservations, commits, verification.

A row's ``ts`` is one of three, for each file: an instant for all rows, a column of the file, or an instant for each
row in a file of the home (``instants_file``). A row without an instant is not a row of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from weft.store import Store, elsewhere

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN: Final = "_attached"
"""The partition column of an attached table's own log. Its values describe the files."""
INSTANTS: Final = "_instants"
"""The folder of the instants of single rows, in the folder of the table. Delta's vacuum ignores such a folder."""


@dataclass(frozen=True)
class Attached:
    """How the rows of a file become rows of the table whose own log is in the folder ``own``.

    ``entry`` is the name of the file in that log. ``place`` is the folder of the other table, and ``path`` is the path
    of the file in it. ``version`` is the version of the other table in which Weft first saw
    the file. ``at`` is the instant of all rows (µs UTC), or None. ``column`` is the column with the instants, or None.
    ``values`` are the partition values of the file. ``first`` and ``last`` are the least and the greatest instant of
    its rows, or None if the table has none of them.
    """

    own: Store
    entry: str
    place: str
    path: str
    version: int
    at: int | None = None
    column: str | None = None
    values: Mapping[str, str | None] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None

    @property
    def instants_file(self) -> Store | None:
        """The file with an instant for each row, or None."""
        if self.at is not None or self.column is not None:
            return None
        return self.own / f"{INSTANTS}/{self.entry}.parquet"

    @property
    def location(self) -> Store:
        """The place of the file. Its path may have percent codes, since delta-rs never gets it."""
        return elsewhere(self.own, self.place) / self.path

    @property
    def described(self) -> str:
        """The value of ``COLUMN`` for the file."""
        return json.dumps({name: getattr(self, name) for name in _DESCRIBED}, sort_keys=True)


_DESCRIBED: Final = [each.name for each in fields(Attached) if each.name not in ("own", "entry")]


def restored(own: Store, entry: str, text: str) -> Attached:
    """Return the description of a file, from its name in the own log and the value of ``COLUMN``."""
    return Attached(own, entry, **json.loads(text))


def write_instants(attached: Attached, instants: pa.Array, versions: pa.Array | None = None) -> None:
    """Write the instant of each row of a file (µs UTC, NULL: not a row of the table). The file is durable.

    ``versions`` are the versions of the other table that added the rows, if they are known.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = attached.instants_file
    assert place is not None
    rows, sink = len(instants), pa.BufferOutputStream()
    columns = {
        "entry": pa.array([attached.entry] * rows, pa.string()),
        "row": pa.array(range(rows), pa.int64()),
        "ts": instants.cast(pa.timestamp("us", "UTC")),
        "version": pa.nulls(rows, pa.int64()) if versions is None else versions.cast(pa.int64()),
    }
    pq.write_table(pa.table(columns), sink, compression="zstd")
    place.parent.make_and_force()
    place.put(sink.getvalue().to_pybytes())
    place.parent.force()


def read_instants(attached: Attached, columns: Sequence[str] = ("ts", "version")) -> pa.Table:
    """Return columns of a file with an instant for each row: ``entry``, ``row``, ``ts`` and ``version``."""
    import pyarrow.parquet as pq

    place = attached.instants_file
    assert place is not None
    return pq.read_table(place.path, filesystem=place.filesystem, columns=list(columns))


def with_instants(
    attached: Attached,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    start: str | None,
    instants: pa.Array | None,
) -> Iterator[pa.Table]:
    """Yield the rows of a file with the columns of ``schema``, in order. ``batches`` are the columns of the file.

    ``start`` is the column with the instant, or None if no column gets it. ``instants`` are the instants of the rows
    of ``batches`` if a file has them. Rows without an instant are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    done = 0
    for batch in batches:
        columns = {}
        for each in schema:
            if each.name == start:
                if instants is not None:
                    columns[each.name] = instants.slice(done, batch.num_rows)
                elif attached.column is not None:
                    columns[each.name] = batch.column(attached.column).cast(each.type)
                else:
                    columns[each.name] = pa.repeat(pa.scalar(attached.at, pa.int64()).cast(each.type), batch.num_rows)
            elif each.name in attached.values:
                value = pa.scalar(attached.values[each.name], pa.string()).cast(each.type)
                columns[each.name] = pa.repeat(value, batch.num_rows)
            elif each.name in batch.schema.names:
                columns[each.name] = batch.column(each.name).cast(each.type)
            else:
                columns[each.name] = pa.nulls(batch.num_rows, each.type)
        rows = pa.table(columns, schema)
        if instants is not None:
            rows = rows.filter(pc.is_valid(instants.slice(done, batch.num_rows)))
        done += batch.num_rows
        yield rows
