"""Tables of a real PostgreSQL server as sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.extraction.test_sources import history
from weft.api import Weft
from weft.errors import ExtractionError, NotFound, Refused


def test_a_table_is_tracked_with_its_types(postgresql: str, tmp_path: Path) -> None:
    import psycopg

    with (
        psycopg.connect(postgresql, autocommit=True) as shop,
        Weft.open(tmp_path / "home", clock="replay", create=True) as weft,
    ):
        shop.execute(
            'CREATE SCHEMA shop; CREATE TABLE shop."Item" (id int PRIMARY KEY, name varchar(9), price numeric(8, 2), '
            "any_number numeric, made timestamptz, day date, ok bool, raw bytea, x float8)"
        )
        shop.execute(
            "INSERT INTO shop.\"Item\" VALUES (1, 'a', 1.5, 2.25, '2026-01-01 01:00+01', '2026-01-02', true, "
            "'\\x00ff', 0.1), (2, '', NULL, NULL, NULL, NULL, NULL, NULL, 'NaN')"
        )
        weft.add_source("item", "postgres", postgresql, ["id"], table="shop.Item")
        kinds = [str(column.type) for column in weft.catalog.tables.named("item").schema.columns][:9]
        assert kinds == ["INT", "STRING", "DECIMAL(8,2)", "STRING", "TIMESTAMP", "DATE", "BOOLEAN", "BINARY", "DOUBLE"]
        assert weft.poll_source("item", now=100).began == 2
        assert weft.poll_source("item", now=150).at is None
        shop.execute('UPDATE shop."Item" SET x = 0.2 WHERE id = 1; DELETE FROM shop."Item" WHERE id = 2')
        assert weft.poll_source("item", now=200).ended == 2
        message = {(row[0], row[2], row[7], row[8], begin, end) for row, begin, end in history(weft, "item")}
        raw = str(bytes([0, 255]))
        assert message == {
            ("1", "1.50", raw, "0.1", 100, 200),
            ("1", "1.50", raw, "0.2", 200, None),
            ("2", "None", "None", "nan", 100, 200),
        }
        shop.execute('ALTER TABLE shop."Item" ADD COLUMN stock int')
        with pytest.raises(Refused, match="has new columns: stock"):
            weft.poll_source("item", now=300)
        assert weft.poll_source("item", now=300, evolve=True).at is None  # it is NULL everywhere
        shop.execute("UPDATE shop.\"Item\" SET made = 'infinity'")
        with pytest.raises(ExtractionError, match=r"^row 1 cannot be read"):
            weft.poll_source("item", now=400)
        shop.execute('DROP TABLE shop."Item"')
        with pytest.raises(NotFound, match="does not exist"):
            weft.poll_source("item", now=400)
        assert weft.sources()[0].open_rows == 1


def test_a_history_goes_on_with_columns_of_its_own_types(postgresql: str, tmp_path: Path) -> None:
    import psycopg

    with (
        psycopg.connect(postgresql, autocommit=True) as shop,
        Weft.open(tmp_path / "home", clock="replay", create=True) as weft,
    ):
        shop.execute("CREATE TABLE room (id int PRIMARY KEY, floor int); INSERT INTO room VALUES (1, 2)")
        weft.add_source("room", "postgres", postgresql, "id", table="room")
        weft.poll_source("room", now=100)
        weft.remove_source("room")
        shop.execute("ALTER TABLE room ALTER COLUMN floor TYPE text")
        with pytest.raises(Refused, match="floor is STRING at the source, but INT in the history of room") as refused:
            weft.add_source("room", "postgres", postgresql, "id", table="room")
        assert '--columns "id INT, floor INT"' in str(refused.value.hint)
        columns = [("id", None), ("floor", weft.catalog.tables.named("room").schema.column("floor").type)]
        weft.add_source("room", "postgres", postgresql, "id", table="room", columns=columns)
        assert weft.poll_source("room", now=200).at is None


def test_unreadable_tables_are_reported_without_a_secret(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        for uri in ("postgresql://anna:secret@localhost/shop", "postgresql://localhost/shop?password=secret"):
            with pytest.raises(Refused, match="contains a password") as refused:
                weft.add_source("item", "postgres", uri, ["id"], table="item")
            assert "secret" not in str(refused.value)
        with pytest.raises(Refused, match="not a PostgreSQL URI"):
            weft.add_source("item", "postgres", "shop.db", ["id"], table="item")
        with pytest.raises(ExtractionError, match="PostgreSQL cannot be read"):
            weft.add_source("item", "postgres", "postgresql:///shop?host=/nowhere", ["id"], table="item")
