"""Loads into real tables: stored once, known the second time, in quarantine where they cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from letters import AT, letter, spool
from weft.algebra.schema import STRING
from weft.catalog import Catalog, open_catalog
from weft.errors import Conflict, Refused
from weft.execution.tables import table_frame
from weft.extraction.ingest import ingest_file, ingest_mail
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.retrying import retry
from weft.extraction.storing import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APRIL = 733_622_400_000_000
DAY = 86_400_000_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(tmp_path / "home", create=True, clock="replay", at=AT)


def home(catalog: Catalog) -> Path:
    return catalog.path


def no_spark() -> Any:
    raise AssertionError("a Spark session was started for nothing")


def rows(spark: SparkSession, catalog: Catalog, table: str, *columns: str) -> list[tuple[Any, ...]]:
    frame = table_frame(spark, home(catalog), catalog.tables.named(table))
    return sorted(tuple(row) for row in frame.selectExpr(*columns).collect())


def articles(*days: int, first: int = 1, **headers: str | None) -> dict[str, bytes]:
    return {
        str(first + n): letter(Message_ID=f"<{first + n}@x>", Date=f"{day} Apr 93 00:00 GMT", **headers)
        for n, day in enumerate(days)
    }


def test_mail_is_stored_once_known_again_and_late_where_it_is(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    files = articles(3, 1, 5, Newsgroups="a.b,c.d") | {"9": b"\0", "8": letter(Date="never")}
    spool(tmp_path / "spool", files)

    def load(*paths: Path) -> Summary:
        return ingest_mail(home(catalog), catalog, lambda: spark, paths, ts_from="date", at=AT)

    assert load(tmp_path / "spool") == Summary("msgs", stored=6, quarantined=2)
    assert load(tmp_path / "spool") == Summary("msgs", known=8)
    found = rows(spark, catalog, "msgs", "msgid", "newsgroup", "unix_micros(ts)")
    assert found == sorted(
        (f"{n}@x", group, APRIL + (day - 1) * DAY) for n, day in ((1, 3), (2, 3), (3, 5)) for group in ("a.b", "c.d")
    )
    spool(tmp_path / "more", articles(2, 6, first=20))
    assert load(tmp_path / "more", tmp_path / "spool") == Summary("msgs", stored=2, known=8, late=1)
    assert catalog.tables.named("msgs").rows == 8
    assert catalog.reservations.still_open() == ()
    kept = catalog.quarantine.all()
    assert [(record.position, quarantined_bytes(home(catalog), record)) for record in kept] == [
        ("8", files["8"]),
        ("9", files["9"]),
    ]


def test_what_was_in_quarantine_is_stored_once_it_can_be_read(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    tomorrow = letter(Date="Fri, 17 Nov 2023 00:00 GMT", Newsgroups=None)
    spool(tmp_path / "comp.x", {"1": tomorrow, "2": b"\0"})
    options = {"ts_from": "date", "at": AT}
    done = ingest_mail(home(catalog), catalog, no_spark, [tmp_path / "comp.x"], **options)  # type: ignore[arg-type]
    assert done == Summary("msgs", quarantined=2)
    tried = retry(home(catalog), catalog, lambda: spark, AT + 9 * DAY)
    assert (tried.read, tried.kept, tried.stored) == (1, 1, 1)
    assert rows(spark, catalog, "msgs", "msgid", "newsgroup") == [("1@x", "comp.x")]
    assert [record.position for record in catalog.quarantine.all()] == ["2"]
    assert retry(home(catalog), catalog, no_spark, AT + 9 * DAY).kept == 1


def file_loader(catalog: Catalog, spark: Callable[[], Any]) -> Callable[..., Summary]:
    def load(path: Path, **options: Any) -> Summary:
        return ingest_file(home(catalog), catalog, spark, path, "t", at=AT, **({"ts_from": "at"} | options))

    return load


def test_a_file_is_loaded_once_and_its_columns_stay(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    load = file_loader(catalog, lambda: spark)
    path = tmp_path / "x.csv"
    path.write_text("a,at\n1,1993-04-02\n1,1993-04-01\n2\n")
    assert load(path) == Summary("t", stored=2, quarantined=1)
    assert file_loader(catalog, no_spark)(path) == Summary("t", known=2, already_loaded=True)
    (tmp_path / "copy.csv").write_bytes(path.read_bytes())
    assert load(tmp_path / "copy.csv").already_loaded
    other = tmp_path / "y.jsonl"
    other.write_text('{"a":"no","at":"1993-04-03","new":1}\n{"a":4,"at":"1993-04-04","new":2}\n')
    with pytest.raises(Refused, match="has also new"):
        load(other)
    assert load(other, evolve=True) == Summary("t", stored=1, quarantined=1)
    found = rows(spark, catalog, "t", "unix_micros(ts)", "a", "new")
    assert found == [(APRIL + DAY, 1, None), (APRIL + DAY, 1, None), (APRIL + 3 * DAY, 4, 2)]
    path.write_text("a,at,new\n9,1993-04-09,1\n")
    with pytest.raises(Refused, match="keys"):
        load(path, keys=["a"])


def test_with_a_key_rows_are_known_in_another_file_too(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    load = file_loader(catalog, lambda: spark)
    for name, text in (("x", "1,1993-04-01\n,1993-04-01\n"), ("y", "1,1993-04-05\n,1993-04-05\n2,1993-04-05\n")):
        (tmp_path / f"{name}.csv").write_text(f"a,at\n{text}")
    assert load(tmp_path / "x.csv", keys=["a"]) == Summary("t", stored=2)
    assert load(tmp_path / "y.csv") == Summary("t", stored=1, known=2)


def test_a_load_that_died_goes_on_where_it_was(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.extraction.files.rows.MAX_ROWS", 2)
    path = tmp_path / "x.csv"
    path.write_text("a,at\n" + "".join(f"{n},1993-04-0{n}\n" for n in range(1, 6)))

    class Killed(BaseException):
        pass

    def killed(_read: int) -> None:
        raise Killed

    load = file_loader(catalog, lambda: spark)
    with pytest.raises(Killed):
        load(path, progress=killed)
    assert catalog.tables.named("t").rows == 2
    assert load(path) == Summary("t", stored=3, known=2)
    assert rows(spark, catalog, "t", "a") == [(n,) for n in range(1, 6)]

    # Two processes with the same file: the one that falls behind stops, and nothing is there twice.
    path.write_text(path.read_text() + "6,1993-04-06\n")

    def overtake(_read: int) -> None:
        monkeypatch.setattr("weft.extraction.files.rows.MAX_ROWS", 100)
        load(path)

    monkeypatch.setattr("weft.extraction.files.rows.MAX_ROWS", 4)
    with pytest.raises(Conflict, match="another process"):
        load(path, progress=overtake)
    assert catalog.tables.named("t").rows == 5 + 6


def test_a_table_that_is_not_of_mail_takes_none(catalog: Catalog, tmp_path: Path) -> None:
    catalog.tables.create("msgs", [("a", STRING)])
    spool(tmp_path / "s", articles(1))
    with pytest.raises(Refused, match="not a table of mail"):
        ingest_mail(home(catalog), catalog, no_spark, [tmp_path / "s"], at=AT)
