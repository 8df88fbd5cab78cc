"""Commits to an S3 server whose replies or requests are lost: each row is there once, and the writer knows it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from delta_tables import opened
from s3_server import lossy, new_bucket
from weft.errors import LeaseLost, StorageError
from weft.storage.table import Fence, Table
from weft.store import S3Access, S3Store

SCHEMA = pa.schema([("a", pa.int64())])
APP = "weft-table-1"


def rows(value: int) -> pa.Table:
    return pa.table({"a": [value]}, schema=SCHEMA)


def made(access: S3Access) -> S3Store:
    place = new_bucket(access) / "t"
    Table(place).ensure(SCHEMA, {})
    return place


def stored(place: S3Store) -> list[int]:
    return sorted(opened(place).to_pyarrow_table().column("a").to_pylist())


def once(method: str, part: str, how: str) -> Callable[[str, str], str | None]:
    """Lose the first such request."""
    left = [how]

    def loses(own: str, path: str) -> str | None:
        return left.pop() if left and own == method and part in path else None

    return loses


@pytest.mark.parametrize("how", ["reply", "request", "500", "503"])
@pytest.mark.parametrize("part", ["_delta_log/00000000000000000001.json", ".zstd.parquet"])
def test_a_commit_whose_reply_is_lost_is_found_and_not_repeated(s3_access: S3Access, part: str, how: str) -> None:
    place = made(s3_access)
    with lossy(place, once("PUT", part, how)) as behind:
        committed = Table(behind).append(rows(1), Fence(APP, 1))
    Table(place).forget()  # also the handle that goes through the proxy
    assert (committed.version, committed.rows) == (1, 1)
    assert stored(place) == [1]
    assert Table(place).append(rows(2), Fence(APP, 2)).version == 2
    assert stored(place) == [1, 2]


@pytest.mark.parametrize("how", ["reply", "412"])
@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
def test_a_table_whose_change_has_no_reply_is_changed(s3_access: S3Access, columns: tuple[str, ...], how: str) -> None:
    wanted, version = pa.schema([(name, pa.int64()) for name in columns]), len(columns) - 1
    place = made(s3_access) if version else new_bucket(s3_access) / "t"
    with lossy(place, once("PUT", f"_delta_log/{version:020d}.json", how)) as behind:
        Table(behind).ensure(wanted, {})
    Table(place).forget()  # also the handle that goes through the proxy
    assert Table(place).schema().names == list(columns)
    assert Table(place).append(rows(1), Fence(APP, 1)).rows == 1
    assert stored(place) == [1]


def test_a_commit_that_the_server_refuses_leaves_nothing_and_can_be_repeated(s3_access: S3Access) -> None:
    place = made(s3_access)

    def refused(method: str, path: str) -> str | None:
        return "403" if method == "PUT" and "_delta_log" in path else None

    with lossy(place, refused) as behind, pytest.raises(StorageError, match="could not be changed"):
        Table(behind).append(rows(1), Fence(APP, 1))
    Table(place).forget()  # also the handle that goes through the proxy
    assert stored(place) == []
    assert Table(place).append(rows(1), Fence(APP, 1)).version == 1


def test_faults_at_random_lose_nothing_and_double_nothing(s3_access: S3Access) -> None:
    place, chance = made(s3_access), random.Random(24)
    hows = ["reply", "request", "500", "503", "412"]

    def loses(method: str, path: str) -> str | None:
        return chance.choice(hows) if "_delta_log" in path and method == "PUT" and chance.random() < 0.5 else None

    with lossy(place, loses) as behind:
        for number in range(1, 7):
            try:
                Table(behind).append(rows(number), Fence(APP, number))
            except (StorageError, LeaseLost):
                Table(place).forget()
                Table(place).spend(APP, number)
                if Table(place).find(APP, number) is None:
                    Table(place).append(rows(number), Fence("weft-again", number))
    assert stored(place) == list(range(1, 7))


def test_writers_that_race_lose_nothing_and_double_nothing(s3_access: S3Access) -> None:
    """The conditional PUT decides. Each thread has its own application, as each table's writer has."""
    place = made(s3_access)
    problems: list[Exception] = []
    done: list[int] = []

    def write(writer: int) -> None:
        try:
            for number in range(1, 6):
                Table(place).append(rows(10 * writer + number), Fence(f"writer-{writer}", number))
            done.append(writer)
        except (StorageError, LeaseLost) as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (problems, sorted(done)) == ([], [0, 1, 2, 3])
    assert stored(place) == [10 * writer + number for writer in range(4) for number in range(1, 6)]
