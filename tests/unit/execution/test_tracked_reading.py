"""What the driver reads of tracked tables: periods, whichever way their log is read."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from coalesced import Period, coalesced
from weft.algebra.access import Key
from weft.api import Weft
from weft.errors import SqlError
from weft.execution.driver_reader import BOUNDS, DriverReader, ReadBounds, Reading
from weft.execution.look_ups import LookUps
from weft.execution.reader import files_of
from weft.execution.relations import relations
from weft.planning.plan import plan
from weft.storage.delta_log import DeltaSnapshot
from weft.storage.slices import Slice

STATES = {
    10: [(1, "Ann", "Dev"), (2, "Ben", "Dev"), (3, "Coy", None)],
    20: [(1, "Ann", "Ops"), (2, "Ben", "Dev"), (3, "Coy", None)],
    30: [(1, "Ann", "Dev"), (3, "Coy", None)],
    40: [(1, "Ann", "Dev"), (2, "Ben", "Dev"), (3, "Coy", "Dev")],
    50: [(2, "Ben", "Dev")],
}
HISTORY = coalesced(sorted(STATES.items()))


@pytest.fixture(scope="module")
def weft(tmp_path_factory: pytest.TempPathFactory) -> Weft:
    """A home whose table staff has a commit a state; the arrangements of its columns are far behind, or not there."""
    folder = tmp_path_factory.mktemp("tracked")
    file = folder / "staff.jsonl"
    opened = Weft.open(folder / "home", clock="replay", create=True)
    for at, rows in STATES.items():
        lines = [json.dumps({"id": key, "name": name, "dept": dept}) for key, name, dept in rows]
        file.write_text("".join(f"{line}\n" for line in lines))
        if at == 10:
            opened.add_source("staff", "jsonl", str(file), ["id"])
        opened.poll_source("staff", now=at)
    return opened


def reader(weft: Weft, bounds: ReadBounds = BOUNDS) -> DriverReader:
    tables = relations(weft.catalog, [])
    snapshots: dict[str, DeltaSnapshot | None] = {}
    look_ups = LookUps(weft.home / "arrangements")
    return DriverReader(tables, lambda name: files_of(weft.catalog.data, tables[name], snapshots), bounds, look_ups)


def period_rows(found: Reading) -> list[Period]:
    assert found.rows is not None
    values = [found.rows.column(name).to_pylist() for name in ("id", "name", "dept")]
    ends = [found.rows.column(name).cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to")]
    return list(zip(zip(*values, strict=True), *ends, strict=True))


ALL = ["id", "name", "dept", "valid_to"]


def test_the_whole_table_is_its_periods(weft: Weft) -> None:
    found = period_rows(reader(weft).whole("staff", ALL))
    assert set(found) == HISTORY and len(found) == len(HISTORY)
    some = reader(weft).whole("staff", ["dept"])
    assert some.rows is not None and some.rows.data.column_names == ["dept", "valid_from"]
    assert some.rows.data.num_rows == len(HISTORY)


@pytest.mark.parametrize("low", [None, 10, 20, 21, 40, 51])
@pytest.mark.parametrize("length", [1, 15, 100])
@pytest.mark.parametrize("column", ["valid_from", "valid_to"])
def test_news_have_every_period_that_begins_or_ends_in_a_slice(
    weft: Weft, column: str, low: int | None, length: int
) -> None:
    high = (low or 0) + length
    found = period_rows(reader(weft).news("staff", [Slice(column, low, high)], ALL))
    place = 1 if column == "valid_from" else 2
    inside = {p for p in HISTORY if p[place] is not None and (low or 0) <= p[place] < high}
    assert inside <= set(found) <= HISTORY
    assert len(found) == len(set(found))


@pytest.mark.parametrize("bounds", [ReadBounds(), ReadBounds(filtered=-1)], ids=["whole", "arranged"])
@pytest.mark.parametrize(("column", "keys"), [("id", [1, 3]), ("dept", ["Dev"]), ("name", ["Zed"])])
def test_look_ups_find_the_periods_of_their_keys(weft: Weft, bounds: ReadBounds, column: str, keys: list[Any]) -> None:
    found = reader(weft, bounds).lookup("staff", {Key(column): [pa.chunked_array([keys])]}, ALL)
    place = ["id", "name", "dept"].index(column)
    assert found.by == ("driver" if bounds.filtered > 0 else "arrangement")
    assert sorted(period_rows(found), key=repr) == sorted((p for p in HISTORY if p[0][place] in keys), key=repr)


def test_ends_are_not_looked_up_in_arrangements(weft: Weft) -> None:
    wanted = {Key("valid_to"): [pa.chunked_array([pa.array([20], pa.timestamp("us", "UTC"))])]}
    assert reader(weft, ReadBounds(filtered=-1)).lookup("staff", wanted, ALL).by == "Spark"
    assert {each[2] for each in period_rows(reader(weft).lookup("staff", wanted, ALL))} == {20}


def test_periods_are_no_part_of_a_row_but_can_be_named(weft: Weft) -> None:
    schemas = weft.schemas()
    names = [name for name, _ in _columns("SELECT * FROM staff", schemas)]
    assert names == ["id", "name", "dept"]
    assert [name for name, _ in _columns("SELECT s.*, s.valid_to FROM staff s", schemas)][-1] == "valid_to"
    inner = "SELECT * FROM (SELECT id, valid_from AS since FROM staff WHERE valid_to IS NULL) AS d"
    assert [name for name, _ in _columns(inner, schemas)] == ["id", "since"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM staff WHERE valid_to IS NOT NULL",
        "SELECT s.id, s.valid_to FROM staff s",
        "SELECT d.id FROM (SELECT id, valid_to AS gone FROM staff) AS d",
        "SELECT a.id FROM staff a WHERE NOT EXISTS (SELECT * FROM staff b WHERE b.valid_to > a.valid_from)",
    ],
)
def test_a_standing_query_cannot_speak_of_the_end_of_a_row(weft: Weft, text: str) -> None:
    """An answer would depend on when the query was asked: the end is recorded after the row was an answer."""
    with pytest.raises(SqlError, match="cannot use valid_to") as refused:
        weft.install("q", text)
    assert "weft view add" in str(refused.value.hint)


def test_a_standing_query_may_speak_of_the_beginning_of_a_row(weft: Weft) -> None:
    assert weft.install("since", "SELECT id, valid_from FROM staff").name == "since"


def _columns(text: str, schemas: Any) -> Any:
    from weft.planning.plan import columns_of

    return columns_of(plan(text, schemas).query)


def test_an_installed_query_is_foreseen(weft: Weft) -> None:
    text = "SELECT s.name FROM staff s WHERE NOT EXISTS (SELECT * FROM staff t WHERE t.dept = s.dept AND t.id < s.id)"
    weft.install("eldest", text)
    foreseen = weft.explain_tick("eldest")
    assert foreseen.quiet is None and foreseen.way == "duckdb"
