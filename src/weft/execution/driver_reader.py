"""Read the small relations of a tick in the driver, because a Spark job would be slower.

Each method returns a ``Reading``: rows in the driver's memory, or the reason why Spark or DuckDB must read the
relation. The limits in ``ReadBounds`` alone decide, separately for each relation.

The tick makes Spark views of the readings (``temp_views``), and ``explain --tick`` shows the readings (``forecast``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import Access, FullScan, Key, Lookup
from weft.algebra.relation import StateSchema
from weft.algebra.schema import DataType
from weft.derivation.access_paths import in_reading_order
from weft.errors import ExecutionError, LimitExceeded
from weft.execution.look_ups import LookUps
from weft.execution.relations import LEDGER_COLUMNS, Relation, ResultsTable, answer_columns
from weft.instants import LAST_INSTANT
from weft.planning.state_engine import MOST_INPUTS, MOST_LARGE
from weft.storage.columns import arrow_type, spelled, stored_schema
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DataFile
from weft.storage.json_fields import field_values
from weft.storage.ledger import ledger_schema
from weft.storage.periods import periods
from weft.storage.slices import Slice, hull, may_hold
from weft.storage.values import decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ReadBounds:
    """The limits for work in the driver.

    - ``whole``: rows of a table that is read whole
    - ``filtered``: rows of a table that a look-up scans; look-ups in larger tables use an arrangement
    - ``news``: new rows, or rows that a look-up returns
    - ``scanned``: rows in the files that are scanned for new rows
    - ``keys``: distinct keys of one look-up
    - ``loaded``: rows of a table that a load scans for known keys; loads into larger tables use an arrangement
    - ``size``: bytes of a result, because a few rows with long texts could fill the JVM's memory
    - ``written``: answers of Spark that the driver stores as one file. Fewer rows would cost the executors more.
    - ``inputs``: rows of a table that is read whole, new rows, or rows that a look-up returns, for a state that DuckDB
      computes
    - ``large``: rows of the tables that DuckDB reads whole for a state, a first delivery or another large window
    - ``passes``: ratio of table rows to batch rows; up to this ratio, a load of more than ``keys`` rows scans the table
    """

    whole: int = 20_000
    filtered: int = 20_000
    news: int = 100_000
    scanned: int = 2_000_000
    keys: int = 50_000
    loaded: int = 20_000
    size: int = 64 << 20
    written: int = 20_000
    inputs: int = MOST_INPUTS
    large: int = MOST_LARGE
    passes: int = 8


BOUNDS: Final = ReadBounds()
NOTHING: Final = ReadBounds(-1, -1, -1, -1, -1, -1, written=-1, inputs=-1, large=-1)
"""Limits that are so low that Spark reads every relation."""

_LEDGER: Final = ledger_schema("query_id", "ordinal", "first_at", "row")


@dataclass(frozen=True)
class LocalRows:
    """Rows of a relation in the driver's memory.

    ``data`` has the columns of the relation, or the ledger's columns if the relation is a ``ResultsTable``.
    ``relation`` is None for keys.
    """

    relation: Relation | StateSchema | None
    data: pa.Table

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        rows = local_frame(spark, self.data)
        return rows.selectExpr(*answer_columns(self.relation)) if isinstance(self.relation, ResultsTable) else rows

    def table(self, columns: Mapping[str, set[str]]) -> pa.Table:
        """Return the rows with the columns of the relation. ``columns`` maps tables to the columns that are needed."""
        if not isinstance(self.relation, ResultsTable):
            return self.data
        schema = self.relation.schema
        needed = {*columns.get(schema.name, ()), schema.start}
        return pa.table({each.name: self.column(each.name) for each in schema.columns if each.name in needed})

    def column(self, name: str) -> pa.ChunkedArray:
        """Return the values of the relation's column with this name."""
        if not isinstance(self.relation, ResultsTable):
            return self.data.column(spelled(self.data.schema, name))
        results = self.relation
        if name in LEDGER_COLUMNS:
            return self.data.column(LEDGER_COLUMNS[name])
        number, type_ = next((n, c.type) for n, c in enumerate(results.schema.columns) if c.name == name)
        texts = pc.list_element(self.data.column("row"), number)
        return texts if type_.name == "STRING" else pa.chunked_array([_decoded(texts.to_pylist(), type_)])

    def key(self, key: Key) -> pa.ChunkedArray | None:
        """Return the values of a key.

        Return None if Spark may read other values (``storage.json_fields``), or if DuckDB fails.
        """
        values = self.column(key.column)
        if not key.fields:
            return values
        try:
            return field_values(values, key.fields, key.type)
        except LimitExceeded:
            raise
        except ExecutionError:
            return None

    def among(self, keys: Mapping[Key, Sequence[pa.ChunkedArray]]) -> LocalRows:
        """Return the rows that match at least one of the keys, and possibly further rows.

        ``keys`` maps each key to its wanted values. NULL matches NULL.
        """
        own = {key: self.key(key) for key in keys}
        met = [_among(values, _distinct(keys[key])) for key, values in own.items() if values is not None]
        return self if len(met) < len(keys) else LocalRows(self.relation, self.data.filter(reduce(pc.or_kleene, met)))

    def inside(self, slices: Sequence[Slice]) -> LocalRows:
        """Return the rows that lie in any of the slices."""
        masks = [part.mask(self.column(part.column)) for part in slices]
        return LocalRows(self.relation, self.data.filter(reduce(pc.or_kleene, masks)))


def local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return the rows as a Spark DataFrame with one partition. A join of single-partition DataFrames needs no exchange.

    The DataFrame has a LIMIT for two reasons. With the LIMIT, Spark knows the row count. Without the LIMIT, Spark would
    move a condition with a subquery below the coalescing.
    """
    if not rows.num_rows:  # pyspark needs a chunk for each column, even an empty one
        rows = pa.table([pa.array([], field.type) for field in rows.schema], rows.schema)
    return spark.createDataFrame(rows).coalesce(1).limit(max(rows.num_rows, 1))


def _decoded(texts: Sequence[str | None], type_: DataType) -> pa.Array:
    plain = replace(type_, shape=None)  # a query reads intervals as numbers
    return pa.array([decode([text], [plain])[0] for text in texts], arrow_type(plain))


@dataclass(frozen=True)
class Reading:
    """How to read one relation. ``by`` is the reader, and ``how`` describes the method.

    ``rows`` is None in four cases. If ``by`` is "Spark" or "DuckDB", this engine reads the files. If ``by`` is
    "arrangement", the arrangement is outdated and must be extended before the look-up. If ``by`` is "driver", the tick
    computes the rows (``ticks.state_forecast``).
    """

    by: Literal["driver", "arrangement", "DuckDB", "Spark"]
    how: str
    rows: LocalRows | None = None


@dataclass
class DriverReader:
    """A reader for the files of a tick. ``files`` returns the files of a relation by name.

    With ``by_files``, DuckDB reads whole tables that are too large for the driver's memory.
    """

    tables: Mapping[str, Relation]
    files: Callable[[str], Sequence[DataFile]]
    bounds: ReadBounds = BOUNDS
    look_ups: LookUps | None = None
    tables_read: dict[tuple[str, frozenset[str]], pa.Table] = field(default_factory=dict)
    by_files: bool = False

    def for_duckdb(self, *, by_files: bool) -> DriverReader:
        """Return the reader for the input of states that DuckDB computes, with less processor time than Spark."""
        bounds = replace(self.bounds, whole=self.bounds.inputs, news=self.bounds.inputs)
        return replace(self, bounds=bounds, by_files=by_files)

    def fits_duckdb(self, *names: str) -> bool:
        """Return whether DuckDB can read the files of all relations, and they have at most ``large`` rows together."""
        relations = [self.tables[name] for name in names]
        if any(isinstance(each, ResultsTable) or each.tracked for each in relations):
            return False
        files = [file for name in names for file in self.files(name)]
        return not any(file.attached for file in files) and rows_of(files) <= self.bounds.large

    def whole(self, name: str, columns: Iterable[str]) -> Reading:
        """Read all rows of a relation. The result has the given columns and the start column."""
        rows = rows_of(self.files(name))
        if rows > self.bounds.whole:
            return Reading("Spark", f"the whole table, {over_bound(rows, self.bounds.whole)}")
        local = self._all(name, columns)
        if local is None:
            return Reading("Spark", self._beyond())
        return Reading("driver", f"the whole table, {count_text(rows)}", local)

    def _all(self, name: str, columns: Iterable[str]) -> LocalRows | None:
        relation, files = self.tables[name], self.files(name)
        names = frozenset() if isinstance(relation, ResultsTable) else frozenset({*columns, relation.schema.start})
        if (name, names) not in self.tables_read:
            data = self._read(relation, files, _stored_of(relation, names), None, None)
            if data is None:
                return None
            self.tables_read[name, names] = _rows_for_queries(relation, data, names)
        return LocalRows(relation, self.tables_read[name, names])

    def news(self, name: str, slices: Sequence[Slice], columns: Iterable[str]) -> Reading:
        """Read the rows of a relation that lie in any of the slices."""
        relation = self.tables[name]
        wanted = log_slices(relation, slices)
        files = news_files(relation, self.files(name), wanted)
        held = rows_of(files)
        if held > self.bounds.scanned:
            return Reading("Spark", f"{count_text(len(files), 'file')} with {over_bound(held, self.bounds.scanned)}")
        names = {*columns, relation.schema.start, *(part.column for part in slices)}
        if isinstance(relation, ResultsTable):
            data = self._read(relation, files, (), None, None)
            if data is None:
                return Reading("Spark", self._beyond())
            data = LocalRows(relation, data).inside(slices).data if files else data
        else:
            condition = reduce(or_, (part.condition for part in wanted))
            data = self._read(relation, files, _stored_of(relation, names), condition, self.bounds.news, hull(wanted))
            data = None if data is None else _rows_for_queries(relation, data, names)
        if data is None or data.num_rows > self.bounds.news:
            return Reading("Spark", self._beyond())
        how = f"{count_text(data.num_rows)} from {count_text(len(files), 'file')} with {count_text(held)}"
        return Reading("driver", how, LocalRows(relation, data))

    def lookup(self, name: str, keys: Mapping[Key, Sequence[pa.ChunkedArray]], columns: Iterable[str]) -> Reading:
        """Read the rows that match at least one of the keys, and possibly further rows.

        ``keys`` maps each key to its wanted values. NULL matches NULL.
        """
        wanted = {key: _distinct(parts) for key, parts in keys.items()}
        count = sum(map(len, wanted.values()))
        if count > self.bounds.keys:
            return Reading("Spark", over_bound(count, self.bounds.keys, "key"))
        wide, held = {*columns, *(key.column for key in keys)}, rows_of(self.files(name))
        keys_text = f"{count_text(count, 'key')} looked up"
        if held > self.bounds.filtered:
            return self._looked_up(name, wanted, wide, keys_text)
        local = self._all(name, wide)
        if local is None:
            return self._looked_up(name, wanted, wide, keys_text)
        if not isinstance(local.relation, ResultsTable):
            local = local.among(keys)
        return Reading(
            "driver", f"{keys_text} in the whole table, {count_text(held)}: {local.data.num_rows:,} found", local
        )

    def _looked_up(self, name: str, keys: Mapping[Key, pa.Array], columns: Iterable[str], keys_text: str) -> Reading:
        relation = self.tables[name]
        if self.look_ups is None or isinstance(relation, ResultsTable):
            return Reading(
                "Spark", f"no arrangement, and {over_bound(rows_of(self.files(name)), self.bounds.filtered)}"
            )
        if not may_look_up(relation, (key.column for key in keys)):
            return Reading("Spark", "Weft does not look up the ends of periods in a large table")
        shown = {*columns, relation.schema.start}
        schema, parts, how = stored_schema(relation.stored, _stored_of(relation, shown)), [], [keys_text]
        for key, values in keys.items():
            result = self.look_ups.rows(relation.stored, self.files(name), key, schema.names, pa.table({"key": values}))
            if result.by == "Spark":
                return Reading("Spark", f"by {key.name}: {result.how}")
            how.append(f"by {key.name}: {result.how}")
            if result.rows is not None:
                if result.rows.num_rows > self.bounds.news or result.rows.nbytes > self.bounds.size:
                    return Reading("Spark", f"by {key.name}: {self._beyond()}")
                parts.append(result.rows.select(schema.names))
        rows = None
        if len(parts) == len(keys):
            rows = LocalRows(relation, _rows_for_queries(relation, pa.concat_tables(parts), shown))
        return Reading("arrangement", "; ".join(how), rows)

    def _beyond(self) -> str:
        return f"the result exceeds {max(self.bounds.news, 0):,} rows or {max(self.bounds.size, 0) >> 20:,} MB"

    def _read(
        self,
        relation: Relation,
        files: Sequence[DataFile],
        columns: Iterable[str],
        condition: pc.Expression | None,
        most: int | None,
        part: Slice | None = None,
    ) -> pa.Table | None:
        """Return None if the result exceeds ``most`` rows or the size bound."""
        schema = _LEDGER
        if isinstance(relation, ResultsTable):
            condition = (pc.field("query_id") == relation.query.query_id) & (pc.field("ordinal") <= relation.rows)
        else:
            schema = stored_schema(relation.stored, columns)
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in (each for file in files for each in file_batches(file, schema, condition, part=part)):
            if batch.num_rows:
                batches.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            if size > self.bounds.size or (most is not None and rows > most):
                return None
        return pa.Table.from_batches(batches, schema)


def _stored_of(relation: Relation, columns: Iterable[str]) -> set[str]:
    """For a tracked table, return all columns of the log, because a period is computed from all its records."""
    if isinstance(relation, ResultsTable) or not relation.tracked:
        return set(columns)
    return {column.name for column in relation.stored.columns}


def _rows_for_queries(relation: Relation, rows: pa.Table, columns: Iterable[str]) -> pa.Table:
    if isinstance(relation, ResultsTable) or not relation.tracked:
        return rows
    return periods(rows).select(stored_schema(relation.schema, columns).names)


def log_slices(relation: Relation, slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return slices of the stored rows that suffice to compute all rows in ``slices``.

    The log of a tracked table records the end of a period at that end or later. A slice of end times therefore becomes
    a slice of all log rows since the first end time. The end times in the log cannot be the filter, because a later log
    row may change the end. All records of one period have the same values in the other columns.
    """
    if isinstance(relation, ResultsTable) or not relation.tracked:
        return tuple(slices)
    return tuple(
        Slice(relation.stored.start, part.low, LAST_INSTANT) if part.column == relation.schema.end else part
        for part in slices
    )


def may_look_up(relation: Relation, columns: Iterable[str]) -> bool:
    """Return whether a look-up by these columns finds every stored record of the matching rows.

    A look-up by the end column of a tracked table misses records, because the records of a period may have different
    ends.
    """
    return isinstance(relation, ResultsTable) or not relation.tracked or relation.schema.end not in set(columns)


def news_files(relation: Relation, files: Iterable[DataFile], slices: Sequence[Slice]) -> list[DataFile]:
    """Return the files of the relation that may have rows in a slice, according to the file statistics."""
    names = LEDGER_COLUMNS if isinstance(relation, ResultsTable) else None
    return [file for file in files if any(may_hold(file, part, names) for part in slices)]


def rows_of(files: Iterable[DataFile]) -> float:
    """Return the number of rows in the files. Return infinity if the log lacks the row count of a file."""
    return sum(float("inf") if file.rows is None else file.rows for file in files)


def count_text(count: float, what: str = "row") -> str:
    """Return a count with its noun in the singular or plural.

    >>> count_text(1), count_text(4_000, "file"), count_text(float("inf"))
    ('1 row', '4,000 files', 'an unknown number of rows')
    """
    if count == float("inf"):
        return f"an unknown number of {what}s"
    return f"{count:,.0f} {what}" + ("" if count == 1 else "s")


def over_bound(count: float, most: int, what: str = "row") -> str:
    """Return a message for a count that exceeds ``most``."""
    return f"{count_text(count, what)}, but the driver reads at most {max(most, 0):,}"


def _distinct(parts: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return each key once. The keys of several look-ups often come from the same rows."""
    chunks = [chunk for part in parts for chunk in part.chunks]
    return pc.unique(pa.concat_arrays(chunks)) if chunks else pa.array([], parts[0].type)


def _among(column: pa.ChunkedArray, keys: pa.Array) -> pa.ChunkedArray:
    """For floats, return true for every value but NULL, because Arrow's ``is_in`` distinguishes -0.0 and 0.0."""
    if pa.types.is_floating(column.type):
        return pc.or_(column.is_valid(), bool(keys.null_count))
    return pc.is_in(column, value_set=keys.cast(column.type))


def keys_for(path: Lookup, rows: LocalRows) -> pa.ChunkedArray | None:
    """Return the keys of a look-up.  NULL is a key only if it equals NULL there.

    Return None if Spark may read other keys (``LocalRows.key``).
    """
    values = rows.key(path.via_key)
    return values if path.null_safe or values is None else values.drop_null()


Computed: TypeAlias = Callable[[Sequence[Access], Mapping[str, "Reading"]], "Reading"]
"""A function that reads a relation that is not stored. The arguments are its access paths and the readings by view."""


def readings(
    driver: DriverReader,
    columns: Mapping[str, set[str]],
    paths: Iterable[Access],
    slices: Mapping[str, Sequence[Slice]],
    computed: Computed,
) -> Iterator[tuple[list[Access], Reading]]:
    """Yield each reading with its access paths. Whole tables and new rows come before look-ups.

    ``columns`` maps each table to the columns to read. ``slices`` maps each table to the ranges of the new rows.
    ``computed`` reads the relations that are not stored: states and keys. One pass over a table serves all look-ups of
    a step. A look-up may therefore return rows for the keys of another look-up. Extra rows are harmless, because each
    branch tests its equalities again.
    """
    by_view: dict[str, Reading] = {}
    for same in in_reading_order(paths):
        first = same[0]
        names = columns.get(first.table, set())
        if first.table not in driver.tables:
            reading = computed(same, by_view)
        elif isinstance(first, FullScan):
            reading = driver.whole(first.table, names)
        elif isinstance(first, Lookup):
            reading = _looked_up(driver, names, [path for path in same if isinstance(path, Lookup)], by_view)
        else:
            reading = driver.news(first.table, slices[first.table], names)
        if reading.by in ("DuckDB", "Spark") and first.table in driver.tables:
            if driver.by_files and driver.fits_duckdb(first.table):
                reading = Reading("DuckDB", f"its files, whole ({reading.how})")
            else:
                reading = Reading("Spark", reading.how)
        for path in same:
            by_view.setdefault(path.view, reading)
        yield same, reading


def _looked_up(
    driver: DriverReader, names: set[str], same: Sequence[Lookup], by_view: Mapping[str, Reading]
) -> Reading:
    keys: dict[Key, list[pa.ChunkedArray]] = {}
    for path in same:
        via = by_view[path.via.view]
        if via.rows is None:
            why = {"arrangement": "whose arrangement is behind", "driver": "which the tick computes"}
            return Reading(via.by, f"the keys come from {path.via.view}, {why.get(via.by, f'which {via.by} reads')}")
        values = keys_for(path, via.rows)
        if values is None:
            return Reading("Spark", f"{path.via_key.name} of {path.via.view} has values that are not of its type")
        keys.setdefault(path.key, []).append(values)
    return driver.lookup(same[0].table, keys, names)
