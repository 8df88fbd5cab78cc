"""What Weft reads from a real Kafka broker: transactions, compaction, retention, and what goes wrong."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_broker import create_topic, kafka_broker
from scenario.test_topic import Shop, poll, require_laws
from weft.api import Weft
from weft.errors import ExtractionError, NotFound
from weft.extraction.sources import kafka
from weft.extraction.sources.kafka import RECORDS, Topic, extent_of_topic, records_between


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafka_broker() as server:
        yield server


def read(topic: Topic) -> list[tuple[int, int, bytes | None]]:
    """Return all records of a topic: partition, offset, value."""
    extent = extent_of_topic(topic)
    records = records_between(topic, extent.earliest, extent.latest)
    assert records.schema == RECORDS
    return [tuple(row.values()) for row in records.to_pylist()]


def put(server: str, topic: str, *records: tuple[str, str | None], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": server})
    for key, value in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(60) == 0


def test_records_are_read_between_offsets_of_each_partition(broker: str) -> None:
    create_topic(broker, "plain", 3)
    topic = Topic(broker, "plain")
    assert extent_of_topic(topic).latest == {0: 0, 1: 0, 2: 0} and read(topic) == []
    for partition in (0, 2):
        put(broker, "plain", *((str(n), str(n)) for n in range(5)), ("1", None), partition=partition)
    values = [*(str(n).encode() for n in range(5)), None]
    assert read(topic) == [(partition, n, value) for partition in (0, 2) for n, value in enumerate(values)]
    some = records_between(topic, {0: 1, 1: 0, 2: 5}, {0: 3, 1: 0, 2: 6})
    assert some.to_pydict() == {"partition": [0, 0, 2], "offset": [1, 2, 5], "value": [b"1", b"2", None]}
    assert records_between(topic, {0: 6}, {0: 6}).num_rows == 0


def test_a_read_begins_again_while_a_partition_gets_a_leader(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic(broker, "leaders", 1)
    put(broker, "leaders", ("a", "1"), ("b", "2"), ("c", "3"), partition=0)
    usual, left = kafka._take, [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH]

    def take(*given: Any) -> None:
        usual(*given)
        if left:
            raise kafka._NewLeader(KafkaError(left.pop()))

    monkeypatch.setattr(kafka, "_take", take)
    assert [value for _, _, value in read(Topic(broker, "leaders"))] == [b"1", b"2", b"3"]
    assert not left
    left.append(KafkaError.UNKNOWN_LEADER_EPOCH)
    monkeypatch.setattr(kafka, "_PATIENCE_SECONDS", -1)
    with pytest.raises(ExtractionError, match="'leaders' cannot be read"):
        records_between(Topic(broker, "leaders"), {0: 0}, {0: 3})


def test_only_records_of_committed_transactions_are_read(broker: str) -> None:
    create_topic(broker, "transactions", 1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "shop"})
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for part in "ab":
            producer.produce("transactions", f"{number}{part}")
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    assert [value for _, _, value in read(Topic(broker, "transactions"))] == [b"0a", b"0b", b"2a", b"2b"]
    producer.begin_transaction()
    producer.produce("transactions", "open")
    producer.flush()
    # The aborted transactions and the marks of their ends are the last offsets before the end.
    assert extent_of_topic(Topic(broker, "transactions")).latest == {0: 12}
    assert [offset for _, offset, _ in read(Topic(broker, "transactions"))] == [0, 1, 6, 7]
    producer.commit_transaction()
    assert read(Topic(broker, "transactions"))[-1] == (0, 12, b"open")


def test_a_compacted_topic_has_gaps(broker: str) -> None:
    create_topic(broker, "compacted", 1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    topic = Topic(broker, "compacted")
    put(broker, "compacted", *(("same", str(n)) for n in range(50)), ("other", "x"))
    until = time.monotonic() + 60
    while len(found := read(topic)) > 10:
        assert time.monotonic() < until, "the topic was not compacted"
        put(broker, "compacted", ("last", "y"))  # closes a segment
        time.sleep(0.2)
    kept = {value: offset for _, offset, value in found}
    assert (kept[b"49"], kept[b"x"]) == (49, 50) and b"0" not in kept
    assert extent_of_topic(topic).earliest == {0: 0}
    assert records_between(topic, {0: 3}, {0: 40}).num_rows == 0


def test_deleted_records_are_not_passed_over(broker: str) -> None:
    create_topic(broker, "deleted", 1)
    topic = Topic(broker, "deleted")
    put(broker, "deleted", *((str(n), str(n)) for n in range(9)))
    admin = AdminClient({"bootstrap.servers": broker})
    for deleted in admin.delete_records([TopicPartition("deleted", 0, 4)]).values():
        deleted.result(60)
    assert extent_of_topic(topic).earliest == {0: 4} and len(read(topic)) == 5
    with pytest.raises(ExtractionError, match=r"cannot be read: .* not available"):
        records_between(topic, {0: 3}, {0: 9})


def test_a_topic_that_is_not_there_is_named(broker: str) -> None:
    with pytest.raises(NotFound, match="the topic 'none' does not exist"):
        extent_of_topic(Topic(broker, "none"))


def test_a_broker_that_is_away_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka, "_PATIENCE_SECONDS", 1.0)
    away = Topic("127.0.0.1:9", "shop")
    for ask in (lambda: extent_of_topic(away), lambda: records_between(away, {0: 0}, {0: 1})):
        with pytest.raises(ExtractionError, match=r"no Kafka broker answers .*refused") as refusal:
            ask()
        assert refusal.value.where == "127.0.0.1:9"
    assert capfd.readouterr() == ("", "")


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ExtractionError, match="requires confluent-kafka") as refusal:
        extent_of_topic(Topic("127.0.0.1:9", "shop"))
    assert refusal.value.hint == "Run pip install 'weft[kafka]'."


def test_a_poll_that_is_killed_loses_and_repeats_nothing(broker: str, tmp_path: Path) -> None:
    home, shop = tmp_path / "home", Shop(broker, "shop.account")
    shop.first()
    with Weft.open(home, clock="replay", create=True) as weft:
        weft.add_source("account", "changes", f"kafka://{broker}/shop.account", ["id"], table="account")
        for point in ("source.written", None, None):
            if point is not None:
                shop.trade(2)
                shop.put([("1", None)])  # a tombstone
            done = poll(home, point)
            assert done.returncode == (-signal.SIGKILL if point else 0), done.stdout + done.stderr
        require_laws(weft, shop)
