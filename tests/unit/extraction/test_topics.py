"""What of a topic of Kafka a poll takes, and in which order; a broker is asked in tests/scenario/test_topic.py."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from weft.errors import Refused
from weft.extraction.sources.kafka import RECORDS, Topic, TopicExtent
from weft.extraction.sources.topic import begin_of, bounded, in_order, inferred, topic_of, without_last

URI = "kafka://b:9092/shop"
EXTENT = TopicExtent("T", {0: 5, 1: 0, 2: 0}, {0: 9, 1: 7, 2: 3})


def records(*rows: tuple[int, int, Any]) -> pa.Table:
    values = [None if value is None else json.dumps(value).encode() for _, _, value in rows]
    columns = [pa.array(each) for each in ([row[0] for row in rows], [row[1] for row in rows])]
    return pa.table([*columns, pa.array(values, pa.binary())], names=RECORDS.names).cast(RECORDS)


def change(ms: int, transaction: str | None = None, **row: Any) -> dict[str, Any]:
    return {"op": "u", "after": {"id": 1, **row}, "source": {"ts_ms": ms, "txId": transaction}}


def places(taken: Any) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in taken]


def test_a_uri_names_brokers_and_a_topic() -> None:
    assert topic_of("kafka://a.x:9092,b:9093/shop.public.staff") == Topic("a.x:9092,b:9093", "shop.public.staff")


@pytest.mark.parametrize(
    "uri", ["kafka://b/shop", "kafka://b:1", "kafka://b:1/", "kafka://u:p@b:1/t", "kafka://b:1/a b"]
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(Refused, match="not the URI of a Kafka topic"):
        topic_of(uri)


def test_each_partition_is_in_its_own_order_and_they_go_by_the_source_time() -> None:
    given = records((0, 1, change(20)), (0, 2, change(10)), (1, 4, change(15)), (1, 5, None), (1, 6, change(30)))
    assert places(in_order(given)) == [(1, 4), (1, 5), (0, 1), (0, 2), (1, 6)]


def test_unreadable_records_keep_their_place() -> None:
    given = records((0, 1, change(20)), (0, 2, "no change"), (0, 3, change(30)), (1, 1, change(25)))
    assert places(in_order(given)) == [(0, 1), (0, 2), (1, 1), (0, 3)]


def test_the_last_transaction_waits_in_every_partition() -> None:
    given = records((0, 1, change(10, "a")), (0, 2, change(20, "b")), (1, 1, change(20, "b")), (1, 2, None))
    assert places(without_last(in_order(given))) == [(0, 1)]


def test_changes_that_name_no_transaction_do_not_wait() -> None:
    given = records((0, 1, change(10, "a")), (1, 2, change(20)))
    assert places(without_last(in_order(given))) == [(0, 1), (1, 2)]


def test_a_poll_reads_a_part_of_each_partition_and_always_goes_on() -> None:
    begin, latest = {0: 0, 1: 0, 2: 4}, {0: 1_000_000, 1: 1, 2: 4}
    end = bounded(begin, latest, 100)
    assert end[1] == 1 and end[2] == 4 and 90 <= end[0] <= 100
    assert bounded(begin, latest, 2_000_000) == latest


def test_a_new_partition_begins_at_its_earliest_record() -> None:
    assert begin_of({}, EXTENT, URI, "staff") == {0: 5, 1: 0, 2: 0}
    assert begin_of({"topic_id": "T", "offsets": {"0": 6, "1": 7}}, EXTENT, URI, "staff") == {0: 6, 1: 7, 2: 0}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"topic_id": "T", "offsets": {"0": 3}}, "has deleted unread records of partition 0: offsets 3 to 4"),
        (
            {"topic_id": "T", "offsets": {"1": 8}},
            "partition 1 of the topic no longer exists: the partition now ends at offset 7",
        ),
        ({"topic_id": "S", "offsets": {"0": 6}}, "the topic was deleted and created again"),
        ({"topic_id": "T", "offsets": {"3": 0}}, "the topic was deleted and created again"),
    ],
)
def test_lost_records_are_refused_with_a_hint(seen: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why) as refusal:
        begin_of(seen, EXTENT, URI, "staff")
    assert refusal.value.hint is not None and "weft source add" in refusal.value.hint


def test_columns_are_those_of_the_changes_of_the_table() -> None:
    other = {**change(20, name="x"), "source": {"ts_ms": 20, "table": "other"}}
    mine = {"payload": {**change(10, pay=1.5), "source": {"ts_ms": 10, "table": "mine"}}}
    found = inferred(records((0, 1, mine), (0, 2, other), (0, 3, None)), "mine", URI)
    assert [name for name, _ in found] == ["id", "pay"]
