"""Law 6 with a real PostgreSQL server: several writers run transactions while Weft polls and is killed.

Each transaction moves an amount between rows of two tables, increases the version of these rows, and signs the rows.
The test therefore needs no record of the transactions. Every version of a row must occur once, and in order. The rows
that one transaction signed must begin at one instant in both tables. The total amount must be the same at every instant
of a change. The open rows must be those on the server.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import psycopg
import pytest

from unit.extraction.test_sources import history
from weft.api import Weft
from weft.storage.verify import verify

TABLES = ("account", "purse")
ROWS = 12
POINTS = (
    "source.reserved",
    "source.reserved",
    "source.staged",
    "source.written",
    "source.written:2",
    "source.committed",
    "source.committed:2",
    "source.recorded",
)
NOW = "2096-01-01"


class Writer(threading.Thread):
    """A thread that moves amounts between rows, one transaction after another, until it is stopped."""

    def __init__(self, uri: str, number: int, over: threading.Event) -> None:
        super().__init__(name=f"writer-{number}")
        self._uri = uri
        self._number = number
        self._over = over
        self.committed = 0

    def run(self) -> None:
        drawn = random.Random(self._number)
        with psycopg.connect(self._uri) as connection:
            while not self._over.wait(drawn.random() / 50):
                # The rows are sorted, so that no two writers wait for each other.
                rows = sorted({(drawn.choice(TABLES), drawn.randrange(ROWS)) for _ in range(drawn.randint(2, 4))})
                amounts = [drawn.randint(-9, 9) for _ in rows]
                amounts[-1] -= sum(amounts)
                signed = f"{self._number}-{self.committed}"
                for (table, row), amount in zip(rows, amounts, strict=True):
                    connection.execute(
                        f"UPDATE {table} SET amount = amount + %s, version = version + 1, signed = %s WHERE id = %s",
                        [amount, signed, row],
                    )
                if drawn.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed += 1


def poll(home: Path, failpoint: str | None) -> int:
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", str(home), "--now", NOW]
    given = {name: value for name, value in os.environ.items() if name != "WEFT_FAILPOINT"}
    if failpoint is not None:
        given["WEFT_FAILPOINT"] = failpoint
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("writers", "polls"),
    [
        pytest.param(3, 3, id="small"),
        # Each poll is a separate process, which takes a few seconds or more on a busy machine.
        pytest.param(6, 24, id="big", marks=(pytest.mark.slow, pytest.mark.timeout(900))),
    ],
)
def test_nothing_is_lost_and_nothing_invented(postgresql: str, tmp_path: Path, writers: int, polls: int) -> None:
    home, drawn, over = tmp_path / "home", random.Random(7), threading.Event()
    with psycopg.connect(postgresql, autocommit=True) as shop, Weft.open(home, clock="replay", create=True) as weft:
        for table in TABLES:
            shop.execute(f"DROP TABLE IF EXISTS {table}")
            shop.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, amount int, version int, signed text)")
            shop.execute(f"INSERT INTO {table} SELECT g, 100, 0, 'made' FROM generate_series(0, {ROWS - 1}) g")
            weft.add_source(table, "changes", postgresql, ["id"], table=table)
        threads = [Writer(postgresql, number, over) for number in range(writers)]
        for each in threads:
            each.start()
        try:
            points = [None, *drawn.sample(POINTS, min(polls, len(POINTS)))]
            points += [drawn.choice(POINTS) for _ in range(polls - len(points))]
            killed = sum(poll(home, point) == -signal.SIGKILL for point in points)
        finally:
            over.set()
            for each in threads:
                each.join()
        poll(home, None)
        assert killed >= polls // 2 and sum(each.committed for each in threads) > 5 * writers
        require_laws(weft, {table: shop.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES})
        for table in TABLES:
            assert weft.remove_source(table)[1] is None


def require_laws(weft: Weft, there: dict[str, list[tuple[object, ...]]]) -> None:
    begun: dict[str, set[int]] = defaultdict(set)
    moves: dict[int, int] = defaultdict(int)
    for table in TABLES:
        periods = history(weft, table)
        assert {row for row, _, end in periods if end is None} == {tuple(map(str, row)) for row in there[table]}
        versions: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
        for (key, amount, version, signed), begin, end in periods:
            versions[key].append((int(version), begin, end))
            begun[signed].add(begin)
            moves[begin] += int(amount)
            if end is not None:
                moves[end] -= int(amount)
        for result in versions.values():
            result.sort(key=lambda each: each[1])
            assert [version for version, _, _ in result] == list(range(result[0][0], result[0][0] + len(result)))
            assert [end for _, _, end in result[:-1]] == [begin for _, begin, _ in result[1:]]
    first = min(moves)
    assert [at for at, moved in moves.items() if moved and at != first] == []
    # The writers may begin before the snapshot. The snapshot shows each transaction in both tables or in none.
    assert moves[first] == 100 * ROWS * len(TABLES)
    # The changes of a transaction in the snapshot begin at the instant of the snapshot.
    assert all(len(instants - {first}) <= 1 for instants in begun.values())
    signatures: dict[int, set[str]] = defaultdict(set)
    for signed, instants in begun.items():
        for at in instants - {first}:
            signatures[at].add(signed)
    assert all(len(each) == 1 for each in signatures.values())
    assert (weft.catalog.reservations.still_open(), verify(weft.catalog)) == ((), [])
