"""Nested columns, from the load to the answers: their fields equal those in the file."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_spark import DeltaSpark
from replayed import DAY, START, first_instants, replay_home

UTC = dt.timezone.utc
ORDERS = (
    {"id": 1, "day": "1993-04-05", "who": {"name": "ann", "at": {"zip": "007"}}, "tags": ["urgent", "b"], "n": [3, 1]},
    {"id": 2, "day": "1993-04-06", "who": {"name": "bob", "at": None}, "tags": [], "n": [None, 7]},
    {"id": 3, "day": "1993-04-07", "who": None, "tags": None, "n": None},
    {"id": 4, "day": "1993-04-08", "who": {"name": "cy"}, "tags": ["a", "urgent"], "n": [0]},
)


@pytest.mark.usefixtures("spark")
def test_parts_of_nested_columns_are_asked_for_as_of_any_column(tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(order) + "\n" for order in ORDERS))
    instants = [dt.datetime(1993, 4, 5, 12, 0, 0, 250_000, UTC), None]
    columns = {
        "id": [1, 2],
        "m": pa.array([[("k", [1, None]), ("", [])], None], pa.map_(pa.string(), pa.list_(pa.int32()))),
        "s": pa.array(
            [{"t": t, "d": Decimal("12345678901234567890.10"), "f": 0.1, "b": t is None} for t in instants],
            pa.struct(
                [("t", pa.timestamp("us", "UTC")), ("d", pa.decimal128(30, 2)), ("f", pa.float64()), ("b", pa.bool_())]
            ),
        ),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with replay_home(tmp_path / "home") as weft:
        weft.ingest_file(tmp_path / "orders.jsonl", "orders", ts_from="day")
        weft.ingest_file(tmp_path / "x.parquet", "x")
        standing = {
            "zips": "SELECT id, who.at.zip, GET_JSON_OBJECT(who, '$.name') AS name FROM orders",
            # One plan: the constants in the conditions on elements are parameters.
            "urgent": "SELECT id FROM orders WHERE EXISTS(tags, t -> t = 'urgent')",
            "other": "SELECT id FROM orders WHERE EXISTS(tags, t -> t = 'b')",
            "first": "SELECT id, n[0] AS n, SIZE(n) AS size FROM orders WHERE ARRAY_CONTAINS(n, 7)",
            "split": "SELECT d.id, SIZE(d.w) AS n, d.w FROM (SELECT id, SPLIT(who.name, 'n') AS w FROM orders "
            "UNION SELECT id, SPLIT(who.name, 'n') FROM orders WHERE id > 1) d WHERE d.w[0] < 'c'",
            "alone": "SELECT o.id FROM orders o WHERE NOT EXISTS "
            "(SELECT 1 FROM orders p WHERE p.id <> o.id AND EXISTS(p.tags, t -> ARRAY_CONTAINS(o.tags, t)))",
        }
        for name, text in standing.items():
            weft.install(name, text)
        for day in (2, 4):
            weft.tick(now=START + day * DAY + 1)
        found = {name: first_instants(weft, name) for name in standing}
        days = {order["id"]: START + n * DAY for n, order in enumerate(ORDERS)}
        assert found["zips"] == {
            (1, "007", "ann"): days[1], (2, None, "bob"): days[2], (3, None, None): days[3], (4, None, "cy"): days[4],
        }  # fmt: skip
        assert found["urgent"] == {(1,): days[1], (4,): days[4]} and found["other"] == {(1,): days[1]}
        plans = {weft.catalog.queries.named(name).plan_id for name in ("urgent", "other")}
        assert len(plans) == 1
        assert found["first"] == {(2, None, 2): days[2]}
        assert found["split"] == {(1, 3, '["a","",""]'): days[1], (2, 1, '["bob"]'): days[2]}
        assert found["alone"] == {(n,): days[n] for n in days if n != 4}
        text = (
            "SELECT id, d.m['k'][0] AS k, SIZE(d.m['']) AS e, d.s.t, d.s.d, d.s.f, d.s.b FROM "
            "(SELECT id, m, s FROM x UNION SELECT id, m, s FROM x WHERE m['k'][0] > 0) AS d"
        )
        assert sorted(weft.try_query(text, now=START + 9 * DAY).rows) == [
            (1, 1, 0, instants[0], Decimal("12345678901234567890.10"), 0.1, False),
            (2, None, -1, None, Decimal("12345678901234567890.10"), 0.1, True),
        ]


@pytest.mark.usefixtures("spark")
def test_nested_columns_leave_as_what_they_are(
    tmp_path: Path, other_spark: DeltaSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_DELTA_ROOT", str(tmp_path / "out"))
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(order) + "\n" for order in ORDERS))
    with replay_home(tmp_path / "home") as weft:
        weft.ingest_file(tmp_path / "orders.jsonl", "orders", ts_from="day")
        weft.install("q", "SELECT id, who, who.at, tags FROM orders", to=["delta:q", "file:q.jsonl"])
        weft.install("zips", "SELECT id, at.zip, tags[0] AS tag FROM results.q WHERE SIZE(tags) > 0")
        weft.tick(now=START + 9 * DAY)
        weft.tick(now=START + 9 * DAY + 1)
        found = weft.results("q")
        wanted = [
            {
                "id": order["id"],
                "who": order["who"] and {"name": order["who"]["name"], "at": order["who"].get("at")},
                "at": order["who"] and order["who"].get("at"),
                "tags": order["tags"],
            }
            for order in ORDERS
        ]
        assert [found.columns[n][1].declared for n in (1, 2, 3)] == [
            "STRUCT<name: STRING, at: STRUCT<zip: STRING>>", "STRUCT<zip: STRING>", "ARRAY<STRING>",
        ]  # fmt: skip
        assert [{name: row[name] for name in wanted[0]} for row in found.to_dicts()] == wanted
        assert found.to_arrow().select(list(wanted[0])).to_pylist() == wanted
        assert [
            [None if value is None else value["name"] for value in found.to_pandas()["who"]],
            [None if value is None else list(value) for value in found.to_pandas()["tags"]],
        ] == [[order["who"] and order["who"]["name"] for order in ORDERS], [order["tags"] for order in ORDERS]]
        frame = found.spark()
        assert frame.selectExpr("who.at.zip AS z", "tags[1] AS t").where("id = 1").collect() == [("007", "b")]
        theirs = other_spark.read(str(tmp_path / "out" / "q"), "id", "who.name", "at.zip", "tags").to_pylist()
        assert sorted(tuple(row.values()) for row in theirs) == sorted(
            (row["id"], row["who"] and row["who"]["name"], row["at"] and row["at"]["zip"], row["tags"])
            for row in wanted
        )
        lines = [json.loads(line) for line in (weft.home / "files" / "q.jsonl").read_text().splitlines()]
        assert [{name: line[name] for name in wanted[0]} for line in lines] == wanted
        assert {row.values for row in weft.results("zips")} == {(1, "007", "urgent"), (4, None, "a")}
        asked = weft.try_query("SELECT who, who.at AS at FROM orders WHERE id = 1", now=START + 9 * DAY)
        assert asked.to_dicts() == [{"who": wanted[0]["who"], "at": {"zip": "007"}}]
        assert asked.spark().selectExpr("who.name", "at.zip").collect() == [("ann", "007")]
        assert "STRUCT&lt;zip: STRING&gt;" in asked._repr_html_()


@pytest.mark.usefixtures("spark")
def test_fields_may_have_any_name_and_come_later(tmp_path: Path) -> None:
    """One field has the name of Spark's column for corrupt records. Another field existed before with another type."""
    lines = (
        {"id": 1, "day": "1993-04-05", "b": {"_corrupt_record": 5, "name": "ann", "age": "old"}},
        {"id": 2, "day": "1993-04-06", "b": {"_corrupt_record": 6, "name": "bob", "age": 7, "at": {"zip": 1010}}},
    )
    for line in lines:
        (tmp_path / f"{line['id']}.jsonl").write_text(json.dumps(line) + "\n")
    with replay_home(tmp_path / "home") as weft:
        kind = "b STRUCT<_corrupt_record: BIGINT, name: STRING>"
        weft.ingest_file(tmp_path / "1.jsonl", "t", ts_from="day", types=kind)
        weft.ingest_file(tmp_path / "2.jsonl", "t", ts_from="day", evolve=True)
        weft.install("q", "SELECT id, b, b.at, b.name, b._corrupt_record AS c, b.age FROM t", to=["file:q.jsonl"])
        weft.tick(now=START + 9 * DAY)
        at = {"zip": 1010}
        bob = {"_corrupt_record": 6, "name": "bob", "age": 7, "at": at}
        wanted = [
            {
                "id": 1,
                "b": {**bob, **lines[0]["b"], "age": None, "at": None},
                "at": None,
                "name": "ann",
                "c": 5,
                "age": None,
            },
            {"id": 2, "b": bob, "at": at, "name": "bob", "c": 6, "age": 7},
        ]
        found = weft.results("q")
        assert [{name: row[name] for name in wanted[0]} for row in found.to_dicts()] == wanted
        file = (weft.home / "files" / "q.jsonl").read_text().splitlines()
        assert [{name: line[name] for name in wanted[0]} for line in map(json.loads, file)] == wanted
        result = sorted(found.spark().selectExpr("id", "b.age", "b.at.zip", "b._corrupt_record").collect())
        assert result == [(1, None, None, 5), (2, 7, 1010, 6)]
