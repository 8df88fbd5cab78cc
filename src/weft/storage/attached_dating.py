"""Find the instants of the rows in a file of an attached table (``storage.attached``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.catalog.records import TS
from weft.errors import AttachedFileGone, StorageError
from weft.storage.attached import Attached, read_instants, write_instants
from weft.storage.attached_log import OtherFile
from weft.storage.columns import INSTANT
from weft.storage.data_files import NewFile, attached_rows, check_data_file, removed_by_others
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import columns_equal, connect, quoted
from weft.storage.statistics import parse_statistics, statistics_of
from weft.store import Store, elsewhere

_MICROS: Final = pa.int64()
_TS: Final = "_ts"
_NUMBER: Final = "_number"


class UnlikeRows(Exception):
    """The rows of the new files differ from the rows of the files that they replace."""


@dataclass(frozen=True)
class Dated:
    """A file with its description, and the number of its rows in the table."""

    file: OtherFile
    attached: Attached
    rows: int

    @property
    def new(self) -> NewFile:
        """The file as an entry of the own log."""
        attached, bounds = self.attached, {}
        if attached.first is not None and attached.last is not None:
            bounds[TS] = (attached.first, attached.last)
            if attached.column is not None and attached.column.lower() != TS:
                bounds[attached.column] = bounds[TS]
        entry = attached.own / attached.entry
        stored, file = statistics_of(self.rows, bounds), self.file
        return NewFile(entry, file.size, file.modified_ms, self.rows, stored, attached.described)

    @property
    def stored(self) -> DataFile:
        """The file as a reader of the own log gets it, without bounds."""
        return DataFile(self.file.location, self.file.size, self.rows, {}, {}, self.attached)


@dataclass(frozen=True)
class OwnTimes:
    """The instants in a column of a file (µs UTC). ``least`` and ``greatest`` are None if there are only NULLs."""

    rows: int
    nulls: int
    least: int | None
    greatest: int | None


def new_entry(own: Store, file: OtherFile, version: int) -> Attached:
    """Return a description of a file with a new name in the own log, without instants."""
    return Attached(own, f"attached-{version}-{uuid4()}", str(file.place), file.path, version, values=file.values)


def at_instant(own: Store, file: OtherFile, version: int, at: int) -> Dated:
    """Give all rows of a file the instant ``at`` (µs UTC)."""
    rows = row_count(file)
    bounds = (at, at) if rows else (None, None)
    return Dated(file, replace(new_entry(own, file, version), at=at, first=bounds[0], last=bounds[1]), rows)


def by_column(own: Store, file: OtherFile, version: int, column: str, bounds: tuple[int | None, int | None]) -> Dated:
    """Give each row of a file the instant in a column of the file. ``bounds`` are the least and the greatest."""
    first, last = bounds
    return Dated(file, replace(new_entry(own, file, version), column=column, first=first, last=last), row_count(file))


def row_by_row(
    own: Store, file: OtherFile, version: int, instants: pa.Array, versions: pa.Array | None = None
) -> Dated:
    """Give each row of a file its own instant (µs UTC). A row without one is not a row of the table.

    ``versions`` are the versions of the other table that added the rows, if they are known.
    """
    bounds = pc.min_max(instants).as_py()
    attached = replace(new_entry(own, file, version), first=bounds["min"], last=bounds["max"])
    distinct = pc.unique(instants)
    if len(distinct) == 1 and distinct[0].is_valid and versions is None:
        attached = replace(attached, at=distinct[0].as_py())
    else:
        write_instants(attached, instants, versions)
    return Dated(file, attached, len(instants) - instants.null_count)


def row_count(file: OtherFile) -> int:
    """Return the number of rows in a file."""
    if file.rows is not None:
        return file.rows
    with _parquet(file.location) as parquet:
        return int(parquet.metadata.num_rows)


def own_times(file: OtherFile, column: str) -> OwnTimes:
    """Return the number and the bounds of the instants in a column, from the footer of the file if it has them.

    If the file is gone, return those in the log of its table, whose bounds may be up to a millisecond wider. Raise
    AttachedFileGone if the log has none.
    """
    try:
        return _times_in_file(file, column)
    except AttachedFileGone:
        logged = _times_in_log(file, column)
        if logged is None:
            raise
        return logged


def _times_in_log(file: OtherFile, column: str) -> OwnTimes | None:
    rows, least, greatest = parse_statistics(file.statistics, (column,))
    nulls = (json.loads(file.statistics or "{}").get("nullCount") or {}).get(column)
    if rows is None or nulls is None or not (rows == nulls or (column in least and column in greatest)):
        return None
    return OwnTimes(rows, nulls, least.get(column), greatest.get(column))


def _times_in_file(file: OtherFile, column: str) -> OwnTimes:
    with _parquet(file.location) as parquet:
        schema, metadata = parquet.schema_arrow, parquet.metadata
        if column not in schema.names:
            return OwnTimes(metadata.num_rows, metadata.num_rows, None, None)
        kind = schema.field(column).type
        exact = pa.types.is_timestamp(kind) and kind.unit == "us"
        place = parquet.schema.names.index(column)
        groups = [metadata.row_group(each).column(place).statistics for each in range(metadata.num_row_groups)]
        if exact and groups and all(each and each.has_min_max and each.has_null_count for each in groups):
            least, greatest = min(each.min_raw for each in groups), max(each.max_raw for each in groups)
            return OwnTimes(metadata.num_rows, sum(each.null_count for each in groups), least, greatest)
    times = column_times(file, column)
    bounds = pc.min_max(times).as_py()
    return OwnTimes(len(times), times.null_count, bounds["min"], bounds["max"])


def column_times(file: OtherFile, column: str) -> pa.Array:
    """Return the instants in a column of the file (µs UTC), row by row."""
    rows = _rows(file, pa.schema([(column, INSTANT)]))
    return rows.column(column).cast(_MICROS).combine_chunks()


def picked_rows(file: OtherFile, schema: pa.Schema, mask: pa.Array) -> Iterator[tuple[list[int], pa.Table]]:
    """Yield the rows of a file at which ``mask`` is true, with the columns of ``schema``, and their numbers from 0."""
    done = 0
    for rows in _pieces(file, schema):
        own = mask.slice(done, rows.num_rows)
        yield [done + number for number in pc.indices_nonzero(own).to_pylist()], rows.filter(own)
        done += rows.num_rows


def _rows(file: OtherFile, schema: pa.Schema) -> pa.Table:
    tables = list(_pieces(file, schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _pieces(file: OtherFile, schema: pa.Schema) -> Iterator[pa.Table]:
    undated = Attached(file.place, "", str(file.place), file.path, 0, at=0, values=file.values)
    return attached_rows(DataFile(file.location, file.size, file.rows, {}, {}, undated), schema, start=None)


def _parquet(place: Store) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(place.path, filesystem=place.filesystem)
    except FileNotFoundError as error:
        raise removed_by_others(place) from error
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"a file of the attached table cannot be read: {error}", where=str(place)) from error


def by_versions(
    own: Store,
    gone: Sequence[DataFile],
    added: Sequence[OtherFile],
    version: int,
    column: str,
    begin: tuple[int, int | None],
) -> list[Dated] | None:
    """Give the rows of rewritten files the instants of the versions that added them (row tracking).

    ``column`` has these versions. ``begin`` is the version at which the table was attached, and its instant (None if it
    had no rows). Return None if the instant of a version is not known. Raise UnlikeRows if the number of rows differs,
    and AttachedFileGone if a new file is gone.
    """
    known: dict[int, int | None] = {begin[0]: begin[1]}
    for file in gone:
        attached = file.attached
        assert attached is not None
        if attached.at is not None:
            known[attached.version] = attached.at
        elif attached.column is None:
            pairs = read_instants(attached).group_by(["version", TS]).aggregate([])
            micros = pairs.column(TS).cast(_MICROS).to_pylist()
            known.update(zip(pairs.column("version").to_pylist(), micros, strict=True))
    dated = []
    for new in added:
        versions = _row_versions(new, column)
        numbers = pc.unique(versions).to_pylist()
        instants = {number: known.get(max(number, begin[0])) for number in numbers if number is not None}
        if None in numbers or None in instants.values():
            return None
        keys, values = pa.array(list(instants), _MICROS), pa.array(list(instants.values()), _MICROS)
        dated.append(row_by_row(own, new, version, values.take(pc.index_in(versions, keys)), versions))
    if sum(each.rows for each in dated) != sum(file.rows or 0 for file in gone):
        raise UnlikeRows
    return dated


def _row_versions(file: OtherFile, column: str) -> pa.Array:
    with _parquet(file.location) as parquet:
        rows = parquet.metadata.num_rows
        if column not in parquet.schema_arrow.names:
            return pa.array([file.row_version] * rows, _MICROS)
        versions = parquet.read([column]).column(column).cast(_MICROS).combine_chunks()
    return versions if file.row_version is None else pc.fill_null(versions, file.row_version)


def by_values(
    own: Store, gone: Sequence[DataFile], added: Sequence[OtherFile], version: int, schema: pa.Schema
) -> list[Dated]:
    """Give each row of the rewritten files the instant of the row with the same values in the files before.

    ``schema`` has all columns of the other table. Rows with the same values are interchangeable: together they get the
    instants that they had. Raise UnlikeRows if the rows differ, AttachedFileGone if a file is gone, and StorageError if
    DuckDB cannot compare the rows.
    """
    import duckdb

    for each in gone:
        check_data_file(each)
    try:
        instants = _matched(gone, added, schema)
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        raise StorageError(f"the rewritten rows cannot be compared: {message}", where=str(added[0].location)) from error
    dated, done = [], 0
    for file in added:
        count = row_count(file)
        dated.append(row_by_row(own, file, version, instants.slice(done, count)))
        done += count
    return dated


def _matched(gone: Sequence[DataFile], added: Sequence[OtherFile], schema: pa.Schema) -> pa.Array:
    """Return the instants of the rows of the new files, in order. Raise UnlikeRows if the rows differ."""
    with connect() as connection:
        before, columns = _reader(_old(gone, schema), schema, _TS)
        connection.register("before", before)
        connection.execute(_numbered("old", "before", columns, f"{_TS} NULLS LAST"))
        connection.register("after", _reader(_new(added, schema), schema, _NUMBER)[0])
        connection.execute(_numbered("new", "after", columns, _NUMBER))
        same = columns_equal([*columns, "_place"], "new", "old")
        found = connection.sql(
            f"SELECT new.{_NUMBER}, old.{_TS}, old._place IS NULL AS alone FROM new LEFT JOIN old ON {same} "
            f"ORDER BY new.{_NUMBER}"
        ).to_arrow_table()
        [(count,)] = connection.execute("SELECT count(*) FROM old").fetchall()
    if count != found.num_rows or pc.any(found.column("alone")).as_py():
        raise UnlikeRows
    return found.column(_TS).combine_chunks()


def _numbered(name: str, source: str, columns: Sequence[str], order: str) -> str:
    parts = ", ".join(map(quoted, columns))
    number = f"row_number() OVER (PARTITION BY {parts} ORDER BY {order}) AS _place"
    return f"CREATE TEMP TABLE {quoted(name)} AS SELECT *, {number} FROM {quoted(source)}"


def _reader(tables: Iterator[pa.Table], schema: pa.Schema, also: str) -> tuple[pa.RecordBatchReader, list[str]]:
    """Return the rows with numbered columns, which differ from the columns of this module, and their names.

    ``also`` is the name of a further column of integers, the last one.
    """
    names = [f"c{number}" for number in range(len(schema))]
    fields = [field.with_name(name) for field, name in zip(schema, names, strict=True)]
    batches = (batch for table in tables for batch in table.rename_columns([*names, also]).to_batches())
    return pa.RecordBatchReader.from_batches(pa.schema([*fields, pa.field(also, _MICROS)]), batches), names


def _old(gone: Sequence[DataFile], schema: pa.Schema) -> Iterator[pa.Table]:
    for file in gone:
        attached = file.attached
        assert attached is not None
        other, done = (
            OtherFile(elsewhere(attached.own, attached.place), attached.path, file.size, None, attached.values, 0),
            0,
        )
        instants = _instants(attached, other)
        for rows in _pieces(other, schema):
            yield rows.append_column(_TS, instants.slice(done, rows.num_rows))
            done += rows.num_rows


def _instants(attached: Attached, file: OtherFile) -> pa.Array:
    """Return the instant of each row of a file, also of a row that the table leaves out (NULL)."""
    if attached.column is not None:
        return column_times(file, attached.column)
    if attached.at is not None:
        return pa.repeat(pa.scalar(attached.at, _MICROS), row_count(file))
    return read_instants(attached, [TS]).column(TS).cast(_MICROS).combine_chunks()


def _new(added: Sequence[OtherFile], schema: pa.Schema) -> Iterator[pa.Table]:
    done = 0
    for file in added:
        for rows in _pieces(file, schema):
            yield rows.append_column(_NUMBER, pa.array(range(done, done + rows.num_rows), _MICROS))
            done += rows.num_rows
