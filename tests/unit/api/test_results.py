"""Answers as tables of other libraries and as a notebook shows them; each object a person meets in one line."""

from __future__ import annotations

import base64
import datetime as dt
import math
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings

from answered import answered
from definitions import definition
from delta_tables import write_ledger
from unit.extraction.test_given_rows import ARROW, KINDS, ROW
from weft.algebra.schema import BIGINT, DATE, INT, STRING, TIMESTAMP, DataType
from weft.api import Weft, results
from weft.catalog.records import Choice, Count
from weft.errors import HomeClosed, NotFound, Refused
from weft.execution.ad_hoc import Answer
from weft.execution.backtest import Backtest
from weft.execution.histories import History, Stretch

UTC = dt.timezone.utc
FIRST = dt.datetime(1970, 1, 1, 0, 0, 0, 10, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Weft]:
    """A home with the query q, which has 25 answers."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        install(opened, "q", (("n", BIGINT), ("s", STRING)))
        answered(opened, "q", 25)
        yield opened


def install(home: Weft, name: str, columns: tuple[tuple[str, DataType], ...]) -> None:
    with home.catalog.writing("install", home.clock) as writer:
        writer.queries.install(definition(name, columns=columns), 0)


def as_stored(value: Any) -> str | None:
    """A value's text in the ledger."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float():
            return "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else repr(value)
        case dt.datetime():
            return str((value - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(microseconds=1))
        case dt.date():
            return str((value - dt.date(1970, 1, 1)).days)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROW, ROW)
def test_every_type_comes_out_as_it_is(tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any) -> None:
    rows = [one, other]
    with Weft.open(tmp_path_factory.mktemp("types") / "home", create=True) as home:
        install(home, "typed", tuple(KINDS))
        with home.catalog.writing("answer", home.clock) as writer:
            query = writer.queries.named("typed")
            tick = writer.ticks.plan(10, Choice((query.query_id,)), 10)
            texts = [[as_stored(row[name]) for name, _ in KINDS] for row in rows]
            write_ledger(
                writer.path / "ledger", tick.tick_id, [(query.query_id, n, 10, row) for n, row in enumerate(texts, 1)]
            )
            writer.ticks.commit(tick.tick_id, {query.query_id: Count(2, None, None, 10)}, [], 0)
        found = home.results("typed")
        expected = [{"_ordinal": n, "_first_at": FIRST, "_tick": 1, **row} for n, row in enumerate(rows, 1)]
        assert found.to_dicts() == expected
        table = found.to_arrow()
        own = [pa.field("_ordinal", pa.int64()), pa.field("_first_at", pa.timestamp("us", "UTC"))]
        assert table.schema == pa.schema([*own, pa.field("_tick", pa.int64()), *ARROW])
        assert table.to_pylist() == expected
        assert pl.from_arrow(table).height == pl.DataFrame(found).height == 2  # type: ignore[union-attr]
        frame = found.to_pandas()
        assert frame["_first_at"].dt.tz is not None
        for name in ("t", "h", "i", "l", "b", "s", "m", "y", "r"):
            given_values = [None if pd.isna(each) else each for each in frame[name]]
            assert given_values == [row[name] for row in rows]
    # What came out goes in again.
    with Weft.open(tmp_path_factory.mktemp("again") / "home", create=True) as home:
        home.make_table("again", {name: str(kind) for name, kind in KINDS})
        assert home.append("again", table.select([name for name, _ in KINDS])).stored == 2
        stored = home.home / home.catalog.tables.named("again").path
        assert DeltaTable(str(stored)).to_pyarrow_table().select(ARROW.names).to_pylist() == rows


def test_answers_are_read_when_they_are_asked_for(home: Weft) -> None:
    found = home.results("q", after=3, limit=4)
    assert [row.ordinal for row in found] == [row.ordinal for row in found] == [4, 5, 6, 7]
    assert (len(found), found.columns, next(iter(found)).values) == (4, (("n", BIGINT), ("s", STRING)), (4, "text 4"))
    whole = home.results("q", after=20, limit=100)
    answered(home, "q", 2)
    assert (len(whole), len(list(whole)), whole.to_arrow().num_rows) == (5, 5, 5)
    assert len(home.results("q")) == 27
    assert (len(home.results("q", after=99)), home.results("q", after=99).to_arrow().num_rows) == (0, 0)
    assert home.results("q", after=99).to_pandas().empty
    home.close()
    assert len(list(whole)) == 5
    with pytest.raises(HomeClosed):
        whole.spark()


def test_order_by_sorts_the_answers_and_leaves_their_ordinals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_RUN", 4)  # runs in files
    with Weft.open(tmp_path / "home", clock="replay", create=True) as home:
        with home.catalog.writing("install", home.clock) as writer:
            columns = (("n", BIGINT), ("s", STRING))
            text = "SELECT n, s FROM t ORDER BY s DESC"
            writer.queries.install(definition("q", columns=columns, sql=text), 0)
        answered(home, "q", 11)
        by_text = [9, 8, 7, 6, 5, 4, 3, 2, 11, 10, 1]
        assert [row.ordinal for row in home.results("q")] == by_text
        assert [row["n"] for row in home.results("q").to_dicts()] == by_text
        assert [row.ordinal for row in home.results("q", limit=3)] == by_text[:3]
        assert [row.ordinal for row in home.results("q", limit=6)] == by_text[:6]
        # A reader that goes on from an ordinal gets ordinals without a gap.
        assert [row.ordinal for row in home.results("q", after=0)] == list(range(1, 12))
        assert [row.ordinal for row in home.results("q", after=8, limit=2)] == [9, 10]


def test_a_query_that_is_not_there_has_none(home: Weft) -> None:
    with pytest.raises(NotFound):
        home.results("missing")


def test_pandas_is_needed_for_its_frames_only(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Refused, match="pip install pandas"):
        home.results("q").to_pandas()
    assert len(home.results("q").to_dicts()) == 25


def test_whole_numbers_keep_their_digits_beside_null() -> None:
    frame = Answer((("l", BIGINT), ("i", INT)), ((2**62 + 1, 1), (None, 2)), 2, 0, None).to_pandas()  # type: ignore[arg-type]
    assert (frame["l"][0], str(frame["l"].dtype), str(frame["i"].dtype)) == (2**62 + 1, "Int64", "int32")


HOSTILE = "<script>alert('x')</script>\x1b[31m"


def test_a_notebook_shows_some_rows_and_no_html_of_the_data(home: Weft) -> None:
    shown = home.results("q")._repr_html_()
    assert shown.count("<tr>") == 21 and "text 20" in shown and "text 21" not in shown and "and 5 more" in shown
    answer = Answer((("<b>", STRING), ("<b>", TIMESTAMP)), ((HOSTILE, None), ("x" * 999, 0)), 3, 0, None)  # type: ignore[arg-type]
    result = answer._repr_html_()
    assert "<script" not in result and "<b>" not in result and "\x1b" not in result and "&lt;script&gt;" in result
    assert (
        "<i>NULL</i>" in result
        and "1970-01-01 00:00:00+00:00" in result
        and "and 1 more" in result
        and len(result) < 2_000
    )
    assert answer.to_arrow().column_names == ["<b>", "<b>_2"]


def test_other_tables_of_a_home_are_tables_too() -> None:
    tested = Backtest((("n", INT),), ((10, (1,)),), 1, None, 20, 10, (1,), None)  # type: ignore[arg-type]
    assert tested.to_dicts() == [{"_first_at": FIRST, "n": 1}]
    stretches = (Stretch((1,), 10, None), Stretch((2,), 2**61, 2**61 + 1))
    periods = History("staff", (("id", INT),), 1, stretches, 2, 20, lambda: None)  # type: ignore[arg-type,return-value]
    assert periods.to_dicts() == [
        {"id": 1, "valid_from": FIRST, "valid_to": None},
        {"id": 2, "valid_from": 2**61, "valid_to": 2**61 + 1},  # beyond the years that Python has
    ]
    assert periods.to_arrow().column("valid_to").cast("int64").to_pylist() == [None, 2**61 + 1]
    assert Answer((("m", DataType("DECIMAL", 4, 2)),), ((Decimal("1.50"),),), 1, 0, None).to_arrow().to_pylist() == [  # type: ignore[arg-type]
        {"m": Decimal("1.50")}
    ]


def test_what_a_person_meets_is_one_line(home: Weft, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,item\n1,a\n2,b\nx,c\n")
    with Weft.open(tmp_path / "other", create=True) as other:
        met = [
            other, other.make_table("t", {f"a_long_name_{n}": "INT" for n in range(50)}),
            other.ingest_file(tmp_path / "rows.csv", "u", types="id INT"), *other.loads(), *other.quarantined(),
            other.install("many_lines", "SELECT id\nFROM u\nWHERE item = '\x1b[31m'", user="ann"),
            other.describe("t"), *other.tables(), other.retry_quarantine(),
        ]  # fmt: skip
    home.subscribe("q", "file:x.csv", from_start=True)
    home.deliver()
    met += [
        home, home.show("q"), *home.queries(), home.results("q"), home.health(),
        home.describe("results.q"), *home.deliveries(), *home.deliveries()[0].messages,
        Answer((("n", INT),), ((1,),), 7, 0, None),  # type: ignore[arg-type]
    ]  # fmt: skip
    for each in met:
        result = repr(each)
        assert result.startswith("<") and result.endswith(">") and len(result) <= 170 and result.isprintable(), result
    home.close()
    assert repr(home) == f"<closed home {home._home.folder}>"


def test_an_explanation_is_shown_as_text(home: Weft, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "other", create=True) as other:
        other.make_table("t", "a INT, b STRING")
        other.install("kept", "SELECT a FROM t WHERE b = '<b>\x1b'", keep="synopsis")
        for found in (other.explain("SELECT a FROM t WHERE b = '<b>\x1b'"), other.explain_installed("kept")):
            shown = found._repr_html_()
            assert shown.startswith("<pre>") and "<b>" not in shown and "\x1b" not in shown
            assert shown.count("\n") == len(found.brief) - 1 >= 2
            result = repr(found)
            assert result.startswith(f"<{found.brief[0][:20]}") and len(result) <= 170 and result.isprintable()


def test_lines_say_what_matters(home: Weft) -> None:
    assert repr(home).endswith("home, replay clock: 0 tables, 1 query>")
    assert repr(home.results("q")) == "<25 answers of q: n BIGINT, s STRING>"
    assert repr(home.queries()[0]) == (
        "<query q of ann, active, 25 answers, up to 1970-01-01 00:00:00.00001 UTC: SELECT a FROM t>"
    )


def test_days_beyond_the_years_of_python_are_numbers_in_pandas_too() -> None:
    days = (dt.date(2026, 2, 28), 3_000_000, None, dt.date.max)
    found = Answer((("y", DATE), ("z", DATE)), tuple((day, None) for day in days), 4, 0, None)  # type: ignore[arg-type]
    assert [row["y"] for row in found.to_dicts()] == list(days)
    frame = found.to_pandas()
    assert (list(frame.columns), list(frame["y"])) == (["y", "z"], list(days))
    assert frame["z"].isna().all()
    plain = Answer((("y", DATE),), ((dt.date.min,), (dt.date.max,)), 2, 0, None).to_pandas()  # type: ignore[arg-type]
    assert list(plain["y"]) == [dt.date.min, dt.date.max]


def test_nested_columns_are_dicts_and_lists_in_pandas_with_all_their_digits() -> None:
    kinds = (("n", DataType.of_column("STRUCT<l: ARRAY<BIGINT>, m: MAP<STRING, INT>, at: TIMESTAMP>")), ("i", INT))
    text = f'{{"l": [{2**62 + 1}, null], "m": {{"k": 1}}, "at": "+12345-01-01T00:00:00.000000Z"}}'
    found = Answer(kinds, ((text, 1), (None, None)), 2, 0, None)  # type: ignore[arg-type]
    frame = found.to_pandas()
    wanted = {"l": [2**62 + 1, None], "m": {"k": 1}, "at": 327_403_382_400_000_000}
    assert list(frame.columns) == ["n", "i"] and frame["n"].tolist() == [wanted, None]
    assert [row["n"] for row in found.to_dicts()] == frame["n"].tolist() and str(frame["i"].dtype) == "Int32"


def test_a_reader_reports_that_the_query_was_removed_with_its_answers(home: Weft) -> None:
    results, described = home.results("q"), home.catalog.queries.named("q")
    home.remove("q", purge=True)
    for read in (lambda: list(results), results.to_arrow, lambda: home._describe_results(described, 3)):
        with pytest.raises(NotFound, match="the query q was removed with its answers"):
            read()


def test_answers_that_are_missing_are_damage(home: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.errors import StorageError
    from weft.storage import ledger

    results = home.results("q")
    home.remove("q")
    monkeypatch.setattr(ledger, "_scan", lambda *_: iter(()))
    with pytest.raises(StorageError, match="the answer 1 of q is not in the ledger"):
        list(results)
