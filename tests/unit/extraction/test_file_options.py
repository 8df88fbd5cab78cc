"""How a person says that files are to be read: encodings, types, names, and the form of instants."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.batches import Timing
from weft.extraction.files.options import DEFAULT_OPTIONS, FileOptions, common_unit
from weft.extraction.files.source import FileSource, Note, open_file

AT = 1_700_000_000_123_456
"""2023-11-14 22:13:20.123456 UTC."""


def opened(path: Path, content: str | bytes, **options: object) -> FileSource:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    ts_from = options.pop("ts_from", None)
    how = FileOptions(**{"encoding": None, "mends_names": True, **options})  # type: ignore[arg-type]
    return open_file(path, None, ts_from=ts_from, options=how)  # type: ignore[arg-type]


def rows(source: FileSource, timing: Timing | None = None) -> list[dict[str, object]]:
    batches = list(source.batches(timing or Timing()))
    assert not [each for batch in batches for each in batch.rejected]
    return [row for batch in batches for row in batch.rows.to_pylist()]


CITIES = "id,city\n1,Łódź\n2,Köln €\n3,Bonn\n"
WESTERN = "id,city\n1,Düsseldorf\n2,Besançon € 5\n3,Bonn\n"
RUSSIAN = "id,city\n1,Москва\n2,Санкт-Петербург\n3,Новосибирск\n"


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        (CITIES, "utf-8", None),
        (CITIES, "utf-8-sig", None),
        (CITIES, "utf-16", "utf-16"),
        (CITIES, "utf-16-le", "utf-16-le"),
        (CITIES, "utf-16-be", "utf-16-be"),
        (CITIES, "utf-32", "utf-32"),
        (WESTERN, "cp1252", "cp1252"),
        ("id,city\n1,é\n", "latin-1", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        ("id,city\n1,東京都\n2,大阪府\n", "shift_jis", "shift_jis"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_encoding_other_than_utf_8_is_guessed_and_reported(
    tmp_path: Path, text: str, encoding: str, guess: str | None, form: str
) -> None:
    cities = [line.split(",")[1] for line in text.splitlines()[1:]]
    if form == "jsonl":
        text = "".join(f'{{"id": {n}, "city": "{city}"}}\n' for n, city in enumerate(cities, 1))
    source = opened(tmp_path / f"x.{form}", text.encode(encoding))
    assert [row["city"] for row in rows(source)] == cities
    result = [note for note in source.notes if note.option == "--encoding"]
    assert bool(result) == (guess is not None)
    assert guess is None or f"was read as {guess} " in result[0].text + " "


def test_one_broken_line_makes_no_other_encoding(tmp_path: Path) -> None:
    source = opened(tmp_path / "x.csv", "id,city\n1,Köln\n".encode() + b"2,K\xf6ln\n")
    [batch] = source.batches()
    assert batch.rows.column("city").to_pylist() == ["Köln"]
    assert [(each.position, each.raw) for each in batch.rejected] == [("line 3", b"2,K\xf6ln\n")]


@pytest.mark.parametrize(
    "raw", [bytes(range(256)) * 4, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" * 9, b"\xff\xfe", b"\xff\xfe\0"]
)
@pytest.mark.parametrize("encoding", [None, "utf-16", "cp1252", "shift_jis"])
def test_no_bytes_crash(tmp_path: Path, raw: bytes, encoding: str | None) -> None:
    try:
        list(opened(tmp_path / "x.csv", b"a,b\n" + raw, encoding=encoding).batches())
    except Refused as refused:
        assert refused.hint


def test_what_an_encoding_lacks_is_rejected_with_its_bytes(tmp_path: Path) -> None:
    source = opened(tmp_path / "x.csv", b"id,city\n1,ok\n2,\x81x\n", encoding="cp1252")
    [batch] = source.batches()
    assert batch.rows.column("id").to_pylist() == [1]
    assert [each.raw for each in batch.rejected] == [b"2,\x81x\n"]
    wide = "id,city\n1,ok\n".encode("utf-16-le") + b"2\0,\0\x00\xd8\n\0" + "3,ok\n".encode("utf-16-le")
    [batch] = opened(tmp_path / "y.csv", wide, encoding="utf-16-le").batches()
    assert batch.rows.column("id").to_pylist() == [1, 3]
    assert [each.raw for each in batch.rejected] == [b"2,\0\xd8\n"]
    with pytest.raises(Refused, match="'klingon' is not a text encoding"):
        FileOptions(encoding="klingon")
    with pytest.raises(Refused, match="not a text encoding"):
        FileOptions(encoding="base64")


def test_columns_with_odd_names_get_others_aloud(tmp_path: Path) -> None:
    csv = "Order ID,order_id,_id,,2024,größe\n1,2,3,4,5,6\n"
    source = opened(tmp_path / "x.csv", csv)
    names = ["Order_ID_2", "order_id", "id", "column_4", "column_2024", "größe"]
    assert [name for name, _ in source.columns] == names
    assert "Order_ID_2 is 'Order ID' in the file" in " ".join(map(str, source.notes))
    source = opened(tmp_path / "x.jsonl", '{"a b": 1, "_x": "2"}\n{"a b": 2}\n')
    assert rows(source)[1] == {"a_b": 2, "x": None, "_own_time": None, "_seq": 1}
    pq.write_table(pa.table({"a b": [1]}), tmp_path / "x.parquet")
    source = open_file(tmp_path / "x.parquet", None, options=DEFAULT_OPTIONS)
    assert rows(source)[0]["a_b"] == 1


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_columns_are_renamed_and_typed_as_said(tmp_path: Path, form: str) -> None:
    text = (
        "Order ID,price,day\n1,2.50,2024-05-06\n" if form == "csv" else '{"Order ID":1,"price":2.50,"day":"2024-05-06"}'
    )
    types = (("PRICE", DataType("DECIMAL", 12, 2)), ("id", DataType("STRING")))
    source = opened(tmp_path / f"x.{form}", text, rename=(("order id", "id"),), types=types)
    assert [(name, str(kind)) for name, kind in source.columns] == [
        ("id", "STRING"), ("price", "DECIMAL(12,2)"), ("day", "DATE"),
    ]  # fmt: skip
    assert rows(source)[0]["price"] == Decimal("2.50")
    assert rows(source)[0]["id"] == "1"
    assert not source.notes
    with pytest.raises(Refused, match="no column 'nothing' to rename"):
        opened(tmp_path / "y.csv", "a\n1\n", rename=(("nothing", "b"),))
    with pytest.raises(Refused, match="no column 'nothing'"):
        opened(tmp_path / "y.csv", "a\n1\n", types=(("nothing", DataType("INT")),))


@pytest.mark.parametrize(
    ("written", "form"),
    [
        (str(AT // 1_000_000), None),
        (str(AT // 1_000), None),
        (str(AT), None),
        (f"{AT}789", None),
        (f"{AT // 1_000_000}.123456", None),
        (str(AT // 1_000), "ms"),
        ("14.11.2023 22:13:20", "%d.%m.%Y %H:%M:%S"),
        ("14/Nov/2023:23:13:20 +0100", "%d/%b/%Y:%H:%M:%S %z"),
        ("20231114T221320", "%Y%m%dT%H%M%S"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_instants_of_any_form_are_own_times(tmp_path: Path, written: str, form: str | None, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    number = written.replace(".", "").isdigit() and form in (None, "ms")
    if suffix == "parquet":
        value = [float(written) if "." in written else int(written)] if number else [written]
        pq.write_table(pa.table({"at": value}), path)
    else:
        path.write_text(f"at\n{written}\n" if suffix == "csv" else f'{{"at": {written if number else repr(written)}}}'
                        .replace("'", '"'))  # fmt: skip
    source = open_file(path, None, ts_from="at", options=FileOptions(ts_format=form))
    [row] = rows(source, Timing("at"))
    own = row["_own_time"]
    assert isinstance(own, int)
    assert own // 1_000_000 == AT // 1_000_000
    digits = len(written) - 10
    if number and form is None and digits > 0:
        exact = AT // 1_000 * 1_000 if digits == 3 else AT
        assert abs(own - exact) <= (1 if suffix == "parquet" and "." in written else 0)
    assert bool(source.notes) == (number and form is None)


def test_numbers_without_one_unit_are_refused_and_others_are_rejected(tmp_path: Path) -> None:
    assert common_unit(["1700000000", "17"]) is None
    with pytest.raises(Refused, match="'at' is BIGINT, not an instant") as refused:
        opened(tmp_path / "x.csv", "at\n1700000000\n1700000000000\n", ts_from="at")
    assert "--ts-format" in (refused.value.hint or "")
    for form in ("dd.MM.yyyy", "%Q"):
        with pytest.raises(Refused, match="is not a valid format"):
            FileOptions(ts_format=form)
    with pytest.raises(Refused, match="requires --ts-from"):
        opened(tmp_path / "x.csv", "at\n1\n", ts_format="s")
    source = opened(tmp_path / "x.csv", "at\n31.01.2024\n30.02.2024\n", ts_from="at", ts_format="%d.%m.%Y")
    [batch] = source.batches(Timing("at"))
    assert batch.rows.num_rows == 1
    assert [each.reason for each in batch.rejected] == ["not of the column's type: at"]
    assert str(dict(source.columns)["at"]) == "STRING"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "INT96"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
def test_timestamps_of_every_unit_and_zone_of_parquet(tmp_path: Path, unit: str, zone: str | None) -> None:
    instant = AT if unit in ("us", "ns", "INT96") else AT // 1_000 * 1_000 if unit == "ms" else AT // 10**6 * 10**6
    of = "ns" if unit == "INT96" else unit
    scale = {"s": 10**6, "ms": 10**3, "us": 1}
    value = instant * 1_000 + 789 if of == "ns" else instant // scale[of]
    table = pa.table({"at": pa.array([value, None], pa.int64()).cast(pa.timestamp(of, zone))})
    pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=unit == "INT96")
    source = open_file(tmp_path / "x.parquet", None)
    assert str(dict(source.columns)["at"]) == "TIMESTAMP"
    expected = datetime.fromtimestamp(instant // 10**6, timezone.utc).replace(microsecond=instant % 10**6)
    assert [row["at"] for row in rows(source)] == [expected, None]


def test_nested_columns_keep_their_values_whole_and_have_types(tmp_path: Path) -> None:
    text = '{"id":1,"who":{"a":[1.50,"é"]},"tags":["x"],"t":"[]"}\n{"id":2,"who":null,"tags":[],"t":"{}"}\n'
    source = opened(tmp_path / "x.jsonl", text)
    declared = [kind.declared for _, kind in source.columns]
    assert declared == ["BIGINT", "STRUCT<a: ARRAY<STRING>>", "ARRAY<STRING>", "STRING"]
    assert [row["who"] for row in rows(source)] == ['{"a":[1.50,"é"]}', None]
    (note,) = source.notes
    shown = "nested values have types, which the description of the table shows"
    assert note == Note(f"{shown}; to read a part of a value, write who.a, tags[0]")
    lists = pa.array([[("k", [1, None])], None], pa.map_(pa.string(), pa.list_(pa.int32())))
    digits = pa.array([[Decimal("12345678901234567890.12")], []], pa.list_(pa.decimal128(38, 2)))
    pq.write_table(pa.table({"m": lists, "s": [{"a": 1}, None], "d": digits}), tmp_path / "x.parquet")
    source = open_file(tmp_path / "x.parquet", None, options=DEFAULT_OPTIONS)
    found = [(row["m"], row["s"], row["d"]) for row in rows(source)]
    assert found == [('{"k":[1,null]}', '{"a":1}', "[12345678901234567890.12]"), (None, None, "[]")]
    declared = [kind.declared for _, kind in source.columns]
    assert declared == ["MAP<STRING, ARRAY<BIGINT>>", "STRUCT<a: BIGINT>", "ARRAY<DECIMAL(38,2)>"]
    assert source.notes[0].text.endswith("write m['…'], s.a, d[0]")


def test_nested_values_of_other_names_and_kinds_are_shown_as_stored(tmp_path: Path) -> None:
    text = '{"a b":[1],"m":{"x":1},"n":[]}\n{"a b":[2.5],"m":3,"n":{"y":2}}\n'
    source = opened(tmp_path / "x.jsonl", text)
    assert any(note.text.endswith("to read a part of a value, write a_b[0]") for note in source.notes)
    assert any(
        "without a common type are stored as JSON text: m, n; read a part with GET_JSON_OBJECT(m, '$…')" in note.text
        for note in source.notes
    )
    chosen = opened(tmp_path / "y.jsonl", '{"doc":[1]}\n', types=(("doc", DataType("STRING")),))
    assert "JSON text: doc;" in chosen.notes[0].text
