"""Read the offsets of Kafka topics, and the records between two offsets, through Spark's connector.

The Kafka client in the connector asks the brokers for the offsets. Spark would read the whole topic to find the
offsets. Records of aborted or open transactions are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from weft.errors import ExtractionError, NotFound
from weft.runtime.session import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION: Final = "partition"
OFFSET: Final = "offset"
VALUE: Final = "value"
RECORDS: Final = pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64()), (VALUE, pa.binary())])
_PATIENCE_MS: Final = 20_000

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


def extent_of_topic(session: SparkSession, topic: Topic) -> TopicExtent:
    """Return the current identity and offsets of a topic.

    Raise NotFound if the topic does not exist. Raise ExtractionError if no broker answers.
    """
    with plain_errors(f"asking for the topic {topic.name}"), _answers(topic):
        kafka = session.sparkContext._jvm.org.apache.kafka  # type: ignore[union-attr]  # no public way leads to it
        java = session.sparkContext._jvm.java.util  # type: ignore[union-attr]
        settings = java.Properties()
        settings.setProperty("bootstrap.servers", topic.servers)
        settings.setProperty("default.api.timeout.ms", str(_PATIENCE_MS))
        settings.setProperty("request.timeout.ms", str(_PATIENCE_MS // 2))
        admin = kafka.clients.admin.Admin.create(settings)
        try:
            descriptions = admin.describeTopics(java.Collections.singletonList(topic.name)).allTopicNames().get()
            topic_description = descriptions.get(topic.name)
            partitions = [each.partition() for each in topic_description.partitions()]
            earliest = _offsets(admin, kafka, java, topic, partitions, kafka.clients.admin.OffsetSpec.earliest())
            latest = _offsets(admin, kafka, java, topic, partitions, kafka.clients.admin.OffsetSpec.latest())
            return TopicExtent(topic_description.topicId().toString(), earliest, latest)
        finally:
            admin.close()


def _offsets(admin: Any, kafka: Any, java: Any, topic: Topic, partitions: list[int], spec: Any) -> dict[int, int]:
    places = {each: kafka.common.TopicPartition(topic.name, each) for each in partitions}
    request = java.HashMap()
    for place in places.values():
        request.put(place, spec)
    committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
    offsets = admin.listOffsets(request, committed).all().get()
    return {each: int(offsets.get(place).offset()) for each, place in places.items()}


def records_between(session: SparkSession, topic: Topic, begin: Offsets, end: Offsets) -> pa.Table:
    """Return the records of each partition with ``begin`` <= offset < ``end``.

    The columns are those of RECORDS. The rows are sorted by partition and offset. ``begin`` and ``end`` must have the
    same partitions. The value of a record without a value is NULL. Raise ExtractionError if the topic no longer has all
    of these records.
    """
    wanted = [each for each in begin if begin[each] < end[each]]
    if not wanted:
        return RECORDS.empty_table()
    with plain_errors(f"reading the topic {topic.name}"):
        read = session.read.format("kafka").option("kafka.bootstrap.servers", topic.servers)
        read = read.option("assign", json.dumps({topic.name: wanted}))
        for option, offsets in (("startingOffsets", begin), ("endingOffsets", end)):
            read = read.option(option, json.dumps({topic.name: {str(each): offsets[each] for each in wanted}}))
        read = read.option("failOnDataLoss", "true").option("kafka.isolation.level", "read_committed")
        records = read.load().select(PARTITION, OFFSET, VALUE).toArrow()
    return records.cast(RECORDS).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


@contextmanager
def _answers(topic: Topic) -> Iterator[None]:
    """Turn a broker's refusal into an error with an explanation."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        message = str(error)
        if "UnknownTopicOrPartition" in message or "InvalidTopic" in message:
            raise NotFound(
                f"the topic {topic.name!r} does not exist",
                where=topic.servers,
                hint="Check the name of the topic; Weft creates no topics.",
            ) from None
        if "Timeout" in message or "bootstrap" in message:
            raise ExtractionError(
                f"no Kafka broker answers for the topic {topic.name!r}",
                where=topic.servers,
                hint="Check that a broker runs, and that the broker advertises an address that this machine can reach.",
            ) from None
        raise
