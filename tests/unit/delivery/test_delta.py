"""Delta tables as channels: typed, exactly once, read by others meanwhile; what is not theirs is refused."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from weft.algebra.schema import BIGINT, STRING, DataType
from weft.delivery.channel import About, Message
from weft.delivery.delta import DeltaChannel
from weft.delivery.registry import canonical
from weft.errors import Conflict, DeliveryError, Refused
from weft.storage.ledger import Answers, ResultRow

LATER = 3_600 * 1_000_000
POINTS = ("delta.made", "commit.written", "delta.committed", "delivery.written")
KINDS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
    "STRING", "BINARY", "DATE", "TIMESTAMP", "DECIMAL(20,3)",
)  # fmt: skip


def message(rows: list[tuple[Any, ...]], columns: tuple[tuple[str, DataType], ...], first: int = 1) -> Message:
    found = tuple(ResultRow(first + n, 1_500_000, 2, row) for n, row in enumerate(rows))
    about = About("SELECT 1", "ann", len(rows), Path("home"), "an id", 0, query_id=7, zone="UTC")
    return Message(f"1-{first}-{first}", "q", columns, found, len(found), about, attempt_at=0)


def read(place: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(place)).to_pyarrow_table().sort_by("_ordinal").to_pylist()
    return rows


def ordinals(place: Path) -> list[int]:
    return [row["_ordinal"] for row in read(place)]


def test_columns_are_typed_as_selected(tmp_path: Path) -> None:
    columns = tuple((f"c{n}", DataType.parse(kind)) for n, kind in enumerate(KINDS))
    at = dt.datetime(2026, 3, 1, 8, tzinfo=dt.timezone.utc)
    row = (True, -1, 2, 3, 2**62, 1.5, float("nan"), "é", b"\x00", dt.date(2026, 3, 1), at, Decimal("1.250"))
    beyond = (None, None, None, None, None, None, None, None, None, 9_000_000, 2**60, None)
    channel = DeltaChannel("deep/er/t", tmp_path)
    channel.send(message([row, beyond], columns), channel.prepare())
    stored = DeltaTable(str(tmp_path / "deep/er/t")).to_pyarrow_table().sort_by("_ordinal")
    assert [str(kind) for kind in stored.schema.types] == [
        "int64", "timestamp[us, tz=UTC]", "int64", "bool", "int8", "int16", "int32", "int64", "float", "double",
        "string", "binary", "date32[day]", "timestamp[us, tz=UTC]", "decimal128(20, 3)",
    ]  # fmt: skip
    first = stored.slice(0, 1).to_pylist()[0]
    assert (first["_ordinal"], first["_tick"], first["_first_at"]) == (
        1,
        2,
        dt.datetime.fromtimestamp(1.5, dt.timezone.utc),
    )
    assert [str(first[name]) for name, _ in columns] == [str(value) for value in row]
    assert stored.column("c10").cast(pa.int64()).to_pylist()[1] == 2**60
    # DuckDB reads it by SQL; sending the message again adds nothing, NaN and far instants being what they are.
    channel.send(message([row, beyond], columns), channel.prepare())
    answers = DeltaTable(str(tmp_path / "deep/er/t")).to_pyarrow_dataset()
    assert duckdb.sql("SELECT count(*), max(c4) FROM answers").fetchall() == [(2, 2**62)]
    assert len(answers.files) == 1


def test_nested_columns_are_nested(tmp_path: Path) -> None:
    shape = "STRUCT<at: TIMESTAMP, d: DECIMAL(5,2), l: ARRAY<STRUCT<x: DOUBLE>>, m: MAP<STRING, ARRAY<INT>>, t: DATE>"
    columns = (("n", DataType.of_column(shape)), ("tags", DataType.of_column("ARRAY<STRING>")))
    value = (
        '{"at": "2026-03-01 08:00:00.000001", "d": 1.5, "l": [{"x": "NaN"}, null], "m": {"k": [1, null]}, "more": 1}'
    )
    rows: list[tuple[Any, ...]] = [(value, '["a", null]'), (None, None), ("{}", "[]"), ('{"t": "0001-01-01"}', "[]")]
    channel = DeltaChannel("t", tmp_path)
    for _ in range(2):  # the second time it looks at what is there
        channel.send(message(rows, columns), channel.prepare())
    channel.require(Answers("an id", 7, "q", columns))
    first, *others = read(tmp_path / "t")
    assert str(first["n"]) == str(
        {
            "at": dt.datetime(2026, 3, 1, 8, 0, 0, 1, ZoneInfo("UTC")),
            "d": Decimal("1.50"),
            "l": [{"x": float("nan")}, None],
            "m": [("k", [1, None])],
            "t": None,
        }
    )
    nothing = dict.fromkeys(first["n"])
    assert [row["n"] for row in others] == [None, nothing, {**nothing, "t": dt.date.min}]
    assert [row["tags"] for row in (first, *others)] == [["a", None], None, [], []]
    connection = duckdb.connect()
    connection.register("answers", DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset())
    parts = connection.sql("SELECT n.m['k'][1], n.d, tags[1] FROM answers WHERE n.l IS NOT NULL").fetchall()
    assert parts == [(1, Decimal("1.50"), "a")]
    channel.send(message([(value, "[]")], columns, first=5), channel.prepare())
    with pytest.raises(DeliveryError, match="the answer 5 in the table differs"):
        channel.send(message([('{"d": 1}', "[]")], columns, first=5), channel.prepare())
    for other in ("STRUCT<at: TIMESTAMP>", "STRING"):
        with pytest.raises(Conflict, match="different columns"):
            channel.require(Answers("an id", 7, "q", (("n", DataType.of_column(other)), columns[1])))
    named = (("n", DataType.of_column("ARRAY<STRUCT<`first name`: INT>>")),)
    with pytest.raises(Conflict, match="a Delta table cannot have a field named 'first name'"):
        DeltaChannel("u", tmp_path).require(Answers("an id", 8, "r", named))


def test_nested_times_may_lie_beyond_pythons_years(tmp_path: Path) -> None:
    columns = (("n", DataType.of_column("STRUCT<d: DATE, l: ARRAY<STRUCT<t: TIMESTAMP>>, m: MAP<STRING, DATE>>")),)
    far = '{"d": "+12345-01-01", "l": [{"t": "-0005-01-01T00:00:00.000001Z"}], "m": {"k": "+12345-01-01"}}'
    channel = DeltaChannel("t", tmp_path)
    for _ in range(2):  # the second time it looks at what is there
        channel.send(message([(far,), (None,)], columns), channel.prepare())
    connection = duckdb.connect()
    connection.register("answers", DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset())
    parts = connection.sql(
        "SELECT n.d::VARCHAR, epoch_us(n.l[1].t), n.m['k']::VARCHAR FROM answers WHERE n.d IS NOT NULL"
    )
    assert parts.fetchall() == [("12345-01-01", -62_324_985_599_999_999, "12345-01-01")]


def test_names_that_come_twice_get_a_number(tmp_path: Path) -> None:
    channel = DeltaChannel("t", tmp_path)
    channel.send(message([("x", "y", "z")], (("a", STRING), ("A", STRING), ("_tick", STRING))), channel.prepare())
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().column_names[3:] == ["a", "A_2", "_tick_2"]


def test_each_answer_is_appended_once_while_others_read(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.delivery.outbox.MESSAGE_ROWS", 4)
    query = site.install("q", "delta:news")
    place, seen = site.home / "delta" / "news", []
    for rows in (3, 6, 1):
        site.tick(query, rows)
        (done,) = site.deliver()
        assert done.error is None
        seen.append(len(ordinals(place)))
        if rows == 3:  # what a user does to a table of their own
            DeltaTable(str(place)).optimize.compact()
            DeltaTable(str(place)).delete("n = 2")
    assert seen == [3, 8, 9]
    assert ordinals(place) == [1, *range(3, 11)]
    assert DeltaTable(str(place)).metadata().description == "Answers of the query q, appended by Weft"


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(site: Any, point: str) -> None:
    site.tick(site.install("q", "delta:t"), 10)
    site.killed(point if point == "delta.made" else f"{point}:2")
    if point == "delivery.written":
        site.killed("delivery.recovered")
    site.deliver(LATER)
    assert ordinals(site.home / "delta/t") == list(range(1, 11))
    assert site.catalog.outbox.unsent() == ()


def test_a_table_that_went_away_in_the_middle_is_unknown_until_resumed(site: Any) -> None:
    site.tick(site.install("q", "delta:t"), 10)
    site.killed("delivery.written:2")
    shutil.move(site.home / "delta/t", site.home / "moved")
    assert site.deliver(LATER) == []
    (entry,) = site.catalog.outbox.unsent()
    assert entry.state == "unknown"
    site.writer.subscriptions.resume(1)
    site.deliver(LATER)
    assert ordinals(site.home / "delta/t") == [5, 6, 7, 8, 9, 10]
    assert ordinals(site.home / "moved") == list(range(1, 9))


def test_a_home_restored_from_a_copy_continues_or_reports_that_the_table_is_ahead(site: Any) -> None:
    columns, channel = (("s", STRING),), DeltaChannel("t", site.home)
    channel.send(message([("x",), ("y",), ("z",)], columns), channel.prepare())
    channel.send(message([("y",), ("z",), ("new",)], columns, 2), channel.prepare())
    assert [row["s"] for row in read(site.home / "t")] == ["x", "y", "z", "new"]
    with pytest.raises(DeliveryError, match="the answer 3 in the table differs from the answer 3 of the query q"):
        channel.send(message([("other",), ("new",)], columns, 3), channel.prepare())
    assert ordinals(site.home / "t") == [1, 2, 3, 4]


def test_answers_that_a_table_went_on_without_are_refused_aloud(tmp_path: Path) -> None:
    columns = (("s", STRING),)
    channel = DeltaChannel("t", tmp_path)

    def send(first: int, last: int) -> None:
        channel.send(message([(str(n),) for n in range(first, last + 1)], columns, first), channel.prepare())

    send(3, 4)
    with pytest.raises(DeliveryError, match="skipped the answers 1 to 2 of the query q"):
        send(1, 3)
    send(4, 5)
    send(7, 8)
    for first, reason in ((6, "the answer 6"), (1, "the answers 1 to 2")):
        with pytest.raises(DeliveryError, match=f"skipped {reason} of"):
            send(first, 9)
    send(7, 9)
    assert ordinals(tmp_path / "t") == [3, 4, 5, 7, 8, 9]


def test_a_gap_that_was_noted_in_vain_is_none(site: Any) -> None:
    query = site.install("q", "delta:t")
    site.tick(query, 3)
    (subscribed,) = site.catalog.subscriptions.all()
    site.sender.subscriptions.go_to(subscribed.sub_id, 1)
    site.killed("delta.noted")
    assert ordinals(site.home / "delta/t") == []
    site.deliver(LATER)
    site.tick(query, 1)
    site.deliver(LATER)
    assert ordinals(site.home / "delta/t") == [2, 3, 4]


def test_other_objects_at_the_path_are_refused(tmp_path: Path) -> None:
    columns = (("s", STRING),)
    write_deltalake(str(tmp_path / "theirs"), pa.table({"s": ["x"]}))
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "files")
    mine = DeltaChannel("mine", tmp_path)
    mine.send(message([("x",)], columns), mine.prepare())
    cases = [
        ("theirs", "the path has a Delta table that Weft did not create"),
        ("theirs/below", "inside another Delta table"),
        ("files", "the folder has other files"),
        ("link/t", "symbolic link"),
        ("mine", "the answers of another query, q"),
    ]
    for path, reason in cases:
        channel = DeltaChannel(path, tmp_path)
        with pytest.raises(Conflict, match=reason):
            channel.require(Answers("an id", None, "new", columns))
    with pytest.raises(DeliveryError, match="different columns: the table also has s string; the table lacks s int64"):
        mine.send(message([(1,)], (("s", BIGINT),), 2), mine.prepare())
    with pytest.raises(Conflict, match="of the query q of another home"):
        mine.require(Answers("other", 7, "q", columns))
    assert ordinals(tmp_path / "mine") == [1]
    assert (DeltaTable(str(tmp_path / "theirs")).version(), (tmp_path / "files/a.txt").read_text()) == (0, "x")


def test_a_name_that_no_delta_table_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="a Delta table cannot have a column named 'a b'"):
        DeltaChannel("t", tmp_path).require(Answers("an id", None, "q", (("a b", STRING),)))


def test_a_path_is_below_the_root_that_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert canonical(f"delta:{tmp_path}/delta/a/./b", tmp_path) == "delta:a/b"
    for path in ("delta:../t", "delta:/etc/t", "delta:", "delta:a*"):
        with pytest.raises(Refused):
            canonical(path, tmp_path)
    (tmp_path / "weft.toml").write_text("[delta]\nroot = 'lake'\n")
    assert canonical(f"delta:{tmp_path}/lake/t", tmp_path) == "delta:t"
    monkeypatch.setenv("WEFT_DELTA_ROOT", str(tmp_path / "other"))
    assert canonical(f"delta:{tmp_path}/other/t", tmp_path) == "delta:t"
