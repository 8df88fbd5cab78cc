"""Tables and ledger of a home with many small files: made few, cleaned up, killed in between; no answer changes.  No
Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forked
from weft.algebra.access import Key
from weft.api.weft import Weft
from weft.catalog import layout
from weft.catalog.records import Choice, Count
from weft.cli.app import run
from weft.errors import Refused, StorageError
from weft.execution import compacting, driver_reader, look_ups, maintenance
from weft.execution.compacting import Cleaned, Compacted
from weft.execution.driver_reader import ReadBounds
from weft.execution.look_ups import LookUps
from weft.instants import format_instant
from weft.storage import compaction, verify
from weft.storage.cleaning import HOUR_US, UNCOMMITTED_US, deletable_files
from weft.storage.data_files import file_batches, read_data_files
from weft.storage.ledger import ledger_schema
from weft.storage.table import Table
from weft.store import Store
from weft.writing.outputs import Outputs, TickOutput

SOURCE = Path(__file__).resolve().parents[3] / "src" / "weft"
QUERIES = ("SELECT word, word AS again FROM posts", "SELECT word, word AS again FROM posts WHERE id > 5")
SECOND = 1_000_000


@pytest.fixture
def weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=4))
    with made(tmp_path / "home") as opened:
        yield opened


def made(folder: Path) -> Weft:
    opened = Weft.open(folder, clock="replay", create=True)
    load(opened, [0])
    for number, text in enumerate(QUERIES, 1):
        opened.install(f"q{number}", text)
    return opened


def load(weft: Weft, ids: Sequence[int]) -> None:
    file = weft.home.parent / "posts.jsonl"
    rows = [{"id": n, "parent": n - 1, "word": f"w{n}", "at": f"1993-04-01T00:{n // 60:02}:{n % 60:02}Z"} for n in ids]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    weft.ingest_file(file, "posts", ts_from="at", keys=["id"])


def answer(weft: Weft, word: str) -> None:
    """A tick that gives each query two answers more, without Spark."""
    home = weft.catalog.home()
    t = max(home.watermark, home.last_ts) + SECOND
    with weft.opened.writing("tick") as writer:
        tick = writer.ticks.plan(t, Choice(), t)
        found = [(q, q.rows + n, [f"{word}{n}", str(q.query_id)]) for q in writer.queries.all() for n in (1, 2)]
        rows = pa.table(
            {
                "query_id": [q.query_id for q, _, _ in found],
                "ordinal": [ordinal for _, ordinal, _ in found],
                "first_at": pa.array([t - 1] * len(found), pa.timestamp("us", "UTC")),
                "tick": [tick.tick_id] * len(found),
                "row_hash": [repr(row).encode() for _, _, row in found],
                "row": [row for _, _, row in found],
            },
            schema=ledger_schema(),
        )
        outputs = Outputs(writer, tick.tick_id, again=False)
        outputs.write(TickOutput("ledger", layout.LEDGER, rows))
        counts = {q.query_id: Count(2, None, None, t, t - 1) for q, ordinal, _ in found if ordinal % 2}
        writer.ticks.commit(tick.tick_id, counts, outputs.stored.values(), t)


def readable_rows(weft: Weft) -> list[tuple[object, ...]]:
    """All that anybody can read: the rows of the table, and each query's answers in order."""
    table = weft.catalog.tables.named("posts")
    files = Table(weft.catalog.data / table.path).snapshot().files
    columns = pa.schema([("id", pa.int64()), ("word", pa.string())])
    rows = sorted((row["id"], row["word"]) for row in read_data_files(files, columns).to_pylist())
    answers = [
        (query.name, each.ordinal, each.first_at, each.tick, each.values)
        for query in weft.catalog.queries.all()
        if query.rows
        for each in weft.results(query.name)
    ]
    assert verify.verify(weft.catalog) == []
    return [*rows, *answers]


def places(weft: Weft) -> list[Store]:
    return [weft.catalog.data / path for path in (weft.catalog.tables.named("posts").path, layout.LEDGER)]


def data_files(place: Store) -> int:
    return sum(name.endswith(".parquet") for name in place.names())


def test_many_small_files_become_one_and_the_old_ones_go(weft: Weft) -> None:
    for number in range(1, 9):
        load(weft, [number])
        answer(weft, f"word{number}")
    before = readable_rows(weft)
    assert [data_files(place) for place in places(weft)] == [9, 8]
    planned = [step for step in weft.maintain(dry_run=True) if isinstance(step, Compacted)]
    assert readable_rows(weft) == before
    steps = list(weft.maintain())
    compacted = [step for step in steps if isinstance(step, Compacted)]
    assert [(each.name, each.files, each.before, each.after) for each in compacted] == [
        ("posts", 9, 9, 1),
        ("ledger", 8, 8, 1),
    ]
    assert [(each.name, each.files, each.after) for each in planned] == [("posts", 9, 1), ("ledger", 8, 1)]
    assert len(steps) == 2  # nothing is old enough to go
    assert readable_rows(weft) == before
    assert [data_files(place) for place in places(weft)] == [10, 9]
    assert [(each.name, each.files) for each in weft.maintain(retain=0) if isinstance(each, Cleaned)] == [
        ("posts", 9),
        ("ledger", 8),
    ]
    assert [data_files(place) for place in places(weft)] == [1, 1]
    assert list(weft.maintain(retain=0)) == []
    for place in places(weft):
        Table(place).forget()
    assert readable_rows(weft) == before
    load(weft, [20])
    answer(weft, "more")
    assert readable_rows(weft)[: len(before) - 16] == before[:9] + readable_rows(weft)[9 : len(before) - 16]
    recorded = {each.path: each for each in weft.catalog.tables.versions()}
    for place, path in zip(places(weft), (weft.catalog.tables.named("posts").path, layout.LEDGER), strict=True):
        assert recorded[path].version <= Table(place).snapshot().version


def test_a_querys_answers_lie_together_and_files_follow_each_other_by_tick(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=4, rows=20))
    for number in range(10):
        answer(weft, f"word{number}")
    list(weft.maintain())
    files = sorted(Table(places(weft)[1]).snapshot().files, key=lambda each: each.least["tick"])
    assert [(each.least["tick"], each.greatest["tick"]) for each in files] == [(1, 5), (6, 10)]
    for file in files:
        rows = read_data_files([file], ledger_schema("query_id", "ordinal")).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["query_id"], row["ordinal"]))


def test_loads_do_not_wait_for_a_file_to_be_written(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        load(weft, [number])
    rewrite = compacting.rewrite

    def meanwhile(*arguments: object) -> object:
        assert weft.catalog.lease() is None
        found = rewrite(*arguments)  # type: ignore[arg-type]
        load(weft, [50])
        return found

    monkeypatch.setattr(compacting, "rewrite", meanwhile)
    (step,) = [each for each in weft.maintain() if isinstance(each, Compacted)]
    assert (step.files, step.before, step.after) == (6, 7, 2)
    assert [row[0] for row in readable_rows(weft)] == [0, 1, 2, 3, 4, 5, 50]


def test_files_that_another_process_has_made_one_meanwhile_are_left(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 6):
        load(weft, [number])
    before, rewrite = readable_rows(weft), compacting.rewrite

    def meanwhile(*arguments: object) -> object:
        monkeypatch.setattr(compacting, "rewrite", rewrite)
        found = rewrite(*arguments)  # type: ignore[arg-type]
        assert [each.action for each in weft.maintain()] == ["compact"]
        return found

    monkeypatch.setattr(compacting, "rewrite", meanwhile)
    assert [each.action for each in weft.maintain(retain=0)] == ["clean"]
    assert readable_rows(weft) == before
    assert data_files(places(weft)[0]) == 1


def test_an_arrangement_goes_on_over_a_compaction(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (driver_reader, maintenance):
        monkeypatch.setattr(module, "BOUNDS", ReadBounds(filtered=2))
    weft.install("replies", "SELECT m.id, a.word FROM posts m, posts a WHERE a.id = m.parent")
    for number in range(1, 6):
        load(weft, [number])
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=99))
    assert [each.action for each in weft.maintain()] == ["build", "build"]
    monkeypatch.setattr(maintenance, "BOUNDS", ReadBounds(filtered=10))
    load(weft, [6, 7, 8])  # too few rows to extend the arrangements at the end of the load
    load(weft, [9])
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=4))
    read: list[int] = []

    def counted(*arguments: object) -> Iterator[pa.RecordBatch]:
        for batch in file_batches(*arguments):  # type: ignore[arg-type]
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(look_ups, "file_batches", counted)
    assert "build" not in {each.action for each in weft.maintain()}
    assert sum(read) == 2 * 4  # what each of the two did not cover
    files = Table(places(weft)[0]).snapshot().files
    assert len(files) == 1
    table = weft.catalog.tables.named("posts")
    asking = LookUps(layout.arrangements_folder(weft.home))
    found = asking.rows(table.schema, files, Key("id"), ["word", "ts"], pa.table({"key": pa.array([3, 9, 99])}))
    assert found.rows is not None, found.how
    assert sorted(found.rows.column("word").to_pylist()) == ["w3", "w9"]
    assert sum(read) == 2 * 4


def test_damaged_files_are_neither_merged_nor_deleted(weft: Weft) -> None:
    for number in range(1, 6):
        load(weft, [number])
    list(weft.maintain())
    held = data_files(places(weft)[0])
    whole = Table(places(weft)[0]).snapshot().files[0].location
    Path(whole.path).write_bytes(b"PAR1")
    verify._checked.clear()
    with pytest.raises(StorageError, match="damaged"):
        list(weft.maintain(retain=0))
    assert data_files(places(weft)[0]) == held


def later(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a day passes."""
    now, then = weft.opened.clock, time.time() - 25 * 3600
    monkeypatch.setattr(weft.opened, "clock", lambda: now() + 25 * 3600 * SECOND)
    for place in places(weft):
        for name in place.names():
            os.utime(f"{place}/{name}", (then, then))


def test_purged_answers_are_in_no_file_though_a_compaction_had_died(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        answer(weft, f"secret{number}")
    ledger = places(weft)[1]
    assert compaction.rewrite(Table(ledger), Table(ledger).snapshot().files, ("query_id", "ordinal")) is not None
    list(weft.maintain())
    assert data_files(ledger) == 8
    weft.remove("q1", purge=True, now=True)
    # The file of the compaction stays for a day, because its writer may live.
    assert data_files(ledger) == 2
    assert weft.health().purged_until is not None
    later(weft, monkeypatch)
    assert [each.name for each in weft.maintain(retain=0) if isinstance(each, Cleaned)] == ["ledger"]
    assert data_files(ledger) == 1
    assert weft.health().purged_until is None
    left = read_data_files(Table(ledger).snapshot().files, ledger_schema("query_id")).to_pylist()
    assert left == [{"query_id": 2}] * 12
    assert [each.ordinal for each in weft.results("q2")] == list(range(1, 13))
    answer(weft, "more")
    assert readable_rows(weft)


def test_purged_answers_go_after_the_retention_and_the_status_shows_when(
    weft: Weft, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(weft, "secret")
    weft.remove("q1", purge=True)
    readable_rows(weft)
    assert data_files(places(weft)[1]) == 2
    until = weft.opened.clock() + 7 * 24 * 3600 * SECOND
    gone = weft.health().purged_until
    assert gone is not None
    assert until - 60 * SECOND < gone <= until
    assert run(["status", "--home", str(weft.home)]) in (0, 1)
    assert f"deletes from {format_instant(gone)[:10]}" in capsys.readouterr().out
    list(weft.maintain())
    assert weft.health().purged_until == gone
    later(weft, monkeypatch)
    assert [each.name for each in weft.maintain(retain=0) if isinstance(each, Cleaned)] == ["ledger"]
    assert weft.health().purged_until is None
    assert data_files(places(weft)[1]) == 1
    with pytest.raises(Refused, match="needs purge"):
        weft.remove("q2", now=True)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_purge_that_died_is_finished_by_the_next_writer(weft: Weft, at_once: bool) -> None:
    answer(weft, "secret")
    weft.close()
    command = [sys.executable, "-m", "weft", "remove", "q1", "--purge", *(["--now"] if at_once else [])]
    died = forked.run([*command, "--home", os.fspath(weft.home)], "purge.written")
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    with Weft.open(weft.home) as again:
        assert [each.query_id for each in again.catalog.queries.purging()] == [1]
        answer(again, "more")
        assert again.catalog.queries.purging() == ()
        assert data_files(places(again)[1]) == (2 if at_once else 3)
        assert readable_rows(again)


KILLS = (
    "compaction.written",
    "compaction.committed",
    "compaction.committed:2",
    "compaction.recorded",
    "cleaning.deleted:2",
    "cleaning.deleted:7",
)


def test_every_failpoint_is_killed_at() -> None:
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'failpoint\("((?:compaction|cleaning)\.[^"]+)"\)', text)}
    assert names == {kill.partition(":")[0] for kill in KILLS}


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with five small files in its table and four in its ledger."""
    home = tmp_path_factory.mktemp("small") / "home"
    with made(home) as weft:
        for number in range(1, 5):
            load(weft, [number])
            answer(weft, f"word{number}")
    return home


@pytest.mark.parametrize("kill", KILLS)
def test_killed_at_any_point_it_loses_nothing_and_the_next_one_finishes(
    kill: str, small_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=4))
    home = tmp_path / "home"
    subprocess.run(["cp", "-r", small_files, home], check=True)
    with Weft.open(home, create=True) as weft:
        before = readable_rows(weft)
    code = "import sys; from weft.storage import compaction as c; c.BOUNDS = c.CompactionBounds(fewest=4); "
    code += "from weft.cli.app import run; sys.exit(run(['maintain', '--retain', '0', *sys.argv[1:]]))"
    command = [sys.executable, "-c", code, "--home", os.fspath(home)]
    died = forked.run(command, kill)
    assert died.returncode == -signal.SIGKILL, f"{kill} was never reached: {died.stderr.decode()}"
    with Weft.open(home, create=True) as weft:
        assert readable_rows(weft) == before
        load(weft, [40])
        answer(weft, "after")
        list(weft.maintain(retain=0))
        left = [data_files(place) - len(Table(place).snapshot().files) for place in places(weft)]
        # A file that no commit has named stays for a day, because its writer may live.
        assert left == [int(kill == "compaction.written"), 0]
        assert [len(Table(place).snapshot().files) <= 2 for place in places(weft)] == [True, True]
        after = readable_rows(weft)
        assert set(before) <= set(after)
        assert len(after) == len(before) + 5
        assert list(weft.maintain(retain=0)) == []


OPERATION = st.sampled_from(["load", "load", "answer", "answer", "maintain", "delete", "die", "forget"])


@given(st.lists(OPERATION, min_size=6, max_size=12))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_at_whatever_moment_it_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory, operations: list[str]
) -> None:
    """A load adds two rows, one of which the table has; ``die`` leaves a file that no commit names."""
    gained = {"load": 1, "answer": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "BOUNDS", compaction.CompactionBounds(fewest=2, rows=12))
        patch.setattr(driver_reader, "BOUNDS", ReadBounds(loaded=2, filtered=2))
        with made(tmp_path_factory.mktemp("any") / "home") as weft:
            before = readable_rows(weft)
            for number, what in enumerate(operations, 1):
                if what == "load":
                    load(weft, [0, number])
                elif what == "answer":
                    answer(weft, f"w{number}")
                elif what == "die":
                    place = places(weft)[0]
                    compaction.rewrite(Table(place), Table(place).snapshot().files, ("ts",))
                elif what == "forget":
                    for place in places(weft):
                        Table(place).forget()
                else:
                    list(weft.maintain(retain=0 if what == "delete" else "1h"))
                after = readable_rows(weft)
                assert set(before) <= set(after)
                assert len(after) - len(before) == gained.get(what, 0)
                before = after


def test_it_is_printed(weft: Weft, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 6):
        load(weft, [number])
    home = ["--home", str(weft.home)]
    assert run(["maintain", "--dry-run", *home]) == 0
    assert re.search(r"posts +6 → 1 +[\d.]+ kB", capsys.readouterr().out)
    assert run(["maintain", "--retain", "0", "--json", *home]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["action"], each["files"]) for each in steps] == [
        ("posts", "compact", 6),
        ("posts", "clean", 6),
    ]
    for number in range(6, 9):
        load(weft, [number])
    assert run(["maintain", "--retain", "0s", *home]) == 0
    out = capsys.readouterr().out
    assert re.search(r"posts +4 → 1 +[\d.]+ kB → [\d.]+ kB +4 files", out)
    assert run(["maintain", *home]) == 0
    assert "Nothing to do." in capsys.readouterr().out
    assert run(["maintain", "--retain", "8d", *home]) == 2
    assert "at most 7d" in capsys.readouterr().err


def test_longer_than_the_log_knows_is_refused(weft: Weft) -> None:
    with pytest.raises(Refused, match="not for 8d"):
        weft.maintain(retain="8d")


def test_a_compacted_file_that_a_cleaner_may_delete_is_not_committed(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner lists the file of a suspended compaction, and is suspended until the compaction goes on."""
    for number in range(1, 6):
        load(weft, [number])
    before, rewrite, ahead = readable_rows(weft), compacting.rewrite, 0
    clock = weft.opened.clock
    monkeypatch.setattr(weft.opened, "clock", lambda: clock() + ahead)
    listed: tuple[Store, ...] = ()

    def suspended(*arguments: object) -> object:
        nonlocal ahead, listed
        found = rewrite(*arguments)  # type: ignore[arg-type]
        ahead = UNCOMMITTED_US + 2 * HOUR_US
        for path in Path(places(weft)[0].path).glob("*.parquet"):
            os.utime(path, (time.time() - ahead / SECOND, time.time() - ahead / SECOND))
        listed = deletable_files(Table(places(weft)[0]), 0, weft.opened.clock()).data
        return found

    monkeypatch.setattr(compacting, "rewrite", suspended)
    list(weft.maintain())
    assert len(listed) == 1
    for file in listed:
        with suppress(FileNotFoundError):
            file.remove()
    assert readable_rows(weft) == before
