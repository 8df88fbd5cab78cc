"""Loads into real tables: a row is stored once, a repeated row is recognized, and an unreadable row goes to
quarantine.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from letters import AT, letter, spool
from replayed import table_frame
from small_batches import small_batches
from weft.algebra.schema import STRING
from weft.catalog import Catalog, open_catalog
from weft.catalog.records import Choice
from weft.errors import Conflict, Refused
from weft.execution.home import OpenHome
from weft.extraction.batches import Timing
from weft.extraction.ingest import ingest_file, ingest_mail
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.retrying import retry
from weft.extraction.storing import Summary
from weft.schedule.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APRIL = 733_622_400_000_000
DAY = 86_400_000_000
OWN = Timing("at")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(tmp_path / "home", create=True, clock="replay", at=AT)


def home(catalog: Catalog) -> Path:
    return catalog.path


@dataclass
class Loading(OpenHome):
    """A home whose ``session`` returns the Spark session of the tests, or raises an error."""

    spark: Callable[[], Any] = field(kw_only=True)

    def session(self) -> Any:
        return self.spark()


def to(catalog: Catalog, spark: Callable[[], Any], at: int = AT) -> Loading:
    return Loading(catalog.path, catalog, lambda: at, spark=spark)


def unbounded(done: Summary) -> Summary:
    return replace(done, first_ts=None, last_ts=None)


def tick(catalog: Catalog, t: int) -> None:
    """Advance the frontier F without computing anything."""
    with catalog.writing("tick", lambda: AT) as writer:
        writer.ticks.commit(writer.ticks.plan(t, Choice(()), AT).tick_id, {}, [], AT)


def no_spark() -> Any:
    raise AssertionError("a Spark session was started for nothing")


def rows(spark: SparkSession, catalog: Catalog, table: str, *columns: str) -> list[tuple[Any, ...]]:
    frame = table_frame(spark, catalog.data, catalog.tables.named(table))
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
        return unbounded(ingest_mail(to(catalog, lambda: spark), paths, timing=Timing("date")))

    assert load(tmp_path / "spool") == Summary("msgs", stored=6, quarantined=2)
    assert load(tmp_path / "spool") == Summary("msgs", known=8)
    found = rows(spark, catalog, "msgs", "msgid", "newsgroup", "unix_micros(ts)")
    assert found == sorted(
        (f"{n}@x", group, APRIL + (day - 1) * DAY) for n, day in ((1, 3), (2, 1), (3, 5)) for group in ("a.b", "c.d")
    )
    tick(catalog, APRIL + 2 * DAY)
    spool(tmp_path / "more", articles(2, 4, first=20))
    assert load(tmp_path / "more", tmp_path / "spool") == Summary("msgs", stored=2, known=8, late=1)
    found = rows(spark, catalog, "msgs", "msgid", "unix_micros(ts)")
    assert {("20@x", APRIL + 2 * DAY), ("21@x", APRIL + 3 * DAY)} <= set(found)
    assert catalog.tables.named("msgs").rows == 8
    assert catalog.reservations.still_open() == ()
    kept = catalog.quarantine.all()
    assert [(record.position, quarantined_bytes(catalog.data, record)) for record in kept] == [
        ("8", files["8"]),
        ("9", files["9"]),
    ]


def test_quarantined_records_are_stored_when_they_can_be_read(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    tomorrow = letter(Date="Fri, 17 Nov 2023 00:00 GMT", Newsgroups=None)
    spool(tmp_path / "comp.x", {"1": tomorrow, "2": b"\0"})
    done = ingest_mail(to(catalog, no_spark), [tmp_path / "comp.x"], timing=Timing("date"))
    assert done == Summary("msgs", quarantined=2)
    tried = retry(to(catalog, lambda: spark, AT + 9 * DAY))
    assert (tried.read, tried.kept, tried.stored) == (1, 1, 1)
    assert rows(spark, catalog, "msgs", "msgid", "newsgroup") == [("1@x", "comp.x")]
    assert [record.position for record in catalog.quarantine.all()] == ["2"]
    assert retry(to(catalog, no_spark, AT + 9 * DAY)).kept == 1


def file_loader(catalog: Catalog, spark: Callable[[], Any]) -> Callable[..., Summary]:
    def load(path: Path, at: int = AT, timing: Timing = OWN, **options: Any) -> Summary:
        return unbounded(ingest_file(to(catalog, spark, at), path, "t", timing=timing, **options))

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
    with pytest.raises(Refused, match="also has new"):
        load(other)
    assert load(other, evolve=True) == Summary("t", stored=1, quarantined=1)
    found = rows(spark, catalog, "t", "unix_micros(ts)", "a", "new")
    assert found == [(APRIL, 1, None), (APRIL + DAY, 1, None), (APRIL + 3 * DAY, 4, 2)]
    path.write_text("a,at,new\n9,1993-04-09,1\n")
    with pytest.raises(Refused, match="the key of t cannot change"):
        load(path, keys=["a"])


def test_with_a_key_rows_are_known_in_another_file_too(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    load = file_loader(catalog, lambda: spark)
    for name, text in (("x", "1,1993-04-01\n,1993-04-01\n"), ("y", "1,1993-04-05\n,1993-04-05\n2,1993-04-05\n")):
        (tmp_path / f"{name}.csv").write_text(f"a,at\n{text}")
    assert load(tmp_path / "x.csv", keys=["a"]) == Summary("t", stored=2)
    assert load(tmp_path / "y.csv") == Summary("t", stored=1, known=2, differ=2)


def test_a_load_that_died_goes_on_where_it_was(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, 2)
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

    # Another load has taken over this load after a long silence. The silent load stops, and no row is repeated.
    path.write_text(path.read_text() + "6,1993-04-06\n")

    def overtake(_read: int) -> None:
        small_batches(monkeypatch, 100)
        load(path, at=AT + DAY)

    small_batches(monkeypatch, 4)
    with pytest.raises(Conflict, match="another process"):
        load(path, progress=overtake)
    assert catalog.tables.named("t").rows == 5 + 6


def test_one_file_at_once_from_several_sides_is_stored_once(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, 2)
    path = tmp_path / "x.csv"
    path.write_text("a,at\n" + "".join(f"{n},1993-04-0{n}\n" for n in range(1, 6)))
    together = threading.Barrier(3)
    found: list[Summary | Conflict] = []

    def load() -> None:
        with open_catalog(home(catalog), at=AT) as own:
            together.wait(30)
            try:
                found.append(file_loader(own, lambda: spark)(path))
            except Conflict as refused:
                found.append(refused)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 3
    done = [each for each in found if isinstance(each, Summary) and each.stored]
    assert done == [Summary("t", stored=5)]
    others = [each for each in found if each not in done]
    for each in others:
        assert each.already_loaded if isinstance(each, Summary) else "is already loading" in str(each)
    assert rows(spark, catalog, "t", "a") == [(n,) for n in range(1, 6)]


def test_a_second_process_with_the_same_file_is_refused(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, 2)
    path = tmp_path / "x.csv"
    path.write_text("a,at\n1,1993-04-01\n2,1993-04-02\n3,1993-04-03\n")
    said: list[str] = []

    def other_process(_read: int) -> None:
        arguments = ["ingest", "file", str(path), "--table", "t", "--ts-from", "at", "--home", str(home(catalog))]
        done = subprocess.run([sys.executable, "-m", "weft", *arguments], capture_output=True, text=True, timeout=120)
        said.append(done.stderr)
        assert done.returncode != 0

    load = file_loader(catalog, lambda: spark)
    now = now_us()  # the other process uses the real wall clock
    assert load(path, at=now, progress=other_process).stored == 3
    assert len(said) == 2
    assert all("is already loading" in " ".join(each.split()) for each in said), said
    assert load(path).already_loaded


@pytest.mark.parametrize("keys", [None, ["a"]])
def test_late_rows_are_kept_aside_and_taken_later_or_refused(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str] | None
) -> None:
    small_batches(monkeypatch, 2)
    load = file_loader(catalog, lambda: spark)
    first = tmp_path / "first.csv"
    first.write_text("a,at\n0,1993-04-03\n")
    load(first, keys=keys)
    tick(catalog, APRIL + 3 * DAY)
    path = tmp_path / "x.csv"
    path.write_text("a,at\n" + "".join(f"{n},1993-04-0{day}\n" for n, day in enumerate((1, 5, 6, 2, 7), 1)))
    with pytest.raises(Refused, match=r"2 rows for t would be late.*1993-04-04"):
        load(path, timing=Timing("at", late="refuse"))
    assert catalog.tables.named("t").rows == 1

    class Killed(BaseException):
        pass

    def killed(read: int) -> None:
        if read == 4:
            raise Killed

    aside = Timing("at", late="quarantine")
    with pytest.raises(Killed):
        load(path, timing=aside, progress=killed)
    done = load(path, timing=aside)
    assert (done.stored, done.late) == (1, 0)
    assert rows(spark, catalog, "t", "a") == [(0,), (2,), (3,), (5,)]
    assert [(record.position, record.reason[:5]) for record in catalog.quarantine.all()] == [
        ("line 2", "late:"),
        ("line 5", "late:"),
    ]
    assert catalog.reservations.still_open() == ()
    kept = retry(to(catalog, lambda: spark))
    assert (kept.kept, kept.stored) == (2, 0)
    taken = retry(to(catalog, lambda: spark), late="stamp")
    assert (taken.read, taken.stored, taken.late) == (2, 2, 2)
    assert rows(spark, catalog, "t", "a", "unix_micros(ts)")[1] == (1, APRIL + 3 * DAY)
    assert catalog.quarantine.all() == ()


def test_a_table_that_is_not_of_mail_takes_none(catalog: Catalog, tmp_path: Path) -> None:
    catalog.tables.create("msgs", [("a", STRING)])
    spool(tmp_path / "s", articles(1))
    with pytest.raises(Refused, match="not a mail table"):
        ingest_mail(to(catalog, no_spark), [tmp_path / "s"])
