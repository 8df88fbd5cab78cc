from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, DataType
from weft.catalog import Catalog, open_catalog
from weft.catalog.loads import UnreadableRecord
from weft.errors import CatalogError, Conflict, NotFound, Refused
from weft.instants import MIN_INSTANT
from weft.schedule.clock import now_us

Opened = Callable[..., Catalog]


@pytest.fixture
def catalog(tmp_path: Path, opened: Opened) -> Catalog:
    return opened(tmp_path / "home", create=True, clock="replay", at=10)


def is_made_at(instant: int | None, at: int, url: str | None) -> bool:
    """Return whether a home was made at the time ``at`` of this machine, or else at the time of the server."""
    return instant == at if url is None else instant is not None and abs(instant - now_us()) < 3_600_000_000


def test_a_home_is_made_once_and_keeps_its_id_and_clock(tmp_path: Path, opened: Opened, url: str | None) -> None:
    with opened(tmp_path, create=True, clock="replay", at=10) as made:
        first = made.home()
    with opened(tmp_path, create=True, clock="wall", at=99) as again:
        assert again.home() == first
    assert first.clock == "replay"
    assert is_made_at(first.created_at, 10, url)
    assert first.watermark == first.last_ts == MIN_INSTANT
    assert first.now is None
    assert first.t0 is None


def test_time_begins_on_a_wall_home_when_it_is_made(tmp_path: Path, opened: Opened, url: str | None) -> None:
    with opened(tmp_path, create=True, at=10) as made:
        assert is_made_at(made.home().t0, 10, url)


def test_another_folder_than_a_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="not a Weft home"):
        open_catalog(tmp_path, at=0)
    (tmp_path / "catalog.sqlite").touch()
    with pytest.raises(CatalogError, match="not a Weft home"):
        open_catalog(tmp_path, at=0)


def test_a_catalog_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    open_catalog(tmp_path, create=True, at=0).close()
    (tmp_path / "tables" / "1-msgs").mkdir(parents=True)
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    for create in (True, False):
        with pytest.raises(CatalogError, match="missing, but the data exists") as refused:
            open_catalog(tmp_path, create=create, at=0)
        assert refused.value.hint
    (tmp_path / "catalog.sqlite").touch()
    with pytest.raises(CatalogError, match="missing, but the data exists"):
        open_catalog(tmp_path, create=True, at=0)


def test_a_damaged_catalog_is_said_to_be_damaged(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(CatalogError, match="not a database") as refused:
        open_catalog(tmp_path, create=True, at=0)
    assert "damaged" in (refused.value.hint or "")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    open_catalog(tmp_path, create=True, at=0).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE home SET format = 99"))
    engine.dispose()
    with pytest.raises(CatalogError, match="format 99"):
        open_catalog(tmp_path, at=0)


def test_a_table_gets_ids_a_path_and_a_last_column_ts(catalog: Catalog) -> None:
    made = catalog.tables.create("msgs", [("msgid", STRING), ("n", DataType("DECIMAL", 10, 2))], ["MSGID"], None)
    assert made.path == "tables/1-msgs"
    assert [(c.id, c.name, str(c.type), c.nullable) for c in made.schema.columns] == [
        (1, "msgid", "STRING", True),
        (2, "n", "DECIMAL(10,2)", True),
        (3, "ts", "TIMESTAMP", False),
    ]
    assert (made.rows, made.version, made.first_ts, made.last_ts) == (0, -1, None, None)
    assert catalog.tables.named("MSGS") == made == catalog.tables.by_id(1)
    assert catalog.tables.all() == (made,)


def test_a_given_ts_keeps_its_place(catalog: Catalog) -> None:
    made = catalog.tables.create("t", [("ts", TIMESTAMP), ("a", BIGINT)])
    assert [c.name for c in made.schema.columns] == ["ts", "a"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("../t", [("a", BIGINT)]),
        ("1t", [("a", BIGINT)]),
        ("t", [("a", BIGINT), ("A", STRING)]),
        ("t", [("ts", STRING)]),
        ("t", [("_own_time", BIGINT)]),
        ("t", [(" ", BIGINT)]),
        ("t", [("a", DataType("INTERVAL"))]),
    ],
)
def test_names_and_columns_that_cannot_be(catalog: Catalog, name: str, columns: list[tuple[str, DataType]]) -> None:
    with pytest.raises(Refused):
        catalog.tables.create(name, columns)
    assert catalog.tables.all() == ()


def test_keys_and_ts_from_name_columns(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="no column 'b'"):
        catalog.tables.create("t", [("a", BIGINT)], ["b"], None)
    with pytest.raises(Refused, match="no column 'when'"):
        catalog.tables.create("t", [("a", BIGINT)], None, "when")


def test_keys_are_the_columns_own_names_once_and_never_ts(catalog: Catalog) -> None:
    made = catalog.tables.create("t", [("Id", BIGINT), ("When", TIMESTAMP)], ["ID", "id"], "when")
    assert (made.keys, made.ts_from) == (("Id",), "When")
    with pytest.raises(Refused, match="ts cannot be a key"):
        catalog.tables.create("u", [("a", BIGINT)], ["a", "TS"])
    assert [table.name for table in catalog.tables.all()] == ["t"]


def test_a_name_is_taken_in_any_case(catalog: Catalog) -> None:
    catalog.tables.create("t", [("a", BIGINT)])
    with pytest.raises(Conflict):
        catalog.tables.create("T", [("a", BIGINT)])


def test_a_misspelt_table_gets_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="no table yet"):
        catalog.tables.named("mesages")
    catalog.tables.create("messages", [("a", BIGINT)])
    with pytest.raises(NotFound, match="Did you mean messages"):
        catalog.tables.named("Mesages")
    with pytest.raises(NotFound, match="Known names: messages"):
        catalog.tables.named("zzz")


def test_evolving_adds_nullable_columns_under_new_ids(catalog: Catalog) -> None:
    catalog.tables.create("t", [("a", BIGINT)])
    evolved = catalog.tables.evolve("t", [("b", STRING)])
    assert [(c.id, c.name, c.nullable) for c in evolved.schema.columns] == [
        (1, "a", True),
        (2, "ts", False),
        (3, "b", True),
    ]
    with pytest.raises(Conflict):
        catalog.tables.evolve("t", [("B", STRING)])


def test_loads_are_known_by_digest_once_they_are_finished(catalog: Catalog) -> None:
    table = catalog.tables.create("t", [("a", BIGINT)]).table_id
    load = catalog.loads.begin(table, "a.csv", "file", "abc", 20)
    assert not catalog.loads.loaded(table, "abc")
    catalog.loads.finish(load, 5, 4, 3, 2, 30)
    assert catalog.loads.loaded(table, "abc")
    assert not catalog.loads.loaded(table, "abd")
    (record,) = catalog.loads.latest()
    assert (record.stored, record.known, record.quarantined, record.late, record.finished_at) == (5, 4, 3, 2, 30)
    with pytest.raises(CatalogError):
        catalog.loads.finish(99, 0, 0, 0, 0, 0)
    with pytest.raises(CatalogError, match="violates a constraint"):
        catalog.loads.begin(99, "b", "file", None, 0)


def test_the_quarantine_keeps_a_record_once(catalog: Catalog) -> None:
    table = catalog.tables.create("t", [("a", BIGINT)]).table_id
    load = catalog.loads.begin(table, "box", "mail", None, 20)
    first, second = (UnreadableRecord("box", place, "no Message-ID", "ff", 100, "{}") for place in ("12", "13"))
    assert catalog.quarantine.add(load, table, [first, first], 21, lambda: None) == 1
    again = catalog.loads.begin(table, "box", "mail", None, 30)
    assert catalog.quarantine.add(again, table, [first, second], 31, lambda: None) == 1
    assert [(each.load_id, each.at) for each in catalog.quarantine.all()] == [(again, 21), (again, 31)]
    kept = catalog.quarantine.all()[0].quarantine_id
    assert [each.position for each in catalog.quarantine.all()] == ["12", "13"]
    catalog.quarantine.settle(kept, "retried")
    assert [each.position for each in catalog.quarantine.all()] == ["13"]
    assert [each.state for each in catalog.quarantine.all(None)] == ["retried", "open"]
    with pytest.raises(NotFound):
        catalog.quarantine.settle(99, "retried")
