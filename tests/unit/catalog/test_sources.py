"""Tracked tables and their sources in the catalog, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.catalog.conftest import Opened
from weft.algebra.schema import BIGINT, STRING
from weft.catalog import Catalog
from weft.errors import Conflict, NotFound, Refused

COLUMNS = (("id", BIGINT), ("name", STRING))


@pytest.fixture
def catalog(opened: Opened, tmp_path: Path) -> Catalog:
    made = opened(tmp_path, create=True, at=0)
    table = made.tables.create("staff", COLUMNS, ["ID"], tracked=True)
    made.sources.add(table.table_id, "csv", "/staff.csv", {"columns": None}, "clock", 60, 5)
    return made


def test_a_tracked_table_has_rows_that_end(catalog: Catalog) -> None:
    table = catalog.tables.named("STAFF")
    assert table.tracked and table.keys == ("id",)
    assert (table.schema.start, table.schema.end) == ("valid_from", "valid_to")
    assert [column.name for column in table.schema.columns] == ["id", "name", "valid_from", "valid_to"]
    assert [column.name for column in table.stored.columns] == ["id", "name", "valid_from", "valid_to", "ts"]
    evolved = catalog.tables.evolve("staff", [("pay", BIGINT)])
    assert [(c.id, c.name) for c in evolved.schema.columns][-2:] == [(4, "valid_to"), (6, "pay")]
    for name in ("ts", "Valid_To"):
        with pytest.raises(Refused, match="Weft adds"):
            catalog.tables.create("other", [*COLUMNS, (name, STRING)], ["id"], tracked=True)
        with pytest.raises(Refused):
            catalog.tables.evolve("staff", [(name, STRING)])
    plain = catalog.tables.create("plain", COLUMNS)
    assert not plain.tracked and plain.stored == plain.schema


def test_a_source_is_named_by_its_table(catalog: Catalog) -> None:
    source = catalog.sources.named("Staff")
    assert (source.name, source.kind, source.due_at, source.seen, source.trouble) == ("staff", "csv", 5, {}, None)
    with pytest.raises(NotFound, match="no source 'stav'"):
        catalog.sources.named("stav")
    with pytest.raises(Conflict, match=r"already has a source: /staff\.csv"):
        catalog.sources.add(source.table_id, "csv", "/other.csv", {}, "clock", 60, 6)
    catalog.sources.troubled(source.table_id, 100, "away")
    assert (catalog.sources.all()[0].trouble, catalog.sources.all()[0].due_at) == ("away", 160)
    catalog.sources.polled(source.table_id, 200, 3, {"sha256": "x"})
    found = catalog.sources.named("staff")
    assert (found.trouble, found.open_rows, found.seen, found.due_at) == (None, 3, {"sha256": "x"}, 260)
    writer = catalog.writer("tests", "tests", 0)
    writer.sources.remove(source.table_id)
    assert catalog.sources.all() == () and catalog.tables.named("staff").tracked


@pytest.mark.parametrize("committed", [True, False])
def test_the_position_counts_after_the_commit(catalog: Catalog, committed: bool) -> None:
    table = catalog.tables.named("staff")
    writer = catalog.writer("tests", "tests", 0)
    load = writer.loads.begin(table.table_id, "/staff.csv", "poll", None, 0)
    kept = writer.reservations.reserve(table.table_id, load, 10)
    writer.sources.intend([(table.table_id, kept.reservation_id, {"end": 7})])
    assert writer.sources.named("staff").seen == {}
    if committed:
        writer.reservations.commit(kept.reservation_id, 1, 2, 10, 12)
    else:
        writer.reservations.abandon(kept.reservation_id)
    writer.sources.settle(table.table_id)
    writer.sources.settle(table.table_id)
    found = writer.sources.named("staff")
    assert (found.seen, found.changed_at) == (({"end": 7}, 12) if committed else ({}, None))
