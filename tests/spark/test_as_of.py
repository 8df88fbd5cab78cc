"""A table, a tracked table and answers as of an instant have the rows that existed then, whichever files are read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, LessThan

from weft.api import Weft
from weft.api.data_source import WeftSource
from weft.errors import NotFound, Refused

DAYS = range(1, 6)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weft]:
    """Five loads of two orders each, a tracked table that changes twice, and a query with answers."""
    folder = tmp_path_factory.mktemp("as-of")
    with Weft.open(folder / "home", clock="replay", create=True) as home:
        home.make_table("orders", "id INT, tags ARRAY<STRING>, total DECIMAL(8,2)", keys=["id"])
        home.install("dear", "SELECT o.id, o.total, o.tags FROM orders o WHERE o.id > 3", keep="synopsis")
        for day in DAYS:
            rows = [{"id": 2 * day + n, "tags": ["a", None], "ts": instant(day)} for n in (0, 1)]
            home.append("orders", rows, ts_from="ts")
            home.tick(now=f"2026-03-{day:02} 12:00")
        file = folder / "staff.csv"
        for day, dept in ((6, "toys"), (7, "maps")):
            file.write_text(f"id,dept\n1,{dept}\n{day},new\n")
            if day == 6:
                home.add_source("staff", "csv", str(file), "id")
            home.poll_source("staff", now=f"2026-03-{day:02}")
        home.add_view("depts", "SELECT s.dept, COUNT(*) AS n FROM staff s GROUP BY s.dept")
        home.refresh_views(now="2026-03-08")
        yield home


def instant(day: int) -> dt.datetime:
    return dt.datetime(2026, 3, day, 10, tzinfo=dt.timezone.utc)


def read(home: Weft, *filters: Filter, schema: Any = None, **options: str) -> tuple[pa.Table, int]:
    """Read as Spark does, without Spark: the rows, and the number of partitions."""
    source = WeftSource({"home": str(home.home), **options})
    reader = source.reader(schema or source.schema())
    assert list(reader.pushFilters(list(filters))) == list(filters)
    parts = reader.partitions()
    batches = [batch for part in parts for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({}), len(parts)


@pytest.mark.parametrize("day", [*DAYS, 9])
def test_a_table_has_the_rows_up_to_an_instant(home: Weft, day: int) -> None:
    rows, parts = read(home, table="orders", at=f"2026-03-{day:02}T10:00:00Z")
    assert sorted(rows.column("id").to_pylist()) == list(range(2, 2 * min(day, 5) + 2))
    assert parts == min(day, 5)
    assert rows.column("tags").to_pylist()[0] == ["a", None]


def test_filters_leave_out_files(home: Weft) -> None:
    every, parts = read(home, table="orders")
    assert (every.num_rows, parts) == (10, 5)
    filters = (GreaterThanOrEqual(("ts",), instant(2)), LessThan(("ts",), instant(4)))
    rows, parts = read(home, *filters, table="orders")
    assert (sorted(rows.column("id").to_pylist()), parts) == ([4, 5, 6, 7], 2)


def test_answers_are_those_of_results(home: Weft) -> None:
    rows, _ = read(home, query="dear")
    expected = home.results("dear").to_arrow()
    assert rows.sort_by("_ordinal").cast(expected.schema) == expected
    before = expected.filter(pa.compute.less_equal(expected["_first_at"], pa.scalar(instant(3))))
    some, _ = read(home, query="dear", at=str(instant(3)))
    assert 0 < some.num_rows < rows.num_rows
    assert some.sort_by("_ordinal").cast(expected.schema) == before
    first, _ = read(home, LessThan(("_ordinal",), 2), query="dear")
    assert first.num_rows < rows.num_rows


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"table": "staff"}, [(1, "maps"), (7, "new")]),
        ({"table": "staff", "at": "2026-03-06"}, [(1, "toys"), (6, "new")]),
        ({"table": "staff", "at": "2026-03-05"}, []),
        ({"view": "depts"}, [("maps", 1), ("new", 1)]),
        ({"view": "depts", "at": "2026-03-06 12:00"}, [("new", 1), ("toys", 1)]),
    ],
)
def test_periods_that_contain_the_instant(home: Weft, options: dict[str, str], expected: list[Any]) -> None:
    rows, _ = read(home, **options)
    assert sorted(tuple(row.values())[:2] for row in rows.to_pylist()) == expected


def test_unreadable_input_is_refused(home: Weft, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="was last refreshed at 2026-03-08"):
        read(home, view="depts", at="2026-03-09")
    home.make_table("events", "id INT")
    home.install("all", "SELECT e.id FROM events e", keep="synopsis", discard_history=True)
    with pytest.raises(Refused, match="stores no history"):
        read(home, table="events")
    with pytest.raises(Refused, match="depts is a view"):
        read(home, table="depts")
    with pytest.raises(NotFound):
        read(home, table="nothing")
    for options in ({}, {"table": "orders", "query": "dear"}):
        with pytest.raises(Refused, match="name one of"):
            read(home, **options)
    with pytest.raises(Refused, match="not an option"):
        read(home, table="orders", path="x")
    with pytest.raises(Refused, match="no column 'other'"):
        read(home, table="orders", schema=pa_struct("other"))
    with pytest.raises(Refused, match="not a Weft home"):
        WeftSource({"home": str(tmp_path), "table": "x"}).schema()


def pa_struct(name: str) -> Any:
    from pyspark.sql.types import LongType, StructType

    return StructType().add(name, LongType())
