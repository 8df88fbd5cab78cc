"""`weft destroy`: what it deletes, what it leaves, and when it is refused."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from postgresql_server import Server
from s3_server import environment, new_bucket
from unit.cli.conftest import Told
from weft.api import Weft
from weft.cli import terminal
from weft.errors import CatalogError, LeaseBusy, NotFound
from weft.schedule.runner import ticking_alone
from weft.store import S3Access
from weft.store.transfer import walk


def made(home: Path, **options: str) -> None:
    """Make a home with a table, a delivered answer and a record in quarantine."""
    rows = home.with_name("o.csv")
    rows.write_text("id,at\n1,1997-03-01\n2,1997-03-02,x\n")
    with Weft.open(home, create=True, clock="replay", **options) as weft:  # type: ignore[arg-type]
        weft.ingest_file(rows, "orders", ts_from="at")
        weft.install("all", "SELECT o.id FROM orders o", keep="synopsis", to="file:all.csv", user="maya")
        weft.tick(now="1997-03-05")
        assert len(weft.quarantined()) == 1


def schemas(url: str) -> set[str]:
    with closing(psycopg.connect(url)) as connection:
        return {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace").fetchall()}


def test_a_home_on_a_disk_is_deleted_except_what_is_not_wefts_own(
    weft: Callable[..., Told], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(home)
    (home / "mine.txt").write_text("mine")
    told = weft("destroy", str(home))
    assert told.code == 2 and "Add --yes" in told.err
    monkeypatch.setattr(terminal, "stdin_is_terminal", lambda: True)
    monkeypatch.setattr(builtins, "input", lambda _: "another")
    assert "nothing was deleted" in weft("destroy", str(home)).err
    assert weft("tables", "--home", str(home)).code == 0
    monkeypatch.setattr(builtins, "input", lambda _: str(home))
    told = weft("destroy", str(home))
    assert told.code == 0 and str(home / "mine.txt") in told.out, told.err
    assert sorted(walk_all(home)) == ["files/all.csv", "mine.txt"]
    with pytest.raises(NotFound):
        Weft.open(home)


def walk_all(home: Path) -> list[str]:
    return [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]


def test_the_schema_and_the_objects_go_too(
    weft: Callable[..., Told],
    home: Path,
    database_server: Server,
    s3_access: S3Access,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    bucket, url = new_bucket(s3_access), database_server.uri(database_server.new_database())
    (bucket / "shop/mine").put(b"mine")
    for schema in ("one", "two"):
        made(home.with_name(schema), catalog=f"{url}&schema={schema}", store=(bucket / "shop" / schema).uri)
    with closing(psycopg.connect(url)) as connection:
        connection.execute("CREATE TABLE two.mine (a INT)")
        connection.commit()
    for schema in ("one", "two"):
        told = weft("destroy", str(home.with_name(schema)), "--yes", "--json")
        assert told.code == 0, told.err
        assert [Path(each).name for each in told.json["kept"]] == ["files"]
    assert schemas(url) & {"one", "two"} == {"two"}
    with closing(psycopg.connect(url)) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'two'"
        assert connection.execute(query).fetchall() == [("mine",)]
    assert set(walk(bucket)) == {"shop/mine"}
    made(home.with_name("one"), catalog=f"{url}&schema=one", store=(bucket / "shop/one").uri)


def test_a_home_that_works_is_not_deleted(weft: Callable[..., Told], home: Path) -> None:
    made(home)
    with Weft.open(home) as opened, Weft.open(home) as other:
        with opened.opened.writing("work"), pytest.raises(LeaseBusy):
            other.destroy()
        with opened.catalog.delivering(opened.opened.clock), pytest.raises(LeaseBusy):
            other.destroy()
        with ticking_alone(home):
            assert "Stop `weft run` or `weft serve` first" in weft("destroy", str(home), "--yes").err
        assert [table.rows for table in opened.tables()] == [1]
        opened.destroy()
        with pytest.raises(CatalogError):
            other.tables()
