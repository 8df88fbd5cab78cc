"""`weft destroy`: what it deletes, what it leaves, and when it is refused."""

from __future__ import annotations

import builtins
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import forked
from postgresql_server import Server
from s3_server import environment, new_bucket
from unit.cli.conftest import Output
from weft.api import Weft
from weft.catalog import layout
from weft.cli import terminal
from weft.errors import CatalogError, LeaseBusy, NotFound
from weft.schedule.runner import ticking_alone
from weft.store import LocalStore, S3Access
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


def test_a_home_on_a_disk_is_deleted_except_files_of_others(
    weft: Callable[..., Output], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(home)
    (home / "mine.txt").write_text("mine")
    output = weft("destroy", str(home))
    assert output.code == 2 and "Add --yes" in output.err
    monkeypatch.setattr(terminal, "stdin_is_terminal", lambda: True)
    monkeypatch.setattr(builtins, "input", lambda _: "another")
    assert "nothing was deleted" in weft("destroy", str(home)).err
    assert weft("tables", "--home", str(home)).code == 0
    monkeypatch.setattr(builtins, "input", lambda _: str(home))
    output = weft("destroy", str(home))
    assert output.code == 0 and str(home / "mine.txt") in output.out, output.err
    assert sorted(walk_all(home)) == ["files/all.csv", "mine.txt"]
    with pytest.raises(NotFound):
        Weft.open(home)


def walk_all(home: Path) -> list[str]:
    return [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]


def test_the_schema_and_the_objects_go_too(
    weft: Callable[..., Output],
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
        output = weft("destroy", str(home.with_name(schema)), "--yes", "--json")
        assert output.code == 0, output.err
        assert [Path(each).name for each in output.json["kept"]] == ["files"]
    assert schemas(url) & {"one", "two"} == {"two"}
    with closing(psycopg.connect(url)) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'two'"
        assert connection.execute(query).fetchall() == [("mine",)]
    assert set(walk(bucket)) == {"shop/mine"}
    made(home.with_name("one"), catalog=f"{url}&schema=one", store=(bucket / "shop/one").uri)


def test_a_home_that_works_is_not_deleted(weft: Callable[..., Output], home: Path) -> None:
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


POINTS = (
    *("destroy.noted", "destroy.dropped", "destroy.unmarked"),
    *(f"destroy.cleared:{number}" for number in (1, len(layout.DATA))),
    *(f"destroy.removed:{number}" for number in (1, len(layout.OF_FOLDER) - 1)),
)


def kill(home: Path, point: str) -> None:
    """Delete a home in a process that dies at the failpoint."""
    died = forked.run([sys.executable, "-m", "weft", "destroy", str(home), "--yes"], point, text=True)
    assert died.returncode == -signal.SIGKILL, (point, died.stderr)


def test_an_interrupted_deletion_continues(weft: Callable[..., Output], home: Path, tmp_path: Path) -> None:
    made(tmp_path / "template")
    for point in POINTS:
        shutil.copytree(tmp_path / "template", home)
        kill(home, point)
        if point == "destroy.noted":
            assert weft("tables", "--home", str(home)).code == 0
        else:
            for command in (("tables", "--home"), ("init",)):
                assert "`weft destroy` with this folder again" in weft(*command, str(home)).err, point
        output = weft("destroy", home.name, "--json", *(["--yes"] if point == "destroy.noted" else []))
        assert output.code == 0 and output.json["kept"] == [str(home / "files")], (point, output.err)
        assert walk_all(home) == ["files/all.csv"]
        shutil.rmtree(home)


def test_an_error_leaves_a_deletion_that_continues(
    weft: Callable[..., Output], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(home)
    shutil.move(home / "tables", tmp_path / "elsewhere")
    (home / "tables").symlink_to(tmp_path / "elsewhere")

    def fails(place: LocalStore) -> None:
        raise OSError(5, "Input/output error", place.path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "clear", fails)
        assert "run `weft destroy` again: it continues" in weft("destroy", str(home), "--yes").err
    assert weft("destroy", str(home)).code == 0
    assert walk_all(home) == ["files/all.csv"] and list((tmp_path / "elsewhere").iterdir())


def test_an_interrupted_deletion_continues_on_servers(
    weft: Callable[..., Output], home: Path, url: str, s3_access: S3Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    bucket = new_bucket(s3_access)
    for point in ("destroy.cleared:2", POINTS[-1]):
        made(home, catalog=url, store=(bucket / "shop").uri)
        kill(home, point)
        settings = home / "weft.toml"
        if settings.exists():
            kept = settings.read_text()
            settings.write_text(kept.replace("/shop", "/another"))
            assert "began with other places" in weft("destroy", str(home)).err
            settings.write_text(kept)
        output = weft("destroy", str(home), "--json")
        assert (output.code, output.json["catalog"], output.json["store"]) == (0, url, (bucket / "shop").uri), (
            output.err
        )
        assert walk_all(home) == ["files/all.csv"] and set(walk(bucket)) == set() and "weft" not in schemas(url)
        shutil.rmtree(home)
