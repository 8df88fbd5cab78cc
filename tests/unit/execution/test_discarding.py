"""Tables that keep no rows: what their synopses deliver is the same, and nothing else may be asked of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked
from weft.api import Weft
from weft.errors import Conflict, Refused
from weft.instants import to_datetime
from weft.storage.table import Table
from weft.storage.verify import verify

BEFORE = "SELECT s.c FROM r, s WHERE r.a = s.a AND r.ts < s.ts"


def _text(micros: int) -> str:
    return to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def load(weft: Weft, folder: Path, table: str, *rows: tuple[object, ...]) -> None:
    """Rows of values and the instant that they have."""
    file = folder / f"{table}-{rows[0][-1]}.csv"
    head = {"r": "a,ts", "s": "a,c,ts", "p": "x,tp,ts", "time_points": "tp,at,ts"}[table]
    lines = [",".join((*map(str, row[:-1]), _text(int(str(row[-1]))))) for row in rows]
    file.write_text("\n".join([head, *lines]) + "\n")
    weft.ingest_file(file, table, ts_from="ts")


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        load(opened, tmp_path, "r", (1, 1), (2, 5))
        load(opened, tmp_path, "s", (1, "x", 3), (2, "y", 9))
        yield opened


def there(weft: Weft, table: str) -> int:
    return Table(weft.catalog.data / weft.catalog.tables.named(table).path).snapshot().rows or 0


def data_files(weft: Weft, table: str) -> list[str]:
    place = weft.catalog.data / weft.catalog.tables.named(table).path
    return [name for name in place.names() if name.endswith(".parquet")]


def answers(weft: Weft, name: str) -> set[tuple[object, ...]]:
    return {(row.first_at, *row.values) for row in weft.results(name)}


def test_rows_go_once_they_are_taken_in_and_answers_stay_the_same(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    weft.tick(now=6)
    assert (there(weft, "r"), there(weft, "s")) == (0, 1)
    weft.tick(now=10)
    load(weft, tmp_path, "s", (1, "z", 11), (3, "n", 12))
    assert there(weft, "s") == 2
    assert len(data_files(weft, "s")) == 3  # removed files stay for readers
    monkeypatch.setenv("WEFT_RETENTION", "0s")
    weft.tick(now=20)
    assert (there(weft, "r"), there(weft, "s")) == (0, 0)
    assert answers(weft, "q") == {(3, "x"), (9, "y"), (11, "z")}
    assert data_files(weft, "s") == []
    assert verify(weft.catalog) == []
    assert weft.catalog.tables.named("s").rows == 4


def test_a_query_that_is_paused_keeps_the_rows_that_it_has_not_taken_in(weft: Weft) -> None:
    weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    weft.install("other", "SELECT s.a FROM r, s WHERE r.a < s.a AND r.ts < s.ts", keep="synopsis")
    weft.tick(now=2)
    weft.pause("other")
    weft.tick(now=20)
    assert (there(weft, "r"), there(weft, "s")) == (1, 2)
    weft.resume("other")
    weft.tick(now=21)
    assert (there(weft, "r"), there(weft, "s")) == (0, 0)
    assert answers(weft, "other") == {(9, 2)}


def test_nothing_else_is_asked_of_such_a_table(weft: Weft, tmp_path: Path) -> None:
    weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    for asked in (lambda: weft.install("h", "SELECT c FROM s"), lambda: weft.try_query("SELECT c FROM s", now=2)):
        with pytest.raises(Refused, match="stores no history"):
            asked()
    weft.tick(now=20)
    with pytest.raises(Refused, match="rows of r were discarded"):
        weft.install("late", BEFORE, keep="synopsis")
    weft.remove("q")
    with pytest.raises(Refused, match="stores no history"):
        weft.install("h", "SELECT c FROM s")


def test_a_table_whose_history_is_asked_keeps_it(weft: Weft, tmp_path: Path) -> None:
    weft.install("h", "SELECT c FROM s")
    with pytest.raises(Conflict, match="h reads the history of s"):
        weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    with pytest.raises(Refused, match="applies to synopses"):
        weft.install("q", BEFORE, discard_history=True)
    (tmp_path / "k.csv").write_text(f"a,ts\n1,{_text(1)}\n")
    weft.ingest_file(tmp_path / "k.csv", "k", keys=["a"], ts_from="ts")
    with pytest.raises(Refused, match="by their keys"):
        weft.install("q", "SELECT a FROM k", keep="synopsis", discard_history=True)


def test_rows_of_a_log_go_with_their_states(weft: Weft, tmp_path: Path) -> None:
    load(weft, tmp_path, "p", (7, 0, 1), (8, 2, 3))
    load(weft, tmp_path, "time_points", (0, _text(1), 1), (1, _text(1), 1), (2, _text(3), 3))
    weft.install("f", "p(x) OR PREVIOUS p(x)", language="monpoly", discard_history=True)
    weft.tick(now=2)
    assert (there(weft, "p"), there(weft, "time_points")) == (1, 1)
    weft.tick(now=4)
    assert (there(weft, "p"), there(weft, "time_points")) == (0, 0)
    assert {row.values for row in weft.results("f")} == {(0, 7), (1, 7), (2, 8)}


@pytest.mark.parametrize(
    "point", ["synopsis.discarded:1", "synopsis.discarded:2", "tick.committed", "cleaning.deleted"]
)
def test_a_tick_that_was_killed_as_rows_went_is_followed_by_others(
    point: str, weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_RETENTION", "0s")
    weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    weft.close()
    command = [sys.executable, "-m", "weft", "tick", "--home", str(tmp_path / "home"), "--now", _text(6)]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    with Weft.open(tmp_path / "home", create=True) as opened:
        assert verify(opened.catalog) == []
        load(opened, tmp_path, "s", (1, "z", 11))
        opened.tick(now=20)
        assert answers(opened, "q") == {(3, "x"), (9, "y"), (11, "z")}
        assert (there(opened, "r"), there(opened, "s")) == (0, 0)
        assert verify(opened.catalog) == []


@pytest.mark.parametrize(
    "point", ["discard.committed:1", "discard.committed:2", "synopsis.discarded:1", "tick.committed"]
)
def test_rows_of_a_tick_that_died_are_discarded_and_their_files_go(point: str, weft: Weft, tmp_path: Path) -> None:
    weft.install("q", BEFORE, keep="synopsis", discard_history=True)
    weft.install("other", "SELECT a FROM r", keep="synopsis", discard_history=True)
    weft.close()
    command = [sys.executable, "-m", "weft", "tick", "--home", str(tmp_path / "home"), "--now", _text(20)]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    with Weft.open(tmp_path / "home", create=True) as opened:
        opened.tick(now=21)  # nothing is new
        assert (there(opened, "r"), there(opened, "s")) == (0, 0)
        list(opened.maintain(retain=0))
        assert [data_files(opened, table) for table in ("r", "s")] == [[], []]
        assert verify(opened.catalog) == []
        assert answers(opened, "q") == {(3, "x"), (9, "y")}
        assert answers(opened, "other") == {(1, 1), (5, 2)}
        for keep in ("history", "synopsis"):
            with pytest.raises(Refused, match=r"stores no history|were discarded"):
                opened.install("late", "SELECT a FROM r", keep=keep)
