"""Read the ledger, which contains each answer of each query once, in the order of appearance (design section 6).

A home has one ledger, a Delta table: ``query_id BIGINT, ordinal BIGINT, first_at TIMESTAMP, tick BIGINT, row_hash
BINARY, row ARRAY<STRING>``. The ordinals of a query are 1, 2, 3 … without a gap. A gap therefore reveals a lost row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from weft.algebra.schema import DataType
from weft.catalog import layout
from weft.catalog.records import QueryRecord
from weft.errors import FilesRemoved, StorageError
from weft.storage.data_files import ROW_GROUP_PROPERTY, file_batches
from weft.storage.delta_log import RESTORE_HINT, DataFile
from weft.storage.table import Table
from weft.storage.values import Value, decode
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

Stored: TypeAlias = "tuple[int, int, int, list[str | None]]"
"""The ordinal, the first instant (µs UTC), the tick and the stored texts of an answer."""
Spans: TypeAlias = "Mapping[int, tuple[int, int]]"
"""The first and the last wanted ordinal by the ID of the query."""
TicksWith: TypeAlias = "Callable[[int, int, int], Sequence[int] | None]"
"""Return the ticks, in order, that found the answers of a query (ID) with these ordinals, or None if unknown.

A tick writes the answers of many queries into a file, so the query IDs in a file do not select the files of one query.
"""
Ticks: TypeAlias = "Mapping[int, Sequence[int]]"
"""The ticks with the wanted answers by the ID of the query."""
_BATCH_ROWS: Final = 4_096
_COLUMNS: Final = ("ordinal", "first_at", "tick", "row")
_STATISTICS: Final = ("query_id", "ordinal", "first_at", "tick")
_ROW_GROUP: Final = 8_192


@dataclass(frozen=True)
class ResultRow:
    """An answer. ``first_at`` is the first instant of the answer (µs UTC), and ``values`` are in column order."""

    ordinal: int
    first_at: int
    tick: int
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Answers:
    """The query to which answers belong: home ID, query ID (None before installation), name and columns."""

    home_id: str
    query_id: int | None
    name: str
    columns: tuple[tuple[str, DataType], ...]


def read_rows(
    data: Store, query: QueryRecord, after: int = 0, limit: int | None = None, ticks: TicksWith | None = None
) -> Iterator[ResultRow]:
    """Yield at most ``limit`` committed answers with ordinals greater than ``after``, in order.

    With ``ticks``, read only files of the ticks that found them. The generator keeps one batch in memory, plus those
    rows that are out of order in a file. Raise StorageError if an answer is missing or occurs twice.
    """
    first = max(after, 0) + 1
    last = query.rows if limit is None else min(query.rows, first + limit - 1)
    if first > last:
        return
    ledger = _existing(data, [query])
    some = _ticks_with({query.query_id: (first, last)}, ticks)
    while first <= last:
        try:
            rows = _scan(ledger.files(), {query.query_id: (first, last)}, some)
            for row in _in_order((each[1:] for each in rows), query, first, last):
                yield row
                first = row.ordinal + 1
        except FilesRemoved:  # a purge or a compaction has moved the remaining answers
            continue


def read_latest(
    data: Store, queries: Collection[QueryRecord], count: int, ticks: TicksWith | None = None
) -> dict[int, tuple[ResultRow, ...]]:
    """Return the last ``count`` committed answers of each query by its ID, in order, from one pass over the ledger.

    With ``ticks``, read only files of the ticks that found them. Queries without answers are left out. Raise
    StorageError if an answer is missing or occurs twice.
    """
    answered = [query for query in queries if query.rows]
    spans = {query.query_id: (max(query.rows - count, 0) + 1, query.rows) for query in answered}
    ledger = _existing(data, answered) if answered else None
    some = _ticks_with(spans, ticks)
    while ledger is not None:
        stored: dict[int, list[Stored]] = {query_id: [] for query_id in spans}
        try:
            for query_id, *row in _scan(ledger.files(), spans, some):
                stored[query_id].append(tuple(row))  # type: ignore[arg-type]
        except FilesRemoved:
            continue
        return {
            query.query_id: tuple(_in_order(stored[query.query_id], query, *spans[query.query_id]))
            for query in answered
        }
    return {}


def _ticks_with(spans: Spans, ticks: TicksWith | None) -> Ticks:
    found = {} if ticks is None else {key: ticks(key, first, last) for key, (first, last) in spans.items()}
    return {key: some for key, some in found.items() if some is not None}


def _existing(data: Store, queries: Sequence[QueryRecord]) -> Table:
    ledger = Table(data / layout.LEDGER)
    if not ledger.exists():
        raise StorageError(
            f"the ledger in {ledger} is missing, but it should have {queries[0].rows} answers of {queries[0].name}",
            hint=RESTORE_HINT,
        )
    return ledger


def read_stored(
    data: Store, query: QueryRecord, ordinal: int, ticks: TicksWith | None = None
) -> tuple[int, int, list[str | None]]:
    """Return the first instant (µs UTC), the tick and the stored texts of one committed answer.

    Raise StorageError if the answer is missing.
    """
    ledger, spans = Table(data / layout.LEDGER), {query.query_id: (ordinal, ordinal)}
    for _, _, first_at, tick, row in _scan(ledger.files(), spans, _ticks_with(spans, ticks)):
        return first_at, tick, row
    raise StorageError(f"the answer {ordinal} of {query.name} is not in the ledger", hint=RESTORE_HINT)


def answer_files(data: Store, query: QueryRecord) -> list[DataFile]:
    """Return the files of the ledger that may contain committed answers of the query, ordered by tick."""
    return (
        [file for file, _ in _relevant(Table(data / layout.LEDGER).files(), _all_of(query), {})] if query.rows else []
    )


def answers_in(files: Iterable[DataFile], query: QueryRecord) -> Iterator[ResultRow]:
    """Yield the committed answers of the query in the files, in any order."""
    types = [type_ for _, type_ in query.columns]
    for _, ordinal, first_at, tick, row in _scan(files, _all_of(query)):
        yield ResultRow(ordinal, *_decoded((first_at, tick, row), types))


def _all_of(query: QueryRecord) -> Spans:
    return {query.query_id: (1, query.rows)}


def _in_order(rows: Iterable[Stored], query: QueryRecord, first: int, last: int) -> Iterator[ResultRow]:
    types = [type_ for _, type_ in query.columns]
    expected = first
    waiting: dict[int, tuple[int, int, list[str | None]]] = {}
    for ordinal, first_at, tick, row in rows:
        if ordinal < expected or ordinal in waiting:
            raise StorageError(f"the answer {ordinal} of {query.name} is in the ledger twice", hint=RESTORE_HINT)
        waiting[ordinal] = (first_at, tick, row)
        while expected in waiting:
            yield ResultRow(expected, *_decoded(waiting.pop(expected), types))
            expected += 1
    if expected <= last:
        raise StorageError(f"the answer {expected} of {query.name} is not in the ledger", hint=RESTORE_HINT)


def _decoded(
    stored: tuple[int, int, list[str | None]], types: Sequence[DataType]
) -> tuple[int, int, tuple[Value, ...]]:
    first_at, tick, row = stored
    return first_at, tick, decode(row, types)


@dataclass(frozen=True)
class Added:
    """The number of answers that one commit added for a query, and the greatest first instant of the answers."""

    rows: int
    last_first_at: int


def ledger_schema(*names: str) -> pa.Schema:
    """Return the Arrow schema of the ledger. ``names`` selects columns but not their order."""
    import pyarrow

    every = pyarrow.schema(
        [
            ("query_id", pyarrow.int64()),
            ("ordinal", pyarrow.int64()),
            ("first_at", pyarrow.timestamp("us", "UTC")),
            ("tick", pyarrow.int64()),
            ("row_hash", pyarrow.binary()),
            ("row", pyarrow.list_(pyarrow.string())),
        ]
    )
    return pyarrow.schema([field for field in every if not names or field.name in names])


def require_ledger(data: Store) -> Table:
    """Return the ledger. Create an empty ledger if it does not exist.

    The ledger must exist, because a fence needs a table with a log. Raise StorageError if the ledger cannot be created.
    """
    ledger = Table(data / layout.LEDGER)
    if not ledger.exists():
        from weft.storage.statistics import COLUMNS_PROPERTY, named_columns

        # The answers of a page are few rows: with row groups of the usual size, it would decode four times as much.
        properties = {COLUMNS_PROPERTY: named_columns(_STATISTICS), ROW_GROUP_PROPERTY: str(_ROW_GROUP)}
        ledger.ensure(ledger_schema(), properties)
    return ledger


def added_by_query(data: Store, version: int) -> dict[int, Added]:
    """Return the answers that a commit added to the ledger, by query ID. Raise StorageError if the log is damaged."""
    rows: Counter[int] = Counter()
    last: dict[int, int] = {}
    schema = ledger_schema("query_id", "first_at")
    ledger = Table(data / layout.LEDGER)
    for batch in ledger.scan(schema, files=ledger.entry(version).added):
        instants = batch.column("first_at").cast("int64").to_pylist()
        for query_id, first_at in zip(batch.column("query_id").to_pylist(), instants, strict=True):
            rows[query_id] += 1
            last[query_id] = max(first_at, last.get(query_id, first_at))
    return {query_id: Added(rows[query_id], last[query_id]) for query_id in rows}


def _relevant(files: Iterable[DataFile], spans: Spans, ticks: Ticks) -> Iterator[tuple[DataFile, Spans]]:
    """Yield the files that may contain wanted answers, by tick, each with those spans of which it may contain some.

    ``ticks`` are the ticks with the wanted answers of a query, if they are known.
    """
    for file in sorted(
        files, key=lambda each: (each.least.get("tick", 0), each.least.get("ordinal", 0), each.location)
    ):
        held = {
            key: (first, last)
            for key, (first, last) in spans.items()
            if file.may_hold("query_id", key, key)
            and file.may_hold("ordinal", first, last)
            and (key not in ticks or file.may_hold_any("tick", ticks[key]))
        }
        if held:
            yield file, held


def _scan(
    files: Iterable[DataFile], spans: Spans, ticks: Ticks = MappingProxyType({})
) -> Iterator[tuple[int, int, int, int, list[str | None]]]:
    """Yield the ID of the query and the stored parts of each wanted answer, file by file."""
    schema = ledger_schema("query_id", *_COLUMNS)
    for file, held in _relevant(files, spans, ticks):
        for batch in file_batches(file, schema, _within(held), _BATCH_ROWS):
            query_id, ordinal, first_at, tick, row = (batch.column(name) for name in ("query_id", *_COLUMNS))
            instants = first_at.cast("int64").to_pylist()
            numbers = (query_id.to_pylist(), ordinal.to_pylist(), instants, tick.to_pylist())
            yield from zip(*numbers, row.to_pylist(), strict=True)


def _within(spans: Spans) -> pc.Expression:
    """Return the condition for the answers of queries (IDs) with ordinals from the first to the last."""
    import pyarrow.compute as pc

    query_id, ordinal = pc.field("query_id"), pc.field("ordinal")
    each = [(query_id == key) & (ordinal >= first) & (ordinal <= last) for key, (first, last) in spans.items()]
    return reduce(or_, each)
