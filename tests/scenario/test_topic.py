"""Law 6 with a real Kafka broker: Weft polls Debezium envelopes from several partitions, and its processes are killed.

Each transaction moves an amount between two rows and increases their versions. Every version of a row must therefore
occur once, and in order. The total amount must be the same at every instant, because both rows change at one instant.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_broker import create_topic, kafka_broker
from unit.extraction.test_sources import history
from weft.api import Weft
from weft.storage.verify import verify

# The point "source.staged" applies to feeds with several tables
# (tests/unit/extraction/test_feeds_of_several_tables.py).
POINTS = ("source.reserved", "source.written", "source.committed", "source.recorded")
ROWS, FIRST = 6, 1_700_000_000_000
NOW = "2096-01-01"


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafka_broker() as server:
        yield server


class Shop:
    """The source of the changes. All changes of a key are in one of the topic's three partitions."""

    def __init__(self, server: str, topic: str) -> None:
        self._drawn, self._topic = random.Random(5), topic
        self._producer = Producer({"bootstrap.servers": server})
        self.rows = {key: {"id": key, "amount": 100, "version": 0} for key in range(ROWS)}
        self.transactions = 0
        create_topic(server, topic, 3)

    def first(self) -> None:
        self.put([self._envelope(key, "r", "0") for key in self.rows])

    def trade(self, count: int) -> None:
        result = []
        for _ in range(count):
            self.transactions += 1
            one, other = self._drawn.sample(range(ROWS), 2)
            amount = self._drawn.randint(-9, 9)
            for key, moved in ((one, amount), (other, -amount)):
                row = self.rows[key]
                self.rows[key] = {**row, "amount": row["amount"] + moved, "version": row["version"] + 1}
                result.append(self._envelope(key, "u", str(self.transactions)))
        self.put(result)

    def _envelope(self, key: int, op: str, transaction: str) -> tuple[str, str]:
        source = {"table": "account", "ts_ms": FIRST + self.transactions * 1000, "txId": transaction}
        return str(key), json.dumps({"op": op, "after": self.rows[key], "source": source})

    def put(self, result: list[tuple[str, str | None]]) -> None:
        for key, value in result:
            self._producer.produce(self._topic, value, key)
        assert self._producer.flush(60) == 0


def poll(home: Path, failpoint: str | None, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", str(home), "--now", NOW, *more]
    given = {name: value for name, value in os.environ.items() if name != "WEFT_FAILPOINT"}
    if failpoint is not None:
        given["WEFT_FAILPOINT"] = failpoint
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_nothing_is_lost_and_nothing_comes_twice(broker: str, tmp_path: Path) -> None:
    home, shop = tmp_path / "home", Shop(broker, "shop.account")
    shop.first()
    with Weft.open(home, clock="replay", create=True) as weft:
        weft.add_source("account", "changes", f"kafka://{broker}/shop.account", ["id"], table="account")
        for point in (None, *POINTS):
            shop.trade(8)
            shop.put([("1", None)])  # a tombstone
            done = poll(home, point)
            assert done.returncode == (0 if point is None else -signal.SIGKILL), done.stdout + done.stderr
        for _ in range(2):  # the last transaction waits until a poll finds nothing new
            done = poll(home, None)
            assert done.returncode == 0, done.stdout + done.stderr
        require_laws(weft, shop)
        shop.put([("1", "no change")])
        refused = poll(home, None)
        assert refused.returncode == 1 and "partition" in refused.stdout + refused.stderr
        taken = poll(home, None, "--bad-lines", "quarantine")
        assert taken.returncode == 0, taken.stdout + taken.stderr
        (kept,) = weft.quarantined()
        assert kept.position.startswith("partition ") and "offset" in kept.position


def require_laws(weft: Weft, shop: Shop) -> None:
    versions: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    moves: dict[int, int] = defaultdict(int)
    for (key, amount, version), begin, end in history(weft, "account"):
        versions[key].append((begin, int(version), end))
        moves[begin] += int(amount)
        if end is not None:
            moves[end] -= int(amount)
    for key, result in versions.items():
        result.sort()
        assert [version for _, version, _ in result] == list(range(shop.rows[int(key)]["version"] + 1))
        assert [end for _, _, end in result] == [*(begin for begin, _, _ in result[1:]), None]
    first = min(moves)
    assert moves.pop(first) == 100 * ROWS and not any(moves.values())
    assert sorted(moves) == [(FIRST + number * 1000) * 1000 for number in range(1, shop.transactions + 1)]
    assert (weft.catalog.reservations.still_open(), verify(weft.catalog)) == ((), [])
