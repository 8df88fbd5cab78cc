"""Polling sources: what is recorded, what is refused and changes nothing, and polls that were killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forked
from coalesced import Period, coalesced
from weft.api import Weft
from weft.errors import ClockError, Conflict, ExtractionError, Refused, WeftError
from weft.execution.history_log import log_of
from weft.storage.periods import periods
from weft.storage.table import Table
from weft.storage.verify import verify

SOURCES = Path(__file__).resolve().parents[3] / "src" / "weft"
HEAD = "id,name,dept"
ANN, BEN, COY = "1,Ann,Dev", "2,Ben,", "3,Coy,Dev"


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    """Return a replay home. Each poll sets its clock."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "staff.csv", HEAD, ANN, BEN)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def history(weft: Weft, name: str = "staff") -> set[Period]:
    """The periods of the tracked table, whose columns are all shown as text."""
    table = weft.catalog.tables.named(name)
    found = periods(log_of(weft.catalog, table))
    values = [found.column(c.name).to_pylist() for c in table.schema.columns if not c.name.startswith("valid_")]
    rows = [tuple(map(str, row)) for row in zip(*values, strict=True)]
    ends = [found.column(each).cast(pa.int64()).to_pylist() for each in ("valid_from", "valid_to")]
    return set(zip(rows, *ends, strict=True))


def row(text: str) -> tuple[str, ...]:
    return tuple(cell or "None" for cell in text.split(","))


def test_a_poll_is_one_transaction_at_one_instant(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["ID"])
    first = weft.poll_source("staff", now=100)
    assert (first.began, first.ended, first.open_rows, first.at) == (2, 0, 2, 100)
    write(file, HEAD, "1,Ann,Ops", COY)
    second = weft.poll_source("STAFF", now=200)
    assert (second.began, second.ended, second.open_rows, second.at) == (2, 2, 2, 200)
    write(file, HEAD, ANN, COY)
    weft.poll_source("staff", now=300)
    states = [(100, [ANN, BEN]), (200, ["1,Ann,Ops", COY]), (300, [ANN, COY])]
    assert history(weft) == coalesced([(at, [row(line) for line in lines]) for at, lines in states])
    table = weft.catalog.tables.named("staff")
    commits = Table(weft.catalog.data / table.path).snapshot().version
    assert (table.rows, table.keys, table.first_ts, table.last_ts) == (8, ("id",), 100, 300)
    assert commits == 3
    assert verify(weft.catalog) == []


def test_an_equal_row_is_no_change(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    assert weft.poll_source("staff", now=150).at is None
    write(file, "name,id,dept", "Ben,2,", "Ann,1,Dev")  # the same rows, otherwise written
    assert weft.poll_source("staff", now=200).at is None
    assert weft.catalog.tables.named("staff").rows == 2
    assert weft.catalog.reservations.still_open() == ()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([HEAD], "is empty, but had 2 rows"),
        ([HEAD, ANN, "2,Ben"], "2 cells, but the header has 3"),
        ([HEAD, ANN, "two,Ben,"], "not of the column's type: id"),
        ([HEAD, ANN, "1,Ben,"], r"several rows with the same key \(id\): 1: 2 rows"),
        (["id,name", "1,Ann"], "no longer has the column dept"),
        ([HEAD + ",pay", ANN + ",7"], "the file also has pay"),
        ([], "is empty, but had 2 rows"),
    ],
)
def test_an_implausible_poll_changes_nothing(weft: Weft, file: Path, lines: list[str], why: str) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    before = weft.catalog.tables.named("staff")
    write(file, *lines)
    with pytest.raises(WeftError, match=why):
        weft.poll_source("staff", now=200)
    (source,) = weft.sources()
    assert source.trouble is not None and re.search(why, source.trouble)
    assert (weft.catalog.tables.named("staff"), source.open_rows, source.changed_at) == (before, 2, 100)
    write(file, HEAD, ANN)
    assert weft.poll_source("staff", now=300).ended == 1
    assert weft.sources()[0].trouble is None


def test_a_file_that_ends_within_a_line_is_half_written(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    file.write_text(f"{HEAD}\n{ANN}\n2,Be")
    with pytest.raises(ExtractionError):
        weft.poll_source("staff", now=200)
    file.write_text(f"{HEAD}\n{ANN}\n2,Ben,Op")
    with pytest.raises(ExtractionError, match="half written"):
        weft.poll_source("staff", now=200)


def test_a_file_that_never_ended_its_last_line_is_taken(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "staff.csv"
    file.write_text(f"{HEAD}\n{ANN}")
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    file.write_text(f"{HEAD}\n{BEN}")
    assert weft.poll_source("staff", now=200).began == 1


def test_a_source_that_is_away_is_said_to_be(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    file.rename(file.with_suffix(".away"))
    with pytest.raises(WeftError, match="no such file"):
        weft.poll_source("staff", now=200)
    assert "no such file" in (weft.sources()[0].trouble or "")


def test_that_another_poll_was_quicker_is_no_trouble_of_the_source(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    with Weft.open(weft.home, create=True) as other, pytest.raises(Conflict, match="in the meantime"):
        weft.poll_source("staff", now=100, progress=lambda _: other.poll_source("staff", now=50) and None)
    assert weft.sources()[0].trouble is None
    assert history(weft) == {(row(ANN), 50, None), (row(BEN), 50, None)}


def test_evolve_and_allow_empty_accept_a_poll(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    write(file, f"{HEAD},pay", f"{ANN},", f"{BEN},7")
    assert weft.poll_source("staff", now=200, evolve=True).began == 1
    write(file, f"{HEAD},pay")
    assert weft.poll_source("staff", now=300, allow_empty=True).ended == 2
    assert history(weft) == {
        (("1", "Ann", "Dev", "None"), 100, 300),
        (("2", "Ben", "None", "None"), 100, 200),
        (("2", "Ben", "None", "7"), 200, 300),
    }


def test_new_columns_of_a_source_without_rows_are_not_taken(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    write(file, f"{HEAD},pay")
    with pytest.raises(Refused, match="is empty"):
        weft.poll_source("staff", now=200, evolve=True)
    assert weft.poll_source("staff", now=300, evolve=True, allow_empty=True).ended == 2
    write(file, HEAD, ANN)  # the column was a mistake: the source goes on as it was
    assert weft.poll_source("staff", now=400).began == 1
    assert history(weft) == {(row(ANN), 100, 300), (row(BEN), 100, 300), (row(ANN), 400, None)}


def test_json_lines_without_a_line_have_no_row(weft: Weft, tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", '{"id": 1}')
    weft.add_source("a", "jsonl", str(lines), ["id"])
    weft.poll_source("a", now=100)
    write(lines)
    assert weft.poll_source("a", now=200, allow_empty=True).ended == 1


def test_a_file_without_a_byte_has_no_row(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", file, "id")
    weft.poll_source("staff", now=100)
    file.write_bytes(b"")
    with pytest.raises(Refused, match="is empty, but had 2 rows"):
        weft.poll_source("staff", now=200)
    assert weft.poll_source("staff", now=200, allow_empty=True).ended == 2


def test_a_column_ts_can_be_left_out(weft: Weft, tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "id,ts", "1,2026-01-01")
    with pytest.raises(Refused, match="the column name ts is reserved") as refused:
        weft.add_source("a", "csv", file, "id")
    assert "--columns" in str(refused.value.hint)
    weft.add_source("a", "csv", file, "id", columns="id")
    assert weft.poll_source("a", now=100).began == 1


def test_columns_and_types_can_be_chosen(weft: Weft, file: Path) -> None:
    from weft.algebra.schema import STRING

    weft.add_source("staff", "csv", str(file), ["id"], columns=[("id", STRING), ("dept", None)])
    weft.poll_source("staff", now=100)
    write(file, "id,name,dept,more", "x1,Ann,Dev,", "2,Ben,,7")
    weft.poll_source("staff", now=200)
    assert history(weft) == {(("1", "Dev"), 100, 200), (("x1", "Dev"), 200, None), (("2", "None"), 100, None)}


def test_json_lines_and_parquet_are_tracked_alike(weft: Weft, tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", '{"id": 1, "name": "Ann", "tags": [1, 2]}', '{"id": 2, "name": null}')
    weft.add_source("a", "jsonl", str(lines), ["id"])
    weft.poll_source("a", now=100)
    write(lines, '{"id": 1, "name": "Ann", "tags": [1, 3]}', '{"id": 2}')
    weft.poll_source("a", now=200)
    write(lines, "")
    with pytest.raises(Refused, match="is empty, but had 2 rows"):
        weft.poll_source("a", now=250)
    assert history(weft, "a") == {
        (("1", "Ann", "[1,2]"), 100, 200),
        (("1", "Ann", "[1,3]"), 200, None),
        (("2", "None", "None"), 100, None),
    }
    parquet = tmp_path / "b.parquet"
    pq.write_table(pa.table({"id": [1, 2], "x": [1.5, None]}), parquet)
    weft.add_source("b", "parquet", str(parquet), ["id"])
    weft.poll_source("b", now=300)
    parquet.write_bytes(parquet.read_bytes()[:-20])
    with pytest.raises(ExtractionError) as damaged:
        weft.poll_source("b", now=400)
    assert "half written" in str(damaged.value.hint)
    assert history(weft, "b") == {(("1", "1.5"), 300, None), (("2", "None"), 300, None)}


def test_parquet_with_a_type_that_cannot_be_read_is_refused(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "n": pa.nulls(1, pa.decimal256(50, 2))}), file)
    with pytest.raises(ExtractionError, match="type that Weft cannot read"):
        weft.add_source("a", "parquet", str(file), ["id"])


def test_a_table_of_sqlite_is_tracked(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as shop:
        shop.executescript(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name, price, made, raw);"
            "INSERT INTO item VALUES (1, 'a', 1.5, '2026-01-01', x'00ff'), (2, '', NULL, NULL, NULL);"
        )
        weft.add_source("item", "sqlite", str(file), ["id"])
        table = weft.catalog.tables.named("item")
        kinds = [str(column.type) for column in table.schema.columns][:5]
        assert kinds == ["BIGINT", "STRING", "DOUBLE", "DATE", "BINARY"]
        assert weft.poll_source("item", now=100).began == 2
        assert weft.poll_source("item", now=150).at is None
        shop.executescript(
            "PRAGMA journal_mode = WAL; UPDATE item SET price = 2 WHERE id = 1; DELETE FROM item WHERE id = 2"
        )
        assert weft.poll_source("item", now=200).ended == 2  # while another connection has it open
        shop.execute("CREATE TABLE other (x)")
        shop.execute("UPDATE item SET made = 'soon'")
        shop.commit()
        with pytest.raises(ExtractionError, match="not of the column's type: made"):
            weft.poll_source("item", now=300)
        shop.executescript("UPDATE item SET made = NULL; ALTER TABLE item ADD COLUMN stock; UPDATE item SET stock = 7")
        with pytest.raises(Refused, match="has new columns: stock"):
            weft.poll_source("item", now=300)
        weft.poll_source("item", now=300, evolve=True)
    day, raw = "2026-01-01", str(bytes([0, 255]))
    assert history(weft, "item") == {
        (("1", "a", "1.5", day, raw, "None"), 100, 200),
        (("2", "", "None", "None", "None", "None"), 100, 200),
        (("1", "a", "2.0", day, raw, "None"), 200, 300),
        (("1", "a", "2.0", "None", raw, "7"), 300, None),
    }
    with pytest.raises(Refused, match=r"the database has \d+ tables"):
        weft.add_source("again", "sqlite", str(file), ["id"])
    file.write_bytes(b"no database at all, whatever its name says" * 9)
    with pytest.raises(ExtractionError, match="cannot be read"):
        weft.poll_source("item", now=400)


def test_instants_move_forward(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=500)
    write(file, HEAD, ANN)
    late = weft.poll_source("staff", now=400)
    assert (late.at, late.late) == (501, True)
    with pytest.raises(ClockError), Weft.open(weft.home.parent / "wall", create=True) as wall:
        wall.add_source("staff", "csv", str(file), ["id"])
        wall.poll_source("staff", now=400)


def test_a_change_may_be_dated_by_its_file(weft: Weft, file: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"], ts="file")
    os.utime(file, ns=(0, 5_000_000))
    assert weft.poll_source("staff", now=9_000).at == 5_000
    write(file, HEAD, ANN)
    os.utime(file, ns=(0, 4_000_000))
    late = weft.poll_source("staff", now=9_000)
    assert (late.at, late.late) == (5_001, True)


def test_an_invalid_source_is_refused(weft: Weft, file: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="needs a key"):
        weft.add_source("staff", "csv", str(file), [])
    with pytest.raises(Refused, match="no column 'nr'"):
        weft.add_source("staff", "csv", str(file), ["nr"])
    with pytest.raises(Refused, match="no column 'valid_from'"):
        weft.add_source("staff", "csv", str(file), ["id", "valid_from"])
    with pytest.raises(Refused, match="a column twice"):
        weft.add_source("staff", "csv", str(file), ["id", "ID"])
    with pytest.raises(Refused, match="name of a column that Weft adds"):
        weft.add_source("own", "csv", str(write(tmp_path / "own.csv", "id,Valid_From", "1,2")), ["id"])
    weft.add_source("staff", "csv", str(file), ["id"])
    with pytest.raises(Conflict):
        weft.add_source("Staff", "csv", str(file), ["id"])
    with pytest.raises(Refused, match="is a tracked table"):
        weft.ingest_file(file, "staff")


def test_a_source_may_be_removed_and_another_go_on(weft: Weft, file: Path, tmp_path: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    weft.remove_source("staff")
    assert weft.sources() == ()
    with pytest.raises(Refused, match="other columns or another key"):
        weft.add_source("staff", "csv", str(file), ["name"])
    weft.add_source("staff", "csv", write(tmp_path / "moved.csv", HEAD, ANN), "id")
    assert weft.sources()[0].open_rows == 2
    assert weft.poll_source("staff", now=200).ended == 1


POINTS = ("source.reserved", "source.written", "source.committed")


def test_every_failpoint_of_a_source_is_killed_at() -> None:
    found = {n for path in SOURCES.rglob("*.py") for n in re.findall(r'failpoint\("(source\.\w+)"\)', path.read_text())}
    # test_feeds_of_several_tables.py, test_logical_decoding.py, test_live_mail.py
    of_feeds = {"source.staged", "source.recorded", "source.read"}
    assert found == {*POINTS, *of_feeds}


@pytest.mark.parametrize("point", POINTS)
def test_a_poll_that_was_killed_is_made_again(weft: Weft, file: Path, point: str) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    weft.poll_source("staff", now=100)
    write(file, HEAD, ANN, COY)
    home = str(weft.home)
    command = [sys.executable, "-m", "weft", "source", "poll", "--home", home, "--now", "1970-01-01T00:00:01Z"]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    weft.poll_source("staff", now=2_000_000)
    instant = 2_000_000 if point == "source.reserved" else 1_000_000
    assert history(weft) == {
        (row(ANN), 100, None),
        (row(BEN), 100, instant),
        (row(COY), instant, None),
    }
    (source,) = weft.sources()
    assert (source.open_rows, source.trouble, source.changed_at) == (2, None, instant)
    assert verify(weft.catalog) == []
    assert weft.catalog.reservations.still_open() == ()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_source_with_a_column_ts_is_tracked_under_another_name(weft: Weft, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"staff.{kind}"

    def hold(*dates: str) -> None:
        rows = [{"id": number, "ts": date, "who": "Ann"} for number, date in enumerate(dates)]
        if kind == "csv":
            write(path, "id,ts,who", *(",".join(map(str, each.values())) for each in rows))
        elif kind == "jsonl":
            write(path, *map(json.dumps, rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)

    hold("a", "b")
    with pytest.raises(Refused, match="the column name ts is reserved") as refused:
        weft.add_source("staff", kind, path, "id")  # type: ignore[arg-type]
    assert "--rename ts=changed_at" in str(refused.value)
    weft.add_source("staff", kind, path, "id", rename="TS=hired, who=name")  # type: ignore[arg-type]
    weft.poll_source("staff", now=100)
    hold("a", "c")
    weft.poll_source("staff", now=200)
    assert {each for each, *_ in history(weft)} == {("0", "a", "Ann"), ("1", "b", "Ann"), ("1", "c", "Ann")}
    assert [c.name for c in weft.catalog.tables.named("staff").schema.columns][:3] == ["id", "hired", "name"]


def test_a_past_may_be_dated_by_a_column_ts(weft: Weft, file: Path, tmp_path: Path) -> None:
    weft.add_source("staff", "csv", str(file), ["id"])
    past = write(tmp_path / "past.csv", f"{HEAD},ts", f"{ANN},2020-01-01", f"{ANN},2020-01-02", f"{BEN},2020-01-02")
    done = weft.load_past("staff", past, "ts")
    assert (done.began, done.ended) == (2, 0)


def test_only_columns_of_files_are_renamed(weft: Weft, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--rename is only for files"):
        weft.add_source("staff", "sqlite", tmp_path / "x.db", "id", rename="a=b")
