"""Loads that the executors of Spark read give what the driver gives: rows, types, counts, quarantine and late rows."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from loaded_files import AT, DAY, FIRST, Loading, dirty_csv, load, require_same_dirty_loads, tick
from weft.catalog import open_catalog
from weft.extraction import distributed
from weft.extraction.files import cutting
from weft.storage.table import Table
from weft.store import S3Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def bucket(bucket: S3Store, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """An empty bucket, which AWS's variables reach. Blocks are small, and a process with Spark counts as a cluster."""
    monkeypatch.setattr(cutting, "BLOCK", 1_800)
    monkeypatch.setattr(distributed, "_has_cluster", lambda _: True)
    return bucket


@pytest.fixture
def homes(bucket: S3Store, tmp_path: Path, spark: SparkSession) -> tuple[Loading, Loading]:
    """A home that loads on the driver, and one that loads by executors."""
    made = [open_catalog(tmp_path / name, create=True, clock="wall", at=AT) for name in ("driver", "executors")]
    one, other = (Loading(each.path, each, lambda: AT, spark=lambda: spark) for each in made)
    return one, other


def put(place: S3Store, raw: bytes) -> str:
    with place.filesystem.open_output_stream(place.path, compression=None) as stream:
        stream.write(raw)
    return str(place)


def test_dirty_files_load_as_on_the_driver(bucket: S3Store, homes: tuple[Loading, Loading]) -> None:
    chance = Random(0)
    first = put(bucket / "0.csv", dirty_csv(chance, 200))
    later = [put(bucket / f"in/{n}.csv", dirty_csv(chance, 150, start=5 * n)) for n in range(3)]
    found = []
    for to, by in zip(homes, ("driver", "executors"), strict=True):
        loads = [load(to, first, by=by)]
        tick(to, FIRST + 12 * DAY)
        loads.append(load(to, f"{bucket}/in", by=by))
        loads.append(load(to, first, *later, by=by))
        found.append(loads)
    require_same_dirty_loads(*found)


@pytest.mark.slow
def test_many_rejected_records_come_in_files_that_do_not_stay(
    bucket: S3Store, homes: tuple[Loading, Loading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "BLOCK", 2 << 20)
    monkeypatch.setattr(distributed, "_REJECTED_BYTES", 1 << 20)
    place = put(bucket / "0.csv", b"a,b,at\n1,2,2020-01-01\n" + (b"x" * 1_000 + b"\n") * 3_000)
    found = [load(to, place, by=by) for to, by in zip(homes, ("driver", "executors"), strict=True)]
    assert found[0] == found[1]
    assert len(found[1].quarantine) == 3_000
    table = homes[1].catalog.tables.named("t")
    assert len(Table(homes[1].catalog.data / table.path).place.names()) == 2
