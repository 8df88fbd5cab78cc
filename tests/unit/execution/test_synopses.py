"""Standing queries that are kept as synopses: what they deliver, whatever the ticks, crashes and pauses; no Spark.

Plain loops over all rows compute the expected answers.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

import forked
from weft.api import Weft
from weft.catalog import layout
from weft.errors import Conflict, SqlError, SynopsisError
from weft.storage import stored_relations
from weft.storage.table import Table
from weft.storage.verify import verify

HOUR = 3_600_000_000
R, S = ("a", "b", "at"), ("a", "c")


@dataclass(frozen=True)
class Row:
    table: str
    ts: int
    values: tuple[object, ...]


Rows = tuple[Row, ...]
Answers = dict[tuple[object, ...], int]


@dataclass(frozen=True)
class Asked:
    """A query, the tables that it joins, and what it says of rows of theirs: the answer, or None."""

    sql: str
    tables: tuple[str, ...]
    answer: Callable[..., tuple[object, ...] | None]


def _before(r: Row, s: Row) -> tuple[object, ...] | None:
    same = r.values[0] is not None and r.values[0] == s.values[0]
    return (*r.values[:2], s.values[1]) if same and r.ts < s.ts else None


def _within(s: Row, other: Row) -> tuple[object, ...] | None:
    near = other.ts - 2 * HOUR <= s.ts <= other.ts - HOUR
    return (other.values[0],) if near and s.values[1] == other.values[1] is not None else None


def _less(r: Row, s: Row) -> tuple[object, ...] | None:
    if None in (r.values[0], s.values[0]) or not r.values[0] < s.values[0]:  # type: ignore[operator]
        return None
    return (s.values[0],) if str(r.values[1] or "").startswith("x") else None


def _instants(one: Row, other: Row) -> tuple[object, ...] | None:
    return (
        (one.values[2],)
        if one.values[2] is not None and one.values[2] == other.values[2] and one.ts < other.ts
        else None
    )


QUERIES = {
    "before": Asked("SELECT r.a, r.b, s.c FROM r, s WHERE r.a = s.a AND r.ts < s.ts", ("r", "s"), _before),
    "within": Asked(
        "SELECT o.a FROM s, s o WHERE s.c = o.c AND s.ts >= o.ts - INTERVAL 2 HOURS AND s.ts <= o.ts - INTERVAL 1 HOUR",
        ("s", "s"),
        _within,
    ),
    "less": Asked("SELECT s.a FROM r, s WHERE r.a < s.a AND r.b LIKE 'x%'", ("r", "s"), _less),
    "instants": Asked("SELECT r.at FROM r, r later WHERE r.at = later.at AND r.ts < later.ts", ("r", "r"), _instants),
    "whole": Asked("SELECT UPPER(b) AS b, at FROM r WHERE a > 1", ("r",), lambda r: _upper(r)),
}


def _upper(r: Row) -> tuple[object, ...] | None:
    a, b, at = r.values
    return (None if b is None else str(b).upper(), at) if isinstance(a, int) and a > 1 else None


def expected(asked: Asked, rows: Iterable[Row], t: int) -> Answers:
    """The answers up to t, each with its first instant."""
    seen = [row for row in rows if row.ts < t]
    found: Answers = {}

    def go(chosen: tuple[Row, ...]) -> None:
        if len(chosen) < len(asked.tables):
            for row in seen:
                if row.table == asked.tables[len(chosen)]:
                    go((*chosen, row))
            return
        answer = asked.answer(*chosen)
        if answer is not None:
            last = max(row.ts for row in chosen)
            found[answer] = min(last, found.get(answer, last))

    go(())
    return found


def drawn(seed: int, count: int = 40) -> Rows:
    """Rows of r and s, several an instant, some values NULL."""
    pick = random.Random(seed)
    ts, rows = 0, []
    for _ in range(count):
        ts += pick.choice((0, 0, 1, HOUR // 2, HOUR))
        a, text = pick.choice((None, 1, 2, 3)), pick.choice((None, "x", "xy", "z"))
        instant = None if pick.random() < 0.3 else pick.randrange(3) * 1_000
        rows.append(Row("r", ts, (a, text, instant)) if pick.random() < 0.5 else Row("s", ts, (a, text)))
    return tuple(rows)


def load(weft: Weft, folder: Path, rows: Iterable[Row]) -> None:
    """Loads rows with the instants that they have."""
    for name, columns in (("r", R), ("s", S)):
        given = [row for row in rows if row.table == name]
        if given:
            lines = [",".join((*columns, "ts"))]
            for row in given:
                cells = ["" if each is None else str(each) for each in row.values]
                if name == "r" and row.values[2] is not None:
                    cells[2] = _text(row.values[2])
                lines.append(",".join((*cells, _text(row.ts))))
            file = folder / f"{name}-{given[0].ts}-{len(given)}-{random.random()}.csv"
            file.write_text("\n".join(lines) + "\n")
            weft.ingest_file(file, name, ts_from="ts")


def _text(micros: object) -> str:
    from weft.instants import to_datetime

    assert isinstance(micros, int)
    return to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def delivered(weft: Weft, name: str) -> Answers:
    rows = list(weft.results(name))
    found = {tuple(map(_plain, row.values)): row.first_at for row in rows}
    assert len(found) == len(rows), "an answer was delivered twice"
    assert [row.ordinal for row in rows] == list(range(1, len(rows) + 1))
    return found


def _plain(value: object) -> object:
    from datetime import datetime

    return int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


def made(folder: Path, rows: Rows, names: Iterable[str] = tuple(QUERIES)) -> Weft:
    """A replay home whose tables have their columns from the first rows on."""
    folder.mkdir(parents=True, exist_ok=True)
    weft = Weft.open(folder / "home", clock="replay", create=True)
    load(weft, folder, rows)
    for name in names:
        weft.install(name, QUERIES[name].sql, keep="synopsis")
    return weft


FIRST = (Row("r", 0, (1, "x", 1_000)), Row("s", 0, (1, "x")))


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_any_ticks_deliver_the_rows_that_plain_loops_find(seed: int, tmp_path: Path) -> None:
    pick, rows = random.Random(seed), (*FIRST, *drawn(seed))
    cuts = sorted({*pick.sample(range(2, len(rows)), 3), len(rows)})
    with made(tmp_path, FIRST) as weft:
        loaded = len(FIRST)
        for cut in cuts:
            end = rows[cut - 1].ts + 1
            while cut < len(rows) and rows[cut].ts < end:
                cut += 1  # a tick takes all of an instant
            load(weft, tmp_path, rows[loaded:cut])
            loaded = max(loaded, cut)
            weft.tick(now=end)
            for name, asked in QUERIES.items():
                assert delivered(weft, name) == expected(asked, rows[:loaded], end), name
        assert verify(weft.catalog) == []


def test_rows_that_several_queries_store_are_stored_once_and_go_with_the_last(tmp_path: Path) -> None:
    rows = (*FIRST, *drawn(1))
    with made(tmp_path, rows, ["before"]) as weft:
        weft.tick(now=rows[20].ts + 1)
        kept = _stored(weft)
        weft.install("again", "SELECT r.b, r.a, s.c AS d FROM s, r WHERE r.a = s.a AND r.ts < s.ts", keep="synopsis")
        weft.pause("before")
        weft.tick(now=rows[30].ts + 1)
        assert _stored(weft) == kept
        weft.resume("before")
        weft.tick(now=rows[-1].ts + 1)
        wanted = expected(QUERIES["before"], rows, rows[-1].ts + 1)
        assert delivered(weft, "before") == wanted
        assert delivered(weft, "again") == {(b, a, c): at for (a, b, c), at in wanted.items()}
        weft.remove("before")
        assert _stored(weft) == kept
        weft.remove("again")
        assert _stored(weft) == set()
        assert verify(weft.catalog) == []


def _stored(weft: Weft) -> set[str]:
    return {name for name in (weft.catalog.data / layout.SYNOPSES).names() if name != "states"}


def test_stored_relations_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_relations, "_SLACK", 0)
    rows = tuple(Row("s", number * HOUR, (number % 2, "x")) for number in range(14))
    with made(tmp_path, FIRST, ["within"]) as weft:
        for row in rows:
            load(weft, tmp_path, [row])
            weft.tick(now=row.ts + 1)
            if row.ts == 8 * HOUR:
                assert any(each.name.startswith("synopses/") for each in weft.maintain(retain=0))
        assert verify(weft.catalog) == []
        places = [weft.catalog.data / layout.SYNOPSES / name for name in (*_stored(weft), "states")]
        assert all((Table(place).snapshot().rows or 0) < 8 for place in places)
        assert delivered(weft, "within") == expected(QUERIES["within"], (*FIRST, *rows), rows[-1].ts + 1)


def test_a_tick_reads_only_stored_rows_that_another_process_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reading = [], stored_relations.read_data_files
    monkeypatch.setattr(
        stored_relations, "read_data_files", lambda files, schema: read.append(len(files)) or reading(files, schema)
    )
    rows = tuple(Row("s", number * HOUR, (number % 2, "x")) for number in range(12))
    with made(tmp_path, FIRST, ["within"]) as weft:
        for number, row in enumerate(rows):
            load(weft, tmp_path, [row])
            if number == 6:  # another process ticks
                command = [sys.executable, "-m", "weft", "tick", "--home", str(tmp_path / "home")]
                assert forked.run([*command, "--now", _text(row.ts + 1)]).returncode == 0
                assert read == []
            else:
                weft.tick(now=row.ts + 1)
        assert sum(read) == 2, "one file of the states, one of the relation"
        assert delivered(weft, "within") == expected(QUERIES["within"], (*FIRST, *rows), rows[-1].ts + 1)


def test_stored_relations_have_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_relations, "_FILES", 3)
    rows = tuple(Row("r", number * HOUR, (number, "x", None)) for number in range(9))
    with made(tmp_path, FIRST, ["before"]) as weft:
        for row in rows:
            load(weft, tmp_path, [row])
            weft.tick(now=row.ts + 1)
            places = [weft.catalog.data / layout.SYNOPSES / name for name in (*_stored(weft), "states")]
            assert all(len(Table(place).snapshot().files) <= 3 for place in places)
        last = Row("s", 9 * HOUR, (4, "y"))
        load(weft, tmp_path, [last])
        weft.tick(now=last.ts + 1)
        assert delivered(weft, "before") == expected(QUERIES["before"], (*FIRST, *rows, last), last.ts + 1)
        assert verify(weft.catalog) == []


POINTS = (
    *("tick.planned", "tick.counting", "tick.committed"),
    *(f"tick.{each}:{number}" for each in ("computed", "written", "recorded") for number in (1, 2, 3)),
)
QUICK = (
    *(("tick.computed:1", False), ("tick.written:1", False), ("tick.recorded:2", False), ("tick.computed:3", False)),
    *(("tick.computed:1", True), ("tick.written:1", True), ("tick.computed:2", True), ("tick.written:3", True)),
)
KILLS = [
    pytest.param(*kill, marks=() if kill in QUICK else pytest.mark.slow)
    for kill in ((point, settled) for point in POINTS for settled in (False, True))
]


@pytest.fixture(scope="module")
def ticked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after its first tick."""
    folder, rows = tmp_path_factory.mktemp("ticked-once"), (*FIRST, *drawn(3))
    with made(folder, rows, ["before", "within"]) as weft:
        weft.tick(now=rows[20].ts + 1)
    return folder / "home"


@pytest.mark.parametrize(("point", "settled"), KILLS)
def test_a_tick_that_was_killed_is_done_again(point: str, settled: bool, ticked_once: Path, tmp_path: Path) -> None:
    rows, names = (*FIRST, *drawn(3)), ["before", "within"]
    shutil.copytree(ticked_once, tmp_path / "home")
    end = rows[-1].ts + 1
    command = [sys.executable, "-m", "weft", "tick", "--home", str(tmp_path / "home"), "--now", _text(end)]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL
    with Weft.open(tmp_path / "home", create=True) as weft:
        if settled:  # any command that writes ends the tick
            weft.pause("within")
            weft.resume("within")
            assert weft.catalog.ticks.planned() is None
        weft.tick(now=end)
        more = (Row("r", end, (2, "xy", None)), Row("s", end + 1, (2, "z")))
        load(weft, tmp_path, more)
        weft.tick(now=end + 2)
        for name in names:
            assert delivered(weft, name) == expected(QUERIES[name], (*rows, *more), end + 2)
        assert verify(weft.catalog) == []
        assert weft.catalog.reservations.still_open() == ()


def test_a_copy_of_a_home_goes_on_by_itself(tmp_path: Path) -> None:
    rows = (*FIRST, *drawn(5))
    with made(tmp_path, rows, ["before"]) as weft:
        weft.tick(now=rows[20].ts + 1)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    for folder in ("home", "copy"):
        with Weft.open(tmp_path / folder, create=True) as weft:
            weft.tick(now=rows[-1].ts + 1)
            assert delivered(weft, "before") == expected(QUERIES["before"], rows, rows[-1].ts + 1)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", "subquery"),
        ("SELECT a FROM r WHERE ts < NOW() - INTERVAL 1 HOUR", "NOW"),
        ("SELECT r.a FROM r, s WHERE r.a = s.a OR r.b = s.c", "OR"),
        ("SELECT b FROM results.before", "answers of another"),
        ("SELECT a FROM r WHERE b RLIKE '[xy]+$'", "a different value when Weft computes it without Spark"),
    ],
)
def test_a_query_without_a_synopsis_is_refused_with_the_reason(sql: str, why: str, tmp_path: Path) -> None:
    with made(tmp_path, FIRST, ["before"]) as weft, pytest.raises((SynopsisError, SqlError), match=why):
        weft.install("other", sql, keep="synopsis")


def test_an_operation_that_a_synopsis_cannot_do_is_refused(tmp_path: Path) -> None:
    with made(tmp_path, FIRST, ["before"]) as weft:
        with pytest.raises(SynopsisError, match="starts with the whole history"):
            weft.install("other", QUERIES["less"].sql, keep="synopsis", start="now")
        weft.pause("before")
        with pytest.raises(SynopsisError, match="later answers need"):
            weft.resume("before", skip=True)
        with pytest.raises(Conflict):
            weft.install("before", QUERIES["less"].sql, keep="synopsis")


def test_a_query_that_adds_too_much_is_set_aside_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (*FIRST, *(Row("r", number, (number, "x", None)) for number in range(2, 40)))
    with made(tmp_path, rows, ["whole", "instants"]) as weft:
        monkeypatch.setenv("WEFT_QUERY_ROWS", "1")
        weft.install("values", "SELECT a FROM r", keep="synopsis")
        (report,) = weft.tick(now=100).reports
        failed = [each.query.name for each in report.outcomes if each.query.state == "failed"]
        assert failed == ["values"]
        assert delivered(weft, "whole") == expected(QUERIES["whole"], rows, 100)


@pytest.mark.parametrize("language", ["sql", "mutl"])
def test_a_query_that_takes_too_long_is_set_aside_alone(
    language: Literal["sql", "mutl"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"sql": "SELECT r.a, s.c FROM r, s WHERE r.a <> s.a", "mutl": "MU X. s(x, y) OR PREVIOUS (X)"}[language]
    count = {"sql": 40_000, "mutl": 3_000}[language]
    rows = tuple(Row("r", 1, (number, "x", None)) for number in range(count if language == "sql" else 3))
    other = tuple(Row("s", 1 + number * (language == "mutl"), (number, str(number))) for number in range(count))
    with made(tmp_path, FIRST, ["whole"]) as weft:
        monkeypatch.setenv("WEFT_QUERY_SECONDS", "1")
        weft.install("slow", slow, keep="synopsis", language=language)
        load(weft, tmp_path, [*rows, *other])
        began = time.monotonic()
        (report,) = weft.tick(now=count + 2).reports
        assert time.monotonic() - began < 30
        failed = {each.query.name: each.reason for each in report.outcomes if each.query.state == "failed"}
        assert failed.keys() == {"slow"}
        assert "longer than 1 s" in str(failed["slow"])
        assert delivered(weft, "whole") == expected(QUERIES["whole"], (*FIRST, *rows), count + 2)


def test_answers_are_read_by_other_queries_and_no_spark_is_started(tmp_path: Path) -> None:
    rows = (*FIRST, *drawn(2))
    with made(tmp_path, rows) as weft:
        weft.tick(now=rows[-1].ts + 1)
        assert "pyspark.sql.session" not in sys.modules or not _active()
        assert weft.catalog.queries.named("before").last_first_at == max(delivered(weft, "before").values())


def _active() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def test_a_change_is_read_as_of_any_instant_that_is_needed() -> None:
    import pyarrow as pa

    relation = pa.schema([("v1", pa.int64()), ("n", pa.int64())])
    empty = stored_relations.table_schema(relation).empty_table()
    log = stored_relations.RelationLog(relation, empty)
    pick, result = random.Random(1), {}
    for t in range(1, 60):
        wanted = pa.table({"v1": sorted(pick.sample(range(6), 3)), "n": [1, 1, pick.randrange(3)]}, relation)
        result[t] = wanted.to_pylist()
        change = log.change_to(wanted, t, [max(1, t - 3)])
        if change is not None:
            log = log.changed(change)
        # What a process keeps of its own changes is what another one reads.
        from_scratch = stored_relations.RelationLog.of(relation, log.rows)
        for back in range(max(1, t - 3), t + 1):
            for each in (log, from_scratch):
                assert each.as_of(back).sort_by("v1").to_pylist() == result[back]
