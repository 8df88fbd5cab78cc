"""Look-ups by a field of a nested column: a tick reads the matching rows through an arrangement by the field."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from weft.algebra.access import Key
from weft.algebra.schema import DataType
from weft.api.weft import Weft
from weft.catalog import layout
from weft.execution import driver_reader, look_ups, maintenance
from weft.execution.driver_reader import DriverReader, ReadBounds, Reading
from weft.execution.look_ups import LookUps
from weft.execution.reader import files_of
from weft.execution.relations import relations
from weft.storage import json_fields
from weft.storage.data_files import file_batches
from weft.storage.delta_log import DeltaSnapshot

QUERY = "SELECT e.n, u.n AS m FROM events e JOIN users u ON u.info.address.city = e.city"
TYPES = "info STRUCT<id: BIGINT, address: STRUCT<city: STRING>>"
CITY = Key("info", ("address", "city"), DataType.parse_nested(TYPES.removeprefix("info ")))
ARRANGED = ReadBounds(filtered=-1)


@pytest.fixture
def weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    """A home with 300 users of 100 cities, and a query that looks them up."""
    for module in (driver_reader, maintenance):
        monkeypatch.setattr(module, "BOUNDS", ReadBounds(filtered=4))
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        users(opened, [{"id": n, "address": {"city": f"c{n % 100}"}} for n in range(300)], "1993-04-01")
        load(opened, "events", [{"city": "c7", "n": 0}], "1993-04-01")
        opened.install("cities", QUERY)
        plan = opened.catalog.queries.plan(opened.catalog.queries.named("cities").plan_id)
        with opened.writing("test") as writer:
            writer.queries.skip_to("cities", 734_000_000_000_000, plan.signature, plan.body)
        yield opened


def load(weft: Weft, table: str, rows: list[dict[str, Any]], day: str, types: str = "") -> None:
    file = weft.home.parent / f"{table}-{day}.jsonl"
    file.write_text("".join(json.dumps(row | {"at": f"{day}T00:00:00Z"}) + "\n" for row in rows))
    weft.ingest_file(file, table, ts_from="at", types=types or None)


def users(weft: Weft, infos: list[Any], day: str) -> None:
    load(weft, "users", [{"n": n, "info": info} for n, info in enumerate(infos)], day, TYPES)


def folders(weft: Weft) -> list[str]:
    place = layout.arrangements_folder(weft.home)
    return sorted(each.name for each in place.iterdir()) if place.exists() else []


def built(weft: Weft) -> list[tuple[str, str]]:
    return [(each.action, each.what) for each in weft.maintain() if isinstance(each, maintenance.Done)]


def reader(weft: Weft, bounds: ReadBounds = ARRANGED) -> DriverReader:
    tables, snapshots = relations(weft.catalog, []), dict[str, DeltaSnapshot | None]()
    arranged = LookUps(layout.arrangements_folder(weft.home))
    return DriverReader(tables, lambda name: files_of(weft.catalog.data, tables[name], snapshots), bounds, arranged)


def read(weft: Weft, cities: list[str | None], bounds: ReadBounds = ARRANGED) -> Reading:
    return reader(weft, bounds).lookup("users", {CITY: [pa.chunked_array([cities], pa.string())]}, ["n", "info"])


def test_a_tick_reads_the_rows_of_the_new_keys(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    built(weft)
    (by_field,) = (each for each in folders(weft) if "." in each)
    load(weft, "events", [{"city": "c7", "n": 1}, {"city": "c9", "n": 2}], "1993-04-22")
    passed: list[int] = []

    def counted(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in file_batches(*arguments):
            passed.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(look_ups, "file_batches", counted)
    found = {each.view: each for each in weft.explain_tick("cities").relations}
    path = found["users__in_info.address.city"]
    assert (path.what, path.by, path.rows) == ("look-up of users by info.address.city", "arrangement", 6)
    assert "by info.address.city: an arrangement of 300 rows" in path.how
    assert passed == []
    users(weft, [{"address": {"city": "c9"}}], "1993-04-23")
    assert read(weft, ["c9"]).rows.data.num_rows == 4  # type: ignore[union-attr]
    assert passed == [1]
    weft.remove("cities")
    built(weft)
    assert by_field not in folders(weft)


def test_maintenance_merges_arrangements_by_fields(weft: Weft) -> None:
    for number in range(2, 5):  # each load extends the arrangements
        users(weft, [{"address": {"city": f"c{n}"}} for n in range(20)], f"1993-05-{number:02}")
    merged = [each for each in weft.maintain() if isinstance(each, maintenance.Done) and "." in each.name]
    assert [(each.action, each.problem) for each in merged] == [("merge", None)]
    found = read(weft, ["c3"]).rows
    assert found is not None and found.data.num_rows == 3 + 3


@pytest.mark.parametrize("bounds", [ReadBounds(), ARRANGED])
def test_random_look_ups_find_what_a_full_reading_finds(weft: Weft, bounds: ReadBounds) -> None:
    chance = random.Random(3)
    given = [
        None,
        {},
        {"address": None},
        {"address": {}},
        *({"address": {"city": c}} for c in (None, "", "x", 'q"\\', "é")),
    ]
    infos = [chance.choice(given) for _ in range(60)]
    users(weft, infos, "1993-04-23")
    everything = [(f"c{n % 100}", n) for n in range(300)]
    everything += [(((info or {}).get("address") or {}).get("city"), n) for n, info in enumerate(infos)]
    for cities in ([None], ["x"], ["", "é", 'q"\\'], ["c7", None], ["nowhere"], []):
        found = read(weft, cities, bounds).rows
        assert found is not None
        assert sorted(found.data.column("n").to_pylist()) == sorted(n for city, n in everything if city in cities)


def test_spark_reads_the_table_if_duckdb_fails(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Any:
        raise duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate 16 kB")

    users(weft, [{"address": {"city": "c9"}}], "1993-04-23")
    with monkeypatch.context() as patched:
        patched.setattr(json_fields, "thread_connection", failing)
        users(weft, [{"address": {"city": "c9"}}], "1993-04-24")
        found = read(weft, ["c9"])
        assert (found.by, found.rows) == ("Spark", None)
        assert "DuckDB cannot read info.address.city: the rows cannot be computed: Out of Memory Error" in found.how
        small = read(weft, ["c9"], ReadBounds())  # all rows, since Spark compares them again
        assert small.rows is not None and small.rows.data.num_rows == 302
    assert read(weft, ["c9"]).rows.data.num_rows == 5  # type: ignore[union-attr]


def test_a_value_of_another_type_makes_spark_read_the_table(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    users(weft, [{"address": {"city": {"name": "x"}}}], "1993-04-23")
    found = read(weft, ["x"])
    assert (found.by, found.rows) == ("Spark", None)
    assert "info.address.city has values that are not of its type STRING" in found.how

    def refused(*arguments: Any) -> Iterator[pa.RecordBatch]:
        raise AssertionError("the table is read again")

    problem = found.how.removeprefix("by info.address.city: ")
    with monkeypatch.context() as patched:
        patched.setattr(look_ups, "file_batches", refused)
        assert read(weft, ["x"]) == found
        load(weft, "users", [{"n": n, "info": None} for n in range(10)], "1993-04-24")
        assert read(weft, ["x"]) == found
        assert {each.problem for each in weft.maintain() if isinstance(each, maintenance.Done)} == {problem}
    small = read(weft, ["x"], ReadBounds())  # all rows, since Spark compares them again
    assert small.rows is not None and small.rows.data.num_rows == 311
