"""Read a Kafka topic as a change feed. Each record is a Debezium envelope or a change in the simple form.

Each partition is ordered. Debezium writes all changes of a key to one partition. The changes of a key are therefore
ordered, too. Records in different partitions are ordered by the source's time. A poll reads at most ``MOST_RECORDS``
records. A poll stops at the end offsets that the topic had when the poll started.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from weft.algebra.schema import DataType, TableSchema
from weft.errors import ExtractionError, Refused
from weft.extraction.batches import Progress
from weft.extraction.files.columns import check_names, chosen_of
from weft.extraction.files.csv_sniff import infer_json
from weft.extraction.files.text_records import TextRecord, json_record
from weft.extraction.sources.feed import FeedReader, own_time, refuse_others, typed_changes
from weft.extraction.sources.feed_transactions import TransactionTimes, transaction_of
from weft.extraction.sources.kafka import (
    OFFSET,
    PARTITION,
    RECORDS,
    VALUE,
    Offsets,
    Topic,
    TopicExtent,
    extent_of_topic,
    records_between,
)
from weft.extraction.sources.snapshot import Chosen
from weft.extraction.sources.source_lease import Accepting, TableFeed
from weft.extraction.sources.subscribing import AGAIN
from weft.storage.changes import CHANGE_COLUMNS
from weft.storage.local_sql import connect

SCHEME: Final = "kafka://"
MOST_RECORDS: Final = 200_000
"""The maximum number of records that a poll reads into memory. An envelope with its schema takes a few kilobytes."""

_URI: Final = re.compile(r"kafka://(?P<servers>[\w.\-\[\]]+:\d+(?:,[\w.\-\[\]]+:\d+)*)/(?P<name>[A-Za-z0-9._-]{1,249})")


def topic_of(uri: str) -> Topic:
    """Return the Kafka topic that the URI names. Raise Refused for an invalid URI."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise Refused(
            "this is not the URI of a Kafka topic",
            where=uri,
            hint="Write, for example, kafka://broker.example:9092/shop.public.staff; commas separate several brokers.",
        )
    return Topic(match["servers"], match["name"])


def columns_of_topic(uri: str, table: str | None, chosen: Chosen) -> tuple[tuple[str, DataType], ...]:
    """Return the columns of the changes in the topic, inferred from the records of one poll.

    Raise NotFound if the topic does not exist, ExtractionError if it cannot be read, or Refused if it has no changes
    yet.
    """
    topic = topic_of(uri)
    extent = extent_of_topic(topic)
    end = bounded(extent.earliest, extent.latest, MOST_RECORDS)
    columns = inferred(records_between(topic, extent.earliest, end), table, uri)
    if not columns:
        raise Refused(
            "the topic has no changes yet, so it defines no columns" + (f" of {table}" if table else ""),
            where=uri,
            hint="Add the source after the first change, such as a Debezium snapshot.",
        )
    return columns if chosen is None else tuple(chosen_of(columns, chosen, uri))


def inferred(records: pa.Table, table: str | None, where: str) -> tuple[tuple[str, DataType], ...]:
    """Return the columns of the changes in the records."""
    reading = FeedReader(table)
    with connect() as connection:
        types = infer_json(_texts(in_order(records), reading), where, connection, CHANGE_COLUMNS)
    columns = tuple((each, kind) for each, kind in types.items() if each not in CHANGE_COLUMNS)
    check_names([each for each, _ in columns], where)
    return columns


def bounded(begin: Offsets, latest: Offsets, most: int) -> dict[int, int]:
    """Return the end offset of each partition for a poll of about ``most`` records. No offset exceeds ``latest``.

    Each partition gets a share of the ``most`` records in proportion to its waiting records.

    >>> bounded({0: 0, 1: 50}, {0: 900, 1: 150}, 100)
    {0: 90, 1: 60}
    """
    waiting = {each: latest[each] - begin[each] for each in latest}
    total = sum(waiting.values())
    if total <= most:
        return dict(latest)
    return {each: begin[each] + (count and max(1, count * most // total)) for each, count in waiting.items()}


def begin_of(seen: Mapping[str, Any], extent: TopicExtent, uri: str, name: str) -> dict[int, int]:
    """Return the start offset of each partition. A new partition starts at its earliest offset.

    Raise Refused if retention deleted unread records, or if the topic was created again.
    """
    if not seen:
        return dict(extent.earliest)
    offsets = {int(each): offset for each, offset in seen["offsets"].items()}
    if seen["topic_id"] != extent.topic_id or set(offsets) - set(extent.latest):
        raise Refused("the topic was deleted and created again", where=uri, hint=_again(name))
    begin = {}
    for each, earliest in extent.earliest.items():
        offset = begin[each] = offsets.get(each, earliest)
        if offset < earliest:
            raise Refused(
                f"the topic has deleted unread records of partition {each}: offsets {offset:,} to {earliest - 1:,}",
                where=uri,
                hint=_again(name),
            )
        if offset > extent.latest[each]:
            raise Refused(
                f"the last record that Weft read from partition {each} of the topic no longer exists: the "
                f"partition now ends at offset {extent.latest[each]:,}",
                where=uri,
                hint=_again(name),
            )
    return begin


def _again(name: str) -> str:
    commands = AGAIN.format(name=name).partition(":")[0]
    return f"{commands}: the history continues with the records in the topic. A new Debezium snapshot has all rows."


@dataclass(frozen=True)
class Taken:
    """A record of a topic with its sort key and transaction."""

    partition: int
    offset: int
    value: bytes | None
    own: int
    transaction: str | None


def in_order(records: pa.Table) -> list[Taken]:
    """Return the records ordered by the source's time. Records of one partition stay in order."""
    parts: dict[int, list[Taken]] = {}
    columns = (records.column(each).to_pylist() for each in (PARTITION, OFFSET, VALUE))
    for partition, offset, value in zip(*columns, strict=True):
        part = parts.setdefault(partition, [])
        own, transaction = _time_and_transaction(value)
        before = part[-1].own if part else 0
        part.append(Taken(partition, offset, value, max(before, own or 0), transaction))
    return list(heapq.merge(*parts.values(), key=lambda each: (each.own, each.partition, each.offset)))


def _time_and_transaction(value: bytes | None) -> tuple[int | None, str | None]:
    """Return the source's time (µs UTC) and the transaction of a change. An absent or unreadable value is None."""
    try:
        change = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None, None
    if isinstance(change, dict) and isinstance(change.get("payload"), dict):
        change = change["payload"]
    if not isinstance(change, dict):
        return None, None
    own = own_time(change)
    return (own if isinstance(own, int) else None), transaction_of(change)


def without_last(taken: Sequence[Taken]) -> list[Taken]:
    """Return the records without the last named transaction, which may be incomplete.

    Later records in the same partitions are left out, too. Return all records if the last record names no transaction.
    """
    last = next((each.transaction for each in reversed(taken) if each.value is not None), None)
    if last is None:
        return list(taken)
    cut: dict[int, int] = {}
    for each in taken:
        if each.transaction == last:
            cut[each.partition] = min(each.offset, cut.get(each.partition, each.offset))
    return [each for each in taken if each.offset < cut.get(each.partition, each.offset + 1)]


@dataclass
class TopicPoll:
    """One poll of a topic for all sources that follow it. Sources at the same offsets share the records.

    If the topic has not grown since the last poll, ``quiet`` is True.
    """

    uri: str
    extent: TopicExtent
    quiet: bool

    def __post_init__(self) -> None:
        self._read: dict[str, tuple[list[Taken], dict[int, int]]] = {}

    @classmethod
    def begun(cls, uri: str, seen: Sequence[Mapping[str, Any]]) -> TopicPoll:
        """Start a poll up to the current end offsets.

        Raises NotFound if the topic does not exist, or ExtractionError if the brokers do not answer.
        """
        extent = extent_of_topic(topic_of(uri))
        latest = _keyed(extent.latest)
        return cls(uri, extent, all(each and each["latest"] == latest for each in seen))

    def read(
        self,
        table: str | None,
        schema: TableSchema,
        chosen: Chosen,
        seen: Mapping[str, Any],
        keys: Sequence[str],
        accepting: Accepting,
        progress: Progress | None,
    ) -> TableFeed:
        """Return the changes of one table after the position ``seen``. Raises the errors of ``read_feed``."""
        begin = begin_of(seen, self.extent, self.uri, schema.name)
        taken, end = self._taken(begin)
        known = tuple((column.name, column.type) for column in schema.columns)
        added: tuple[tuple[str, DataType], ...] = ()
        if accepting.evolve:
            columns = inferred(_as_records(taken), table, self.uri)
            if chosen is not None:
                wanted = {name.lower() for name, _ in chosen}
                columns = tuple(each for each in columns if each[0].lower() in wanted)
            added = tuple(each for each in columns if schema.column(each[0]) is None)
        reading = FeedReader(table, keys, times=TransactionTimes(seen.get("transaction")))
        with connect() as connection:
            texts = _texts(taken, reading)
            rows, bad = typed_changes(texts, reading, (*known, *added), self.uri, connection, progress)
        rejected = [replace(each, position=_position(each.position, taken)) for each in bad]
        if rejected and not accepting.bad_lines:
            raise ExtractionError(
                f"{rejected[0].position} of the topic is not a change: {rejected[0].reason}"
                + (f" ({len(rejected):,} such records)" if len(rejected) > 1 else ""),
                where=self.uri,
                hint="Nothing was changed. To quarantine such records, use `--bad-lines quarantine`.",
            )
        if chosen is None:
            refuse_others(reading.names, (*known, *added), schema.name, self.uri)
        reached = {"topic_id": self.extent.topic_id, "offsets": _keyed(end), "latest": _keyed(self.extent.latest)}
        return TableFeed(lambda _: rows, added, {**reached, "transaction": reading.times.last}, rejected=rejected)

    def _taken(self, begin: Offsets) -> tuple[list[Taken], dict[int, int]]:
        name = json.dumps(_keyed(begin))
        if name not in self._read:
            end = bounded(begin, self.extent.latest, MOST_RECORDS)
            all_of_it = end == self.extent.latest
            records = records_between(topic_of(self.uri), begin, end)
            taken = in_order(records)
            held = taken if self.quiet and all_of_it else without_last(taken)
            if not held and not all_of_it:
                held = taken  # a single transaction exceeds the size of a poll
            self._read[name] = (held, _after(held, taken, end))
        return self._read[name]


def _after(held: Sequence[Taken], taken: Sequence[Taken], end: Offsets) -> dict[int, int]:
    """Return the next offset of each partition. ``held`` contains those records of ``taken`` that the poll uses.

    If a partition has no further record in ``taken``, its next offset is the one in ``end``.
    """
    now = {(each.partition, each.offset) for each in held}
    places = dict(end)
    for each in taken:
        if (each.partition, each.offset) not in now:
            places[each.partition] = min(places[each.partition], each.offset)
    return places


def _keyed(offsets: Offsets) -> dict[str, int]:
    return {str(each): offset for each, offset in sorted(offsets.items())}


def _as_records(taken: Sequence[Taken]) -> pa.Table:
    columns = [[each.partition for each in taken], [each.offset for each in taken], [each.value for each in taken]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RECORDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RECORDS)


def _texts(taken: Sequence[Taken], reading: FeedReader) -> Iterator[TextRecord]:
    """Yield the changes and the invalid records. The ``line`` of a record is its index in ``taken``."""
    for number, each in enumerate(taken):
        record = None if each.value is None else json_record(number, each.value, reading.parse)
        if record is not None:
            yield record


def _position(line: str, taken: Sequence[Taken]) -> str:
    record = taken[int(line.removeprefix("line "))]
    return f"partition {record.partition}, offset {record.offset}"
