"""CSV, JSON lines and Parquet: types, columns, what is refused and what is rejected."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_batches import small_batches
from weft.algebra.schema import Column, DataType, TableSchema
from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import DEFAULT_TIMING, MAX_LINE, Batch, RejectedRecord, Timing, arrow_type
from weft.extraction.files.source import FileSource, digest, open_file
from weft.instants import DAY_US


def schema(**types: str) -> TableSchema:
    names = [*types.items(), ("ts", "TIMESTAMP")]
    columns = tuple(Column(n, name, DataType.parse(kind)) for n, (name, kind) in enumerate(names))
    return TableSchema(1, "t", columns)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def types_of(source: FileSource) -> dict[str, str]:
    return {name: str(kind) for name, kind in source.columns}


def read(
    source: FileSource, timing: Timing = DEFAULT_TIMING, latest: int | None = None
) -> tuple[list[dict[str, object]], list[RejectedRecord]]:
    batches: list[Batch] = list(source.batches(timing, latest))
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert [row.pop("_seq") for row in rows] == list(range(len(rows)))
    rejected = [each for batch in batches for each in batch.rejected]
    assert sum(batch.read for batch in batches) == len(rows) + len(rejected)
    return rows, rejected


def values(source: FileSource) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name != "_own_time"} for row in read(source)[0]]


JANUARY = 1_577_836_800_000_000
"""2020-01-01 00:00:00 UTC."""
CSV = """id,name,price,day,at,yes,zip
1,"a,b",1.50,2020-01-01,2020-01-01 00:00:00,true,01234
2,"two
lines",2,2020-01-02,2020-01-01T02:00:00+02:00,FALSE,00001
3,,,,,,
"""


def test_the_first_load_of_csv_infers_types_that_lose_nothing(tmp_path: Path) -> None:
    source = open_file(written(tmp_path / "x.csv", CSV), None)
    assert types_of(source) == {
        "id": "BIGINT", "name": "STRING", "price": "DOUBLE", "day": "DATE",
        "at": "TIMESTAMP", "yes": "BOOLEAN", "zip": "STRING",
    }  # fmt: skip
    rows = values(source)
    instant = datetime(2020, 1, 1, tzinfo=timezone.utc)
    assert rows[0] == {
        "id": 1, "name": "a,b", "price": 1.5, "day": date(2020, 1, 1), "at": instant, "yes": True, "zip": "01234",
    }  # fmt: skip
    assert rows[1]["name"] == "two\nlines"
    assert rows[1]["at"] == instant
    assert rows[2] == dict.fromkeys(types_of(source)) | {"id": 3}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "0"], "BIGINT"),
        (["1", "2.5e3"], "DOUBLE"),
        (["007"], "STRING"),
        (["+1"], "STRING"),
        (["9223372036854775807"], "BIGINT"),
        (["9223372036854775808"], "STRING"),
        (["1234567890123456", "0.5"], "DECIMAL(38,1)"),
        (["12345678901234567.89", "0.5", "3"], "DECIMAL(38,2)"),
        (["99999999999999.995", "1e3"], "DOUBLE"),
        (["0.30000000000000004", "12345.678901234567"], "DOUBLE"),
        (["12345678901234567890123456789.0123456789"], "DOUBLE"),
        (["2020-01-01", "2020-02-30"], "STRING"),
        (["2020-01-01", "2020-01-01 10:00"], "TIMESTAMP"),
        (["2020-01-01T10:00:00.123456Z"], "TIMESTAMP"),
        (["2020-01-01T10:00:00.1234567Z"], "STRING"),
        (["true", "1"], "STRING"),
        (["nan"], "STRING"),
        (["1_000"], "STRING"),
        ([" 1"], "STRING"),
        (["", "x"], "STRING"),
        (["", "1"], "BIGINT"),
        ([""], "STRING"),
    ],
)
def test_a_type_is_inferred_only_where_every_value_comes_back_as_written(
    tmp_path: Path, cells: list[str], kind: str
) -> None:
    lines = "".join(f"{cell},x\n" for cell in cells)
    assert types_of(open_file(written(tmp_path / "x.csv", f"a,b\n{lines}"), None))["a"] == kind


def test_json_lines_know_strings_from_numbers(tmp_path: Path) -> None:
    lines = [
        '{"n": 1, "s": "1", "f": 1.10, "b": true, "o": {"x": [1, 2.50, "é"]}, "t": "2020-01-01T00:00:00Z", "m": 1}',
        '{"n": 2, "new": "x", "m": "one"}',
        "",
        '{"n": null}',
    ]
    source = open_file(written(tmp_path / "x.jsonl", "\n".join(lines)), None)
    assert types_of(source) == {
        "n": "BIGINT", "s": "STRING", "f": "DOUBLE", "b": "BOOLEAN", "o": "STRING",
        "t": "TIMESTAMP", "m": "STRING", "new": "STRING",
    }  # fmt: skip
    rows = values(source)
    assert rows[0]["o"] == '{"x":[1,2.50,"é"]}'
    assert rows[1]["new"] == "x"
    assert rows[2] == dict.fromkeys(types_of(source))


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "u": pa.array([2**64 - 1, 1], pa.uint64()),
            "d": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
            "naive": pa.array([0, 1], pa.timestamp("ms")),
            "zoned": pa.array([0, 1], pa.timestamp("us", tz="Europe/Paris")),
            "list": pa.array([["a"], []], pa.list_(pa.string())),
            "raw": pa.array([b"\xff", b""], pa.binary()),
            "word": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "x[1]*.parquet")
    source = open_file(tmp_path / "x[1]*.parquet", None)
    assert types_of(source) == {
        "i": "INT", "u": "DECIMAL(20,0)", "d": "DECIMAL(10,2)", "naive": "TIMESTAMP", "zoned": "TIMESTAMP",
        "list": "STRING", "raw": "BINARY", "word": "STRING",
    }  # fmt: skip
    first = values(source)[0]
    assert first["u"] == 2**64 - 1
    assert first["naive"] == first["zoned"] == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert first["list"] == '["a"]'
    assert first["raw"] == b"\xff"


def test_no_record_of_a_bad_csv_is_lost(tmp_path: Path) -> None:
    lines = [
        b"a,b\n", b"1,x\n", b"2\n", b"3,x,y\n", b'4,"open\n',
        b"5,x\n", b"six,x\n", b"7,caf\xe9\n", b"8,\0\n", b"9,ok\n",
    ]  # fmt: skip
    path = written(tmp_path / "x.csv", b"".join(lines))
    rows, rejected = read(open_file(path, schema(a="INT", b="STRING")))
    assert [row["a"] for row in rows] == [1, 5, 9]
    assert {each.position: each.raw for each in rejected} == {f"line {n + 1}": lines[n] for n in (2, 3, 4, 6, 7, 8)}
    reasons = {each.position: each.reason for each in rejected}
    assert reasons["line 3"] == "1 cell, but the header has 2"
    assert reasons["line 7"] == "not of the column's type: a"
    assert "UTF-8" in reasons["line 8"]
    assert "NUL" in reasons["line 9"]
    assert {each.source for each in rejected} == {str(path)}


def test_no_record_of_bad_json_lines_is_lost(tmp_path: Path) -> None:
    bad = ["{", "[1]", '{"a":1,"a":2}', '{"a":"\\ud800"}', '{"a":' + "[" * 5000, '{"a":"x"}', "3"]
    path = written(tmp_path / "x.jsonl", "\n".join(['{"a":1}', *bad, '{"a":2}']))
    rows, rejected = read(open_file(path, schema(a="BIGINT")))
    assert [row["a"] for row in rows] == [1, 2]
    assert sorted(each.raw.decode().rstrip("\n") for each in rejected) == sorted(bad)


def test_a_line_that_is_too_long_is_rejected_whole(tmp_path: Path) -> None:
    long = b"1," + b"x" * (2 * MAX_LINE + 5) + b"\n"
    rows, rejected = read(
        open_file(written(tmp_path / "x.csv", b"a,b\n" + long + b"2,y\n"), schema(a="INT", b="STRING"))
    )
    assert [row["a"] for row in rows] == [2]
    assert b"".join(each.raw for each in rejected) == long


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("INT", ["1", "+1", " 1 ", "2147483647"], ["1.5", "2147483648", "1e3", "0x10"]),
        ("DECIMAL(5,2)", ["1", "1.25", "1.250", "-999.99"], ["1.255", "1000", "x"]),
        ("DATE", ["2020-02-29"], ["2019-02-29", "2020-01-01 10:00", "infinity"]),
        ("TIMESTAMP", ["2020-01-01", "2020-01-01T00:00:00+02:00"], ["infinity", "200000-01-01", "now", "12:00"]),
        ("BOOLEAN", ["true", "F"], ["maybe"]),
        ("DOUBLE", ["1e3", "NaN"], ["x"]),
        ("BINARY", ["YQ=="], ["%"]),
    ],
)
def test_values_are_cast_exactly_or_not_at_all(tmp_path: Path, kind: str, good: list[str], bad: list[str]) -> None:
    path = written(tmp_path / "x.csv", "a,b\n" + "".join(f"{text},{n}\n" for n, text in enumerate(good + bad)))
    rows, rejected = read(open_file(path, schema(a=kind, b="INT")))
    assert [row["b"] for row in rows] == list(range(len(good)))
    assert len(rejected) == len(bad)


def test_a_parquet_value_that_does_not_fit_is_kept_as_its_json(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["1", "x", None], "b": [1, 2, 3]}), tmp_path / "x.parquet")
    rows, [rejected] = read(open_file(tmp_path / "x.parquet", schema(a="INT", b="BIGINT")))
    assert [(row["a"], row["b"]) for row in rows] == [(1, 1), (None, 3)]
    assert json.loads(rejected.raw) == {"a": "x", "b": 2}
    assert rejected.position == "row 2"


def test_the_own_time_is_the_running_maximum_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch, 2)
    days = ["", "03", "01", "", "05", "02", "04"]
    text = "a,at\n" + "".join(f"{n},{day and f'2020-01-{day}'}\n" for n, day in enumerate(days))
    source = open_file(written(tmp_path / "x.csv", text), None, ts_from="AT")
    rows, _ = read(source, Timing("at", "arrival"))
    assert [row["_own_time"] for row in rows] == [
        day and JANUARY + (day - 1) * DAY_US for day in (None, 3, 3, 3, 5, 5, 5)
    ]
    assert all("at" in row for row in rows)
    rows, rejected = read(source, Timing("at"))
    assert [row["_own_time"] for row in rows] == [JANUARY + (day - 1) * DAY_US for day in (3, 1, 5, 2, 4)]
    assert [(each.position, each.raw, each.reason) for each in rejected] == [
        ("line 2", b"0,\n", "at is empty: the row has no time of its own"),
        ("line 5", b"3,\n", "at is empty: the row has no time of its own"),
    ]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_a_row_too_far_ahead_is_rejected_and_every_row_can_come_with_its_record(tmp_path: Path, name: str) -> None:
    days = [datetime(2020, 1, day, tzinfo=timezone.utc) for day in (3, 1, 2)]
    if name.endswith("parquet"):
        pq.write_table(pa.table({"a": [0, 1, 2], "at": days}), tmp_path / name)
    else:
        form = '{{"a":{},"at":"{:%Y-%m-%d}"}}\n' if name.endswith("jsonl") else "{},{:%Y-%m-%d}\n"
        head = "" if name.endswith("jsonl") else "a,at\n"
        (tmp_path / name).write_text(head + "".join(form.format(n, day) for n, day in enumerate(days)))
    source = open_file(tmp_path / name, None, ts_from="at")
    timing = Timing("at", late="quarantine")
    [batch] = source.batches(timing, JANUARY + DAY_US, origins=True)
    assert batch.rows.column("a").to_pylist() == [1, 2]
    [far] = batch.rejected
    assert far.reason == "at is more than 1d ahead of the clock"
    assert far.position in ("line 1", "line 2", "row 1")
    assert [origin.position.split()[1] for origin in batch.origins] == [
        str(int(far.position.split()[1]) + n) for n in (1, 2)
    ]
    assert all(f"2020-01-0{n}".encode() in origin.raw for n, origin in enumerate(batch.origins, 1))


def test_a_column_ts_is_mapped_and_not_stored_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a,ts\n1,2020-01-01\n2,never\n")
    with pytest.raises(Refused, match="the column name ts is reserved"):
        open_file(path, None)
    with pytest.raises(Refused, match="not an instant"):
        open_file(path, None, ts_from="ts")
    path = written(tmp_path / "x.csv", "a,ts\n1,2020-01-01\n2,2020-01-02\n")
    source = open_file(path, None, ts_from="ts")
    assert types_of(source) == {"a": "BIGINT"}
    rows, _ = read(source)
    assert rows[1] == {"a": 2, "_own_time": 1_577_923_200_000_000}


def test_later_loads_must_have_the_same_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "B,c\n1,2\n")
    with pytest.raises(Refused, match="lacks a and also has c") as refused:
        open_file(path, schema(a="INT", b="INT"))
    assert "--evolve" in str(refused.value)
    source = open_file(path, schema(a="INT", b="INT"), evolve=True)
    assert types_of(source) == {"a": "INT", "b": "INT", "c": "BIGINT"}
    assert values(source) == [{"a": None, "b": 1, "c": 2}]
    with pytest.raises(Refused, match="no column 'att'") as refused:
        open_file(written(tmp_path / "y.csv", "at,b\n2020-01-01,2\n"), None, ts_from="att")
    assert "'at'" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b,A\n1,2,3\n", "columns 1 and 3 have the same name: 'a' and 'A'"),
        ("a b,c\n1,2\n", "'a b'"),
        ("1,2\n3,4\n", "'1'"),
        ("a,_seq\n1,2\n", "_seq"),
        ("a,\n1,2\n", "''"),
        ("", "no header line"),
        ("caf\xe9,b\n1,2\n", None),
    ],
)
def test_names_that_cannot_be_columns(tmp_path: Path, text: str, match: str | None) -> None:
    path = written(tmp_path / "x.csv", text)
    if match is None:
        assert list(types_of(open_file(path, None))) == ["café", "b"]
        return
    with pytest.raises(Refused, match=match):
        open_file(path, None)


@pytest.mark.parametrize(
    "content", ["a;b\n1;x,y\n", "a\tb\n1\tx,y\n", "a|b\n1|x,y\n", 'a,b\n1,"x,y"\n', "\ufeffa;b\n1;x,y\n"]
)
def test_the_dialect_is_found(tmp_path: Path, content: str) -> None:
    assert values(open_file(written(tmp_path / "x.csv", content), None)) == [{"a": 1, "b": "x,y"}]


def test_the_format_follows_from_the_name_or_else_from_the_bytes(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    pq.write_table(table, tmp_path / "parquet")
    written(tmp_path / "csv", "a\n1\n")
    written(tmp_path / "json", '{"a":1}\n')
    written(tmp_path / "x.csv.gz", gzip.compress(b"a\n1\n"))
    for name in ("parquet", "csv", "json", "x.csv.gz"):
        assert values(open_file(tmp_path / name, None)) == [{"a": 1}], name


def test_files_that_cannot_be_read_at_all(tmp_path: Path) -> None:
    for path in (tmp_path, written(tmp_path / "x.parquet", "PAR1 no")):
        with pytest.raises(ExtractionError, match="cannot be read"):
            open_file(path, None)
    for look in (digest, lambda path: open_file(path, None)):
        with pytest.raises(NotFound, match=r"none\.csv"):
            look(tmp_path / "none.csv")
    cut = written(tmp_path / "x.csv.gz", gzip.compress(b"a\n" + b"1\n" * 100_000)[:-20])
    _, rejected = read(open_file(cut, None))
    assert "the file is damaged, and the rest of it cannot be read" in rejected[-1].reason


def test_a_digest_is_of_the_bytes(tmp_path: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest(written(tmp_path / "x", b"")) == empty


def test_every_type_has_an_arrow_type() -> None:
    assert arrow_type(DataType.parse("DECIMAL(10,2)")) == pa.decimal128(10, 2)
    assert arrow_type(DataType.parse("TIMESTAMP")) == pa.timestamp("us", tz="UTC")


@pytest.mark.data
def test_the_large_parquet_reads_whole(data: Path) -> None:
    source = open_file(data / "mail-large" / "linux-lists.parquet", None, ts_from="ts")
    batches = list(source.batches())
    assert sum(batch.rows.num_rows for batch in batches) == 124_890
    assert not any(batch.rejected for batch in batches)
    own = [value for batch in batches for value in batch.rows["_own_time"].to_pylist()]
    given = pq.read_table(data / "mail-large" / "linux-lists.parquet", columns=["ts"])["ts"]
    instants = given.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    assert own == instants
    assert sum(batch.read for batch in batches) == len(own) == 124_890
