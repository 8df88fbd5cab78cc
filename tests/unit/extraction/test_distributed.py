"""Loads whose tasks run one after another in this process give what the driver gives, on random dirt.

``tests/spark/test_distributed.py`` runs the tasks on Spark.
"""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

from loaded_files import (
    AT,
    DAY,
    FIRST,
    TIMES,
    Loading,
    dirty_csv,
    json_lines,
    load,
    parquet,
    require_same_dirty_loads,
    tick,
)
from weft.catalog import open_catalog
from weft.catalog.loads import ACTIVE_TTL_US
from weft.errors import Conflict, ExecutionError
from weft.execution import home
from weft.execution.append_rows import Appended, Written
from weft.execution.engines import choosing
from weft.extraction import distributed, ingest, rejected_files, storing
from weft.extraction.batches import Timing
from weft.extraction.files import cutting
from weft.extraction.files.cutting import Stretch
from weft.extraction.files.given_files import Given, InputFiles
from weft.extraction.files.options import DEFAULT_OPTIONS
from weft.extraction.files.probe import InputFile
from weft.extraction.files.source import open_files
from weft.extraction.storing import Summary
from weft.store import S3Access, local_store
from weft.writing.reserved import settle

Homes = tuple[Loading, Loading]


@contextmanager
def as_objects(items: Sequence[Given], _: S3Access) -> Iterator[InputFiles]:
    """Local files, as if they were in an object store."""
    yield InputFiles([InputFile(Path(str(each)), str(each), local_store(str(each))) for each in items])


def one_by_one(_session: object, function: Callable[[Any], Any], given: Sequence[Any], _doing: str) -> list[Any]:
    """Run tasks in this process. The functions, arguments and results pass through pickle, as on Spark."""
    sent = pickle.dumps((function, list(given)))
    return [pickle.loads(pickle.dumps(pickle.loads(sent)[0](each))) for each in pickle.loads(sent)[1]]


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Homes:
    """A home that loads on the driver, and one that loads by tasks."""
    monkeypatch.setattr(cutting, "BLOCK", 700)
    monkeypatch.setattr(ingest, "input_files", as_objects)
    monkeypatch.setattr(ingest, "downloaded", lambda files: [replace(file, place=None) for file in files])
    monkeypatch.setattr(distributed, "on_executors", one_by_one)
    monkeypatch.setattr(distributed, "_has_cluster", lambda _: True)
    monkeypatch.setattr(distributed, "cores", lambda _: 2)
    monkeypatch.setattr(distributed, "use_one_thread", lambda: None)
    monkeypatch.setattr(distributed, "task_numbers", lambda: (0, 0))
    made = [open_catalog(tmp_path / name, create=True, clock="wall", at=AT) for name in ("driver", "executors")]
    one, other = (Loading(each.path, each, lambda: AT, spark=lambda: None) for each in made)
    return one, other


def put(path: Path, raw: bytes) -> str:
    path.write_bytes(raw)
    return str(path)


@pytest.mark.parametrize("seed", range(3))
def test_dirty_files_load_as_on_the_driver(tmp_path: Path, homes: Homes, seed: int) -> None:
    chance = Random(seed)
    first = put(tmp_path / "0.csv", dirty_csv(chance, 200))
    later = [put(tmp_path / f"{n + 1}.csv", dirty_csv(chance, 150, start=5 * n)) for n in range(3)]
    found = []
    for to, by in zip(homes, ("driver", "executors"), strict=True):
        loads = [load(to, first, by=by)]
        tick(to, FIRST + 12 * DAY)
        loads.append(load(to, *later, by=by))
        loads.append(load(to, first, *later, by=by))
        found.append(loads)
    require_same_dirty_loads(*found)


def test_json_lines_and_parquet_load_as_on_the_driver(tmp_path: Path, homes: Homes) -> None:
    chance = Random(7)
    texts = [put(tmp_path / f"{n}.jsonl", json_lines(chance, 60, start=3 * n)) for n in range(2)]
    table = put(tmp_path / "t.parquet", parquet(chance, 300))
    found = []
    for to, by in zip(homes, ("driver", "executors"), strict=True):
        loads = [load(to, *texts, by=by)]
        tick(to, FIRST + 9 * DAY)
        found.append([*loads, load(to, table, by=by, timing=replace(TIMES, ts_from="at"))])
    assert found[0] == found[1]
    counts = [each.result for each in found[0] if isinstance(each.result, Summary)]
    assert len(counts) == 2 and all(each.stored and each.quarantined for each in counts) and counts[1].late


def test_rows_without_times_get_the_time_of_the_clock(tmp_path: Path, homes: Homes) -> None:
    place = put(tmp_path / "0.csv", dirty_csv(Random(1), 100))
    found = [load(to, place, by=by, timing=Timing()) for to, by in zip(homes, ("driver", "executors"), strict=True)]
    assert found[0] == found[1]


def test_an_interrupted_load_continues_where_it_stopped(tmp_path: Path, homes: Homes) -> None:
    place = put(tmp_path / "0.csv", dirty_csv(Random(2), 400))
    whole, to = load(homes[0], place), homes[1]
    passed: list[int | None] = []

    def interrupted(load: storing.Load, written: Written, expected: int | None) -> Appended:
        passed.append(expected)
        if len(passed) in (2, 4):
            raise KeyboardInterrupt
        return appended(load, written, expected)

    appended = storing._append_written
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "_append_written", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                load(to, place, by="executors")
        done = load(to, place, by="executors")
    assert 0 == passed[0] < (passed[2] or 0) < (passed[4] or 0)
    assert (done.rows, done.quarantine) == (whole.rows, whole.quarantine)
    assert isinstance(done.result, Summary) and isinstance(whole.result, Summary)
    assert done.result.stored + done.result.known >= whole.result.stored


@pytest.mark.parametrize(
    ("name", "keys", "timing", "why"),
    [
        ("0.csv", ["a"], Timing(), "the table has a key"),
        ("0.csv", [], Timing("at", "arrival"), "with --ts-order arrival"),
        ("0.csv", [], Timing("at", late="quarantine"), "with --late quarantine"),
        ("0.csv.gz", [], Timing(), "is compressed"),
        ("odd.csv", [], Timing(), "is compressed"),
        ("latin.csv", [], Timing(), "is not UTF-8"),
    ],
)
def test_a_load_that_needs_one_reader_stays_on_the_driver(
    tmp_path: Path, homes: Homes, name: str, keys: list[str], timing: Timing, why: str
) -> None:
    raw = b"a,b,at\n1,caf\xe9,2020-01-01\n" if name == "latin.csv" else dirty_csv(Random(3), 20)
    place = put(tmp_path / name, gzip.compress(raw) if name in ("0.csv.gz", "odd.csv") else raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "BOUNDS", choosing.NOTHING)
        result = ingest.ingest_file(homes[1], [place], "t", keys=keys, timing=timing)
    assert why in result.notes[-1] and result.notes[-1].startswith("This load ran on the driver: ")
    assert result.stored


def test_a_file_that_cannot_be_read_makes_no_table(tmp_path: Path, homes: Homes) -> None:
    raw = parquet(Random(4), 100)
    for name, content in (("cut.parquet", raw[:-9]), ("empty.csv", b""), ("wide.csv", b"a,a\n1,2\n")):
        place = put(tmp_path / name, content)
        found = [load(to, place, by=by) for to, by in zip(homes, ("driver", "executors"), strict=True)]
        assert found[0] == found[1]
        assert isinstance(found[0].result, str) and not found[0].rows


@pytest.mark.parametrize("again", [1, 2])
def test_an_object_that_changes_while_it_is_read_is_refused(tmp_path: Path, homes: Homes, again: int) -> None:
    """It changes after the survey, and while the rows are stored. No row of the other version is stored."""
    place = tmp_path / "0.csv"
    put(place, b"a,b,at\n" + b"1,2,2020-01-01\n" * 400)
    calls: list[object] = []

    def tasks(session: object, function: Callable[[Any], Any], given: Sequence[Any], doing: str) -> list[Any]:
        calls.append(function)
        found = one_by_one(session, function, given, doing)
        if len(calls) == again:
            put(place, b"a,b,at\n" + b"9,9,2020-01-01\n" * 800)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "on_executors", tasks)
        done = load(homes[1], str(place), by="executors")
    assert "changed while it was read" in str(done.result) and not done.rows


@pytest.mark.parametrize("renews", [True, False])
def test_a_wave_may_take_longer_than_the_mark_of_a_load_lasts(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    """Another writer forgets dead loads in each wave. Without renewal the load notices that its hold is lost."""
    place = put(tmp_path / "0.csv", b"a,b,at\n" + b"1,2,2020-01-01\n" * 400)
    time = [AT]
    to, held = Loading(homes[1].folder, homes[1].catalog, lambda: time[0], spark=lambda: None), []

    def tasks(session: object, function: Callable[[Any], Any], given: Sequence[Any], doing: str) -> list[Any]:
        time[0] += ACTIVE_TTL_US + 1
        sleep(0.2)
        with to.catalog.writing("another", to.clock) as writer:
            settle(writer)
            held.append(writer.reservations.earliest())
        return one_by_one(session, function, given, doing)

    monkeypatch.setattr(home, "_RENEW_SECONDS", 0.02 if renews else 9.0)
    monkeypatch.setattr(distributed, "on_executors", tasks)
    done = load(to, place, by="executors")
    assert isinstance(done.result, Summary) == renews
    assert renews or "took it for dead" in str(done.result)
    assert (len(held) > 3 and held[-1] is not None) == renews


@pytest.mark.parametrize("count", [1, 2])
def test_ticks_wait_for_files_that_are_loaded_one_after_another(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Between the waves of one file they may run. Waves without rows let the watermark go."""
    rows = b"a,b,at\n" + b"1,2,2020-01-01\n" * 400 + b"1\n" * 3_000
    places = [put(tmp_path / f"{n}.csv", rows + b"%d" % n) for n in range(count)]
    free = []
    wave = distributed.Executors._wave

    def waved(self: distributed.Executors, *given: Any) -> distributed.Wave:
        free.append(homes[1].catalog.reservations.earliest() is None)
        return wave(self, *given)

    monkeypatch.setattr(distributed.Executors, "_wave", waved)
    assert isinstance(load(homes[1], *places, by="executors").result, Summary)
    assert len(free) > 3 and all(free) == (count == 1)
    assert any(free) == (count == 1)


def test_many_rejected_records_come_in_row_groups(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "_REJECTED_BYTES", 2_000)
    monkeypatch.setattr(rejected_files, "_GROUP", 1_500)
    groups, read = [], distributed.rejected_in
    monkeypatch.setattr(distributed, "rejected_in", lambda place: groups.append(tuple(read(place))) or groups[-1])
    place = put(tmp_path / "0.csv", b"a,b,at\n1,2,2020-01-01\n" + (b"x" * 30 + b"\n") * 300)
    found = [load(to, place, by=by) for to, by in zip(homes, ("driver", "executors"), strict=True)]
    assert found[0] == found[1] and len(found[1].quarantine) == 300
    assert max(map(len, groups)) > 1 and max(len(some) for group in groups for some in group) <= 1_500 // 200 + 1
    table = homes[1].catalog.tables.named("t")
    assert len(list((homes[1].catalog.path / "data" / table.path).glob("*.parquet"))) <= 1


def test_a_continued_load_gives_each_task_the_positions_of_its_part(tmp_path: Path, homes: Homes) -> None:
    put(tmp_path / "0.csv", b"a\n1\n")
    [source] = open_files([InputFile.of(tmp_path / "0.csv")], None)
    given = storing.Load(homes[1], None, 1, {}, aside={source.name: frozenset(f"line {n}" for n in range(1, 9))})  # type: ignore[arg-type]
    parts = [Stretch(0, (0, 0), (9, 2)), Stretch(0, (9, 2), (20, 5)), Stretch(0, (20, 5), None)]
    found = [sorted(distributed._aside(given, source, part)) for part in parts]
    assert found == [["line 1", "line 2"], ["line 3", "line 4", "line 5"], ["line 6", "line 7", "line 8"]]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("first", ["driver", "executors"])
def test_a_file_that_another_reader_has_loaded_is_known(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch, first: str, count: int
) -> None:
    monkeypatch.setattr(cutting, "DIGEST_BLOCK", 700)
    places = [put(tmp_path / f"{n}.csv", b"a,b,at\n%d,2,2020-01-01\n" % n + b"1,2,2020-01-01\n" * 90) for n in (1, 2)]
    second = "driver" if first == "executors" else "executors"
    loaded, again = load(homes[0], *places[:count], by=first), load(homes[0], *places[:count], by=second)
    assert isinstance(loaded.result, Summary) and isinstance(again.result, Summary)
    assert loaded.result.stored and again.result.already_loaded and again.rows == loaded.rows


def test_a_load_goes_to_the_driver_if_executors_cannot_read(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tasks(*_: object) -> list[Any]:
        raise ExecutionError("the executors lack pyarrow")

    monkeypatch.setattr(choosing, "BOUNDS", choosing.NOTHING)
    place = put(tmp_path / "0.csv", dirty_csv(Random(3), 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "on_executors", tasks)
        result = ingest.ingest_file(homes[1], [place], "t")
    assert "executors cannot read the files: the executors lack pyarrow" in result.notes[-1] and result.stored
    other = InputFile.of(Path(put(tmp_path / "1.csv", dirty_csv(Random(4), 20))))
    object_ = InputFile(Path(place), place, local_store(place))
    choice = distributed.readers(homes[1], [object_, other], [], Timing(), DEFAULT_OPTIONS)[1]
    assert choice is not None and "1.csv is on this machine" in choice.why


def test_an_unfinished_load_of_another_reader_names_the_way_out(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "DIGEST_BLOCK", 700)
    place = put(tmp_path / "0.csv", b"a,b,at\n" + b"1,2,2020-01-01\n" * 90)

    def interrupted(*_: object) -> Appended:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "_append_written", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load(homes[1], place, by="executors")
    with pytest.raises(Conflict) as caught:
        ingest.ingest_file(homes[1], [place], "t", timing=TIMES)
    assert caught.value.hint == "Executors began the load and this process would go on, or the reverse. " + (
        "Undo the load: weft loads undo 1"
    )
