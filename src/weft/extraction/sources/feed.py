"""Read change feeds: JSON lines in commit order, each with one change of a row.

A change has one of two forms. A change in the simple form has ``op`` (I, U or D), ``key``, ``row``, ``time`` and
optionally ``table``. ``row`` has the columns outside the key, and is absent for a deletion (D). ``time`` is ISO 8601 or
a number in µs.

A change may also be a Debezium envelope, either bare or in the field ``payload``. An envelope has ``op`` (c, r, u or
d), ``before``, ``after`` and ``source``. The time of an envelope is ``ts_us`` or ``ts_ms`` of the source, or ``ts_ms``
of the envelope. Tombstones (null lines) are skipped.

A change in either form may name its transaction. The simple form has ``tx``, and an envelope has ``source.txId`` or
``transaction.id``. Changes without a named transaction form one transaction if they have the same time.

A poll leaves an incomplete last line for the next poll.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from weft.algebra.schema import BIGINT, STRING, DataType, TableSchema
from weft.errors import Refused
from weft.extraction.batches import Batch, Progress, RejectedRecord, printable
from weft.extraction.byte_streams import COMPRESSED, plain
from weft.extraction.files.columns import check_names, chosen_of
from weft.extraction.files.csv_sniff import infer_json
from weft.extraction.files.rows import Caster, Layout, OwnTimes
from weft.extraction.files.text_records import TextRecord, json_records
from weft.extraction.paths import opened
from weft.extraction.sources.feed_transactions import (
    TransactionTimes,
    end_of_lines,
    end_of_transactions,
    transaction_of,
)
from weft.extraction.sources.snapshot import Chosen, Mark, refuse_rejected
from weft.extraction.sources.source_lease import Accepting, TableFeed
from weft.instants import FIRST_INSTANT, LAST_INSTANT, read_instant
from weft.storage.changes import CHANGE_COLUMNS, DELETE, OP, ORDER, OWN, change_schema
from weft.storage.columns import arrow_type
from weft.storage.local_sql import connect

if TYPE_CHECKING:
    import duckdb

_HEAD: Final = 1 << 16
_ASIDE: Final = "Nothing was changed. To quarantine such lines, use `--bad-lines quarantine`."
_SIMPLE: Final = {"I": "U", "U": "U", "D": DELETE}
_DEBEZIUM: Final = {"c": "U", "r": "U", "u": "U", "d": DELETE}


@dataclass
class FeedReader:
    """Converts the JSON of a line to the cells of a change.

    ``table`` selects the changes of one table. If ``table`` is None, all changes are selected. ``keys`` are the columns
    that every change must have. ``names`` contains the columns of all changes read so far. ``skip`` is the number of
    changes still to skip. ``read`` is the number of converted changes. ``place`` is the number of parsed lines.
    """

    table: str | None = None
    keys: Sequence[str] = ()
    skip: int = 0
    read: int = 0
    place: int = 0
    names: dict[str, None] = field(default_factory=dict)
    times: TransactionTimes = field(default_factory=TransactionTimes)

    def parse(self, message: Any) -> dict[str, Any] | str | None:
        """Return the cells of a change, or a text that describes the problem with the line.

        Return None if the line contains no change of the selected table.
        """
        self.place += 1
        if isinstance(message, dict) and isinstance(message.get("payload"), dict):
            message = message["payload"]
        if message is None:
            return None
        if not isinstance(message, dict) or "op" not in message:
            return "not a change: the object has no op"
        change = _debezium(message) if "source" in message or "after" in message else _simple(message)
        if isinstance(change, str):
            return change
        table, op, own, row = change
        own = self.times.of(transaction_of(message), own)
        if self.table is not None and table != self.table:
            return None
        unnamed = _unnamed(self.keys, row)
        if unnamed:
            return f"not a change of one row: the key columns {', '.join(unnamed)} are missing"
        if self.skip:
            self.skip -= 1
            return None
        self.read += 1
        self.names.update(dict.fromkeys(row))
        return {**row, OP: op, OWN: own, ORDER: self.place}


Change = tuple["str | None", str, "int | None", dict[str, Any]]


def _unnamed(keys: Sequence[str], row: Mapping[str, Any]) -> list[str]:
    """Return the key columns that are missing in a row. A key column may be NULL."""
    missing = [key for key in keys if key not in row]
    if not missing:
        return missing
    there = {name.lower() for name in row}
    return [key for key in missing if key.lower() not in there]


def _simple(change: Mapping[str, Any]) -> Change | str:
    op = _SIMPLE.get(str(change["op"]))
    key, row = change.get("key"), change.get("row") or {}
    if op is None or not isinstance(key, dict) or not isinstance(row, dict):
        return "not a change: op (I, U or D), key and row are required"
    own = _instant(change.get("time"))
    if isinstance(own, str):
        return own
    return change.get("table"), op, own, dict(key) if op == DELETE else {**key, **row}


def _debezium(change: Mapping[str, Any]) -> Change | str:
    if change["op"] == "t":
        return "the table was truncated, but a feed does not list the deleted rows"
    op, source = _DEBEZIUM.get(str(change["op"])), change.get("source") or {}
    row = change.get("before" if op == DELETE else "after")
    if op is None or not isinstance(row, dict) or not isinstance(source, dict):
        return "not a change: op (c, r, u or d) and the row before or after the change are required"
    own = own_time(change)
    return own if isinstance(own, str) else (source.get("table"), op, own, dict(row))


def own_time(change: Mapping[str, Any]) -> int | str | None:
    """Return the time in a change of either form, in microseconds UTC.

    If the change has no time, return None. If the time is invalid, return a text that describes the problem.
    """
    source = change.get("source")
    if not isinstance(source, dict):
        source = {}
    if "time" in change and "source" not in change and "after" not in change:
        return _instant(change["time"])
    times = ((source.get("ts_us"), 1), (source.get("ts_ms"), 1_000), (change.get("ts_ms"), 1_000))
    time, scale = next((each for each in times if each[0] is not None), (None, 1))
    return _instant(time, scale)


def _instant(time: Any, scale: int = 1) -> int | str | None:
    """Return a time in microseconds UTC. If the time is invalid, return a text that describes the problem.

    ``time`` is ISO 8601, or a number in units of ``scale`` microseconds.
    """
    if time is None:
        return None
    text = str(time)
    digits = text.removeprefix("-")
    own = int(text) * scale if digits.isascii() and digits.isdigit() else read_instant(text)
    if own is None or not FIRST_INSTANT <= own <= LAST_INSTANT:
        return f"not an instant: {text[:40]!r}"
    return own


def columns_of_feed(path: Path, table: str | None, chosen: Chosen) -> tuple[tuple[str, DataType], ...]:
    """Return the columns of a feed, inferred from all of its changes.

    Raises NotFound if the file does not exist, ExtractionError if it cannot be read, or Refused if a column is not
    allowed.
    """
    Mark.of(path)
    name = printable(str(path))
    with _opened(path, 0, None) as stream, connect() as connection:
        types = infer_json(json_records(stream, FeedReader(table).parse), name, connection, CHANGE_COLUMNS)
    columns = [(each, kind) for each, kind in types.items() if each not in CHANGE_COLUMNS]
    if chosen is not None:
        columns = chosen_of(columns, chosen, name)
    check_names([each for each, _ in columns], name)
    return tuple(columns)


@dataclass(frozen=True)
class FeedExtent:
    """The part of a feed that a poll reads, up to byte ``end``. For a compressed file, ``end`` is None.

    ``mark`` contains the size and the modification time of the file.
    """

    mark: tuple[int, int]
    end: int | None


def extent_of_feed(path: Path, seen: Sequence[Mapping[str, Any]]) -> FeedExtent:
    """Return the part of a feed that a poll of all its sources reads. ``seen`` contains the position of each source.

    The last named transaction may be incomplete. The last transaction is therefore read only if the file has not grown
    since the last poll. Raises NotFound if the file does not exist, or ExtractionError if it cannot be read.
    """
    file_mark = Mark.of(path)
    mark = (file_mark.size, file_mark.modified_ns)
    with opened(path) as file:
        if file.read(6).startswith(COMPRESSED):
            return FeedExtent(mark, None)
        end = end_of_lines(file)
        quiet = all(each and tuple(each["mark"]) == mark for each in seen)
        return FeedExtent(mark, end if quiet else end_of_transactions(file, end))


def read_feed(
    path: Path,
    extent: FeedExtent,
    table: str | None,
    schema: TableSchema,
    chosen: Chosen,
    seen: Mapping[str, Any],
    *,
    keys: Sequence[str],
    accepting: Accepting,
    progress: Progress | None = None,
) -> TableFeed:
    """Return the changes after the position ``seen``. ``schema`` has only the columns of the source, with their types.

    ``keys`` are the key columns. Raises ExtractionError for an invalid line unless ``accepting`` allows invalid lines.
    Raises Refused for columns that are not in the table.
    """
    name, end = printable(str(path)), extent.end
    known = tuple((column.name, column.type) for column in schema.columns)
    before: Mapping[str, Any] = seen if seen and _head(path, seen["head_size"]) == seen["head"] else {}
    if before and [*extent.mark] == seen["mark"] and end in (None, seen["end"]):
        return _table_feed(_typed(None, known), (), seen)
    begin = before.get("end") or 0
    reading = FeedReader(table, keys, skip=before.get("read", 0) if end is None else 0)
    if end is not None:
        end = max(begin, end)
        reading.place, reading.times = before.get("place", 0), TransactionTimes(before.get("transaction"))
    columns = columns_of_feed(path, table, chosen) if accepting.evolve else ()
    added = tuple(each for each in columns if schema.column(each[0]) is None)
    with _opened(path, begin, end) as stream, connect() as connection:
        texts = json_records(stream, reading.parse)
        rows, found_bad = typed_changes(texts, reading, (*known, *added), name, connection, progress)
    after = f" after byte {begin}" if begin else ""
    rejected = [replace(each, position=f"{each.position}{after}") for each in found_bad]
    if rejected and not accepting.bad_lines:
        refuse_rejected(Batch(rows, tuple(rejected), 0), name, _ASIDE)
    if chosen is None:
        refuse_others(reading.names, (*known, *added), schema.name, name)
    size = min(extent.mark[0] if end is None else end, _HEAD)
    reached = {"mark": [*extent.mark], "head": _head(path, size), "head_size": size, "end": end}
    counted = {"read": reading.read + before.get("read", 0), "place": reading.place}
    return replace(
        _table_feed(rows, added, {**reached, **counted, "transaction": reading.times.last}), rejected=rejected
    )


def _table_feed(rows: pa.Table, added: tuple[tuple[str, DataType], ...], seen: Mapping[str, Any]) -> TableFeed:
    return TableFeed(lambda _: rows, added, seen)


def typed_changes(
    texts: Iterable[TextRecord],
    reading: FeedReader,
    columns: tuple[tuple[str, DataType], ...],
    name: str,
    connection: duckdb.DuckDBPyConnection,
    progress: Progress | None,
) -> tuple[pa.Table, list[RejectedRecord]]:
    """Return the changes, cast to the types of ``columns``, and the rejected lines."""
    every = (*columns, (OP, STRING), (OWN, BIGINT), (ORDER, BIGINT))
    names = tuple(each for each, _ in every)
    caster = Caster(Layout("json", names, ("VARCHAR",) * len(names)), OwnTimes(), every, name)
    pieces = []
    rejected: list[RejectedRecord] = []
    for batch in caster.text_batches(texts, connection):
        rejected += batch.rejected
        pieces.append(batch.rows)
        if progress is not None:
            progress(reading.read)
    return _typed(pa.concat_tables(pieces) if pieces else None, columns), rejected


def _typed(rows: pa.Table | None, columns: tuple[tuple[str, DataType], ...]) -> pa.Table:
    schema = change_schema(pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns]))
    return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)


def refuse_others(names: Mapping[str, None], columns: tuple[tuple[str, DataType], ...], table: str, where: str) -> None:
    """Raise Refused if ``names`` contains a column that is not in the table."""
    there = {name.lower() for name, _ in columns}
    others = [name for name in names if name.lower() not in there]
    if others:
        raise Refused(
            f"the feed has columns that {table} lacks: {', '.join(others)}",
            where=where,
            hint=f"Nothing was changed. `weft source poll {table} --evolve` adds these columns.",
        )


class _Part(io.RawIOBase):
    """A raw stream of the next ``left`` bytes of a file, or of all following bytes if ``left`` is None."""

    def __init__(self, file: io.FileIO, left: int | None) -> None:
        self._file = file
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer) if self._left is None else min(len(buffer), self._left)) or b""
        if self._left is not None:
            self._left -= len(chunk)
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextmanager
def _opened(path: Path, begin: int, end: int | None) -> Iterator[io.BufferedReader]:
    with opened(path) as raw:
        raw.seek(begin)
        yield plain(_Part(raw, None if end is None else end - begin))


def _head(path: Path, size: int) -> str:
    with opened(path) as file:
        return hashlib.sha256(file.read(size)).hexdigest()
