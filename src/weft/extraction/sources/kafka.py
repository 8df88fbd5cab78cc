"""Read the offsets of Kafka topics, and the records between two offsets.

The client is confluent-kafka, an optional package. Records of aborted or open transactions are not read. The client
joins no consumer group and stores no offsets in Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from weft.errors import ExtractionError, NotFound
from weft.interruption import stop_here

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

PARTITION: Final = "partition"
OFFSET: Final = "offset"
VALUE: Final = "value"
RECORDS: Final = pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64()), (VALUE, pa.binary())])

_PATIENCE_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.2
_BATCH: Final = 10_000

Offsets = Mapping[int, int]
"""Maps each partition to the offset of the next record to read."""


@dataclass(frozen=True)
class Topic:
    """A Kafka topic: the brokers as comma-separated ``host:port``, and the topic's name."""

    servers: str
    name: str


@dataclass(frozen=True)
class TopicExtent:
    """The identity of a topic and the offsets of its records.

    Each partition has the records with ``earliest`` <= offset < ``latest``. If a topic is deleted and created again,
    ``topic_id`` changes.
    """

    topic_id: str
    earliest: Offsets
    latest: Offsets


def extent_of_topic(topic: Topic) -> TopicExtent:
    """Return the current identity and offsets of a topic.

    Raise NotFound if the topic does not exist. Raise ExtractionError if no broker answers.
    """
    with _client(topic) as common:
        from confluent_kafka import TopicCollection, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        admin = AdminClient(common)
        try:
            described = admin.describe_topics(TopicCollection([topic.name]), request_timeout=_PATIENCE_SECONDS)
            known = described[topic.name].result()
            places = [TopicPartition(topic.name, each.id) for each in known.partitions]
            earliest, latest = (_offsets(admin, places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        finally:
            admin.poll(0)  # reports the errors of connections
        return TopicExtent(str(known.topic_id), earliest, latest)


def _offsets(admin: AdminClient, places: Sequence[TopicPartition], spec: OffsetSpec) -> Offsets:
    """Return the offsets that ``spec`` names. While a partition has no leader, ask again."""
    from confluent_kafka import IsolationLevel, KafkaException

    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found = admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_PATIENCE_SECONDS,
        )
        try:
            return {place.partition: future.result().offset for place, future in found.items()}
        except KafkaException as problem:
            if not _has_new_leader(problem.args[0]) or time.monotonic() > until:
                raise
        stop_here()
        time.sleep(_POLL_SECONDS)


def _has_new_leader(error: KafkaError) -> bool:
    """Return whether a partition has no leader, or one that the client or the broker does not know yet."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )


@dataclass
class _Records:
    """The records of one partition up to the offset ``end``."""

    end: int
    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    complete: bool = False


def records_between(topic: Topic, begin: Offsets, end: Offsets) -> pa.Table:
    """Return the records of each partition with ``begin`` <= offset < ``end``.

    The columns are those of RECORDS. The rows are sorted by partition and offset. ``begin`` and ``end`` must have the
    same partitions. The value of a record without a value is NULL. Raise ExtractionError if the topic no longer has all
    of these records, or if no broker answers.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _records_between(topic, begin, end)
        except _NewLeader as change:
            if time.monotonic() > until:
                raise _unreadable(change.error, topic) from None
        stop_here()
        time.sleep(_POLL_SECONDS)


def _records_between(topic: Topic, begin: Offsets, end: Offsets) -> pa.Table:
    read = {each: _Records(end[each]) for each in sorted(begin) if begin[each] < end[each]}
    if not read:
        return RECORDS.empty_table()
    with _client(topic) as common, _consumer(common) as consumer:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(topic.name, each, begin[each]) for each in read])
        waiting, until = set(read), time.monotonic() + _PATIENCE_SECONDS
        while waiting:
            stop_here()
            # Wait for one message, and take all others that are there.
            messages = [*consumer.consume(1, _POLL_SECONDS), *consumer.consume(_BATCH, 0)]
            for message in messages:
                _take(message, read, topic)
            complete = {each for each in waiting if read[each].complete}
            consumer.pause([TopicPartition(topic.name, each) for each in complete])
            waiting -= complete
            if messages:
                until = time.monotonic() + _PATIENCE_SECONDS
            elif time.monotonic() > until:
                raise _Silence
    return pa.concat_tables(map(_table, read, read.values()))


def _take(message: Message, read: Mapping[int, _Records], topic: Topic) -> None:
    """Add a record to its partition, or note that the partition has no further record before its end.

    The last offsets before the end may have no record: compaction removed it, or the offset marks a transaction's end.
    """
    from confluent_kafka import KafkaError

    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise _NewLeader(error) if _has_new_leader(error) else _unreadable(error, topic)
    part, offset = read[message.partition()], message.offset()
    if error is None and offset < part.end:
        part.offsets.append(offset)
        part.values.append(message.value())
    following = offset if error is not None else offset + 1
    part.complete = part.complete or following >= part.end


def _table(partition: int, part: _Records) -> pa.Table:
    columns = ([partition] * len(part.offsets), part.offsets, part.values)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, RECORDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RECORDS)


@contextmanager
def _consumer(common: Mapping[str, Any]) -> Iterator[Consumer]:
    """Yield a consumer outside any group, and close the consumer after the ``with`` block."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            **common,
            "group.id": "weft",  # required, but only a consumer that subscribes joins the group
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


class _NewLeader(Exception):
    """The leader of a partition changes.  The client does not continue by itself in all cases."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


class _Silence(Exception):
    """No message came for ``_PATIENCE_SECONDS``."""


@contextmanager
def _client(topic: Topic) -> Iterator[dict[str, Any]]:
    """Yield the settings of a client. Errors of Kafka in the ``with`` block become errors with an explanation."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        raise ExtractionError(
            "reading Kafka requires confluent-kafka, which is not installed", hint="Run pip install 'weft[kafka]'."
        ) from None
    # The client repeats what fails. Its complaints matter only if a request fails in the end.
    complaints: list[str] = []
    try:
        yield {
            "bootstrap.servers": topic.servers,
            "client.id": "weft",
            "error_cb": lambda error: complaints.append(error.str()),
            "log_level": 0,
        }
    except _Silence:
        raise _no_answer(topic, complaints) from None
    except KafkaException as problem:
        raise _explained(problem.args[0], topic, complaints) from None


def _explained(error: KafkaError, topic: Topic, complaints: Sequence[str]) -> ExtractionError | NotFound:
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION):
        return NotFound(
            f"the topic {topic.name!r} does not exist",
            where=topic.servers,
            hint="Check the name of the topic; Weft creates no topics.",
        )
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return _no_answer(topic, complaints)
    return _unreadable(error, topic)


def _no_answer(topic: Topic, complaints: Sequence[str]) -> ExtractionError:
    reason = f": {complaints[-1]}" if complaints else ""
    return ExtractionError(
        f"no Kafka broker answers for the topic {topic.name!r}{reason}",
        where=topic.servers,
        hint="Check that a broker runs, and that the broker advertises an address that this machine can reach.",
    )


def _unreadable(error: KafkaError, topic: Topic) -> ExtractionError:
    return ExtractionError(f"the topic {topic.name!r} cannot be read: {error.str()}", where=topic.servers)
