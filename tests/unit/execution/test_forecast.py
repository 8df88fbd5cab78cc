"""What `explain --tick` says of the next tick: what the driver, an arrangement and Spark read, and why; no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from weft.algebra.access import Key
from weft.api.weft import Weft
from weft.catalog import layout
from weft.cli.app import run
from weft.errors import NotFound
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds
from weft.execution.look_ups import LookUps
from weft.storage.table import Table

QUERY = (
    "SELECT m.id, a.word FROM posts m, posts a WHERE a.id = m.parent "
    "AND NOT EXISTS (SELECT * FROM posts b WHERE b.parent = a.id AND b.ts < a.ts)"
)


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    """A replay home with a query that was ticked to 1993-04-05, and 8 posts, 7 of them since."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        _load(opened, tmp_path, range(1), "1993-04-01")
        opened.install("replies", QUERY)
        with opened.writing("test") as writer:
            writer.queries.skip_to("replies", 734_000_000_000_000, *_plan(opened))
        _load(opened, tmp_path, range(1, 5), "1993-04-21")
        _load(opened, tmp_path, range(5, 8), "1993-04-22")
        yield opened


def _plan(weft: Weft) -> tuple[str, str]:
    record = weft.catalog.queries.plan(weft.catalog.queries.named("replies").plan_id)
    return record.signature, record.body


def _load(weft: Weft, folder: Path, ids: range, day: str) -> None:
    rows = [{"id": n, "parent": n - 1, "word": "w", "at": f"{day}T00:00:0{n}Z"} for n in ids]
    file = folder / f"{ids.start}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    weft.ingest_file(file, "posts", ts_from="at")


WORDS = (
    "SELECT m.id, r.n FROM posts m JOIN (SELECT parent, COUNT(DISTINCT word) AS n FROM posts GROUP BY parent) AS r "
    "ON r.parent = m.id"
)


def _ticked(weft: Weft, name: str, text: str) -> None:
    weft.install(name, text)
    plan = weft.catalog.queries.plan(weft.catalog.queries.named(name).plan_id)
    with weft.writing("test") as writer:
        writer.queries.skip_to(name, 734_000_000_000_000, plan.signature, plan.body)


def test_the_inputs_of_a_state_are_listed_before_its_rows(weft: Weft) -> None:
    _ticked(weft, "words", WORDS)
    found = weft.explain_tick("words")
    read = {re.sub("_[0-9a-f]{12}", "", each.view): each for each in found.relations}
    assert list(read) == [
        "posts__news",
        "posts__news__of_state",
        "keys_state__of_state",
        "posts__by_parent__of_state",
        "state__news",
        "state__by_parent",
        "posts__by_id",
    ]
    assert (found.way, read["posts__news__of_state"].rows) == ("duckdb", 7)
    assert read["posts__by_parent__of_state"].how.startswith("7 keys looked up in the whole table, 8 rows: 7 found")
    state = read["state__news"]
    assert state.what == "groups of posts (GROUP BY posts.parent)" and state.rows is None
    assert state.how == "the groups that change, at most 7, computed"
    assert read["posts__by_id"].how.startswith("7 keys looked up")


def test_a_state_over_a_large_table_is_computed_by_spark(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    _ticked(weft, "all_words", "SELECT COUNT(DISTINCT word) AS n FROM posts")
    _ticked(weft, "sizes", "SELECT parent, COUNT(*) AS n FROM posts GROUP BY parent")
    assert weft.explain_tick("all_words").way == weft.explain_tick("sizes").way == "duckdb"
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(whole=7, filtered=7, inputs=7))
    read = {each.view.split("__of_")[0]: each for each in weft.explain_tick("all_words").relations}
    assert (read["posts"].by, weft.explain_tick("all_words").way) == ("DuckDB", "duckdb")
    assert read["posts"].how == "its files, whole (the whole table, 8 rows, but the driver reads at most 7)"
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(whole=7, filtered=7, inputs=7, large=7))
    found = weft.explain_tick("all_words")
    assert found.way == "files" and found.relations[-1].by == "Spark"
    assert found.relations[-1].what == "aggregates over posts"
    sizes = weft.explain_tick("sizes").relations[-1]  # no totals are stored yet
    assert (sizes.by, sizes.how) == ("Spark", "all groups, computed from the tables")


def test_a_threshold_on_a_date_reads_the_rows_of_its_window(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    rows = [{"task": day, "due": f"1993-04-{day:02}", "at": "1993-04-01T00:00:00Z"} for day in range(1, 31)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.ingest_file(file, "tasks", ts_from="at", types={"due": "DATE"})
        _load(weft, tmp_path, range(1, 2), "1993-04-22")
        for name, condition in (("late", "NOW() > due"), ("later", "CURRENT_DATE >= DATE_ADD(due, 2)")):
            _ticked(weft, name, f"SELECT task FROM tasks WHERE {condition}")
            (news,) = weft.explain_tick(name).relations
            assert (news.view, news.by, news.rows) == ("tasks__news", "driver", 17)  # the window has 17 midnights


def test_a_threshold_on_an_aggregate_looks_the_other_tables_up(weft: Weft) -> None:
    text = (
        "SELECT m.id, r.n FROM posts m JOIN (SELECT parent, MAX(ts) AS latest, COUNT(DISTINCT word) AS n FROM posts "
        "GROUP BY parent) AS r ON r.parent = m.id WHERE NOW() > r.latest + INTERVAL 1 HOUR"
    )
    _ticked(weft, "old", text)
    read = {re.sub("_[0-9a-f]{12}", "", each.view): each for each in weft.explain_tick("old").relations}
    assert "posts" not in read and read["posts__by_id"].what == "look-up of posts by id"


def lines(weft: Weft) -> dict[str, tuple[str, str]]:
    return {each.view: (each.by, each.how) for each in weft.explain_tick("replies").relations}


def test_small_tables_are_read_whole_and_keys_are_counted(weft: Weft) -> None:
    found = weft.explain_tick("replies")
    assert (found.way, found.quiet) == ("duckdb", None)
    read = {each.view: each for each in found.relations}
    news = read["posts__news"]
    assert (news.what, news.by, news.how) == ("new rows of posts by ts", "driver", "7 rows from 2 files with 7 rows")
    parents = read["posts__by_id"]
    assert parents.what == "look-up of posts by id"
    assert parents.how.startswith("14 keys looked up in the whole table, 8 rows: 8 found")
    assert (found.known.by, found.known.how) == ("driver", "nothing so far")


def test_a_table_that_is_larger_is_asked_through_its_arrangement(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(whole=7, filtered=7))
    by, how = lines(weft)["posts__by_id"]
    assert by == "arrangement"
    assert "by id: an arrangement of 0 rows, runs: 0, 8 rows behind" in how
    assert not layout.arrangements_folder(weft.home).exists()  # nothing is written
    read = {each.view: each.rows for each in weft.explain_tick("replies").relations}
    _caught_up(weft)
    assert "by id: an arrangement of 8 rows, runs: 1, 0 rows behind" in lines(weft)["posts__by_id"][1]
    assert {each.view: each.rows for each in weft.explain_tick("replies").relations} == read


def _caught_up(weft: Weft) -> None:
    """As a tick does it."""
    table = weft.catalog.tables.named("posts")
    files = Table(weft.catalog.data / table.path).snapshot().files
    keys = driver_reader.pa.table({"key": driver_reader.pa.array([1])})
    look_ups = LookUps(layout.arrangements_folder(weft.home))
    for column in ("id", "parent"):
        assert (
            look_ups.rows(table.schema, files, Key(column), [c.name for c in table.schema.columns], keys).rows
            is not None
        )


@pytest.mark.parametrize(
    ("bounds", "view", "why"),
    [
        (ReadBounds(news=6), "posts__news", "the result exceeds 6 rows or 64 MB"),
        (ReadBounds(scanned=6), "posts__news", "2 files with 7 rows, but the driver reads at most 6"),
        (ReadBounds(keys=13), "posts__by_id", "14 keys, but the driver reads at most 13"),
        (ReadBounds(news=6), "posts__by_id", "the keys come from posts__news, which Spark reads"),
    ],
)
def test_relations_beyond_a_bound_are_read_whole(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, bounds: ReadBounds, view: str, why: str
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", bounds)
    found = weft.explain_tick("replies")
    assert found.way == "duckdb"
    assert ("DuckDB", "its files") in [(each.by, each.how) for each in found.relations if each.view == view]
    monkeypatch.setattr(driver_reader, "BOUNDS", replace(bounds, large=-1))
    found = weft.explain_tick("replies")
    assert found.way == "files"
    assert ("Spark", why) in [(each.by, each.how) for each in found.relations if each.view == view]


def test_a_tick_with_nothing_to_do_says_why(weft: Weft) -> None:
    with weft.writing("test") as writer:
        writer.queries.skip_to("replies", 2_000_000_000_000_000, *_plan(weft))
    found = weft.explain_tick("replies")
    assert (found.way, found.quiet) == ("nothing", "the query was already ticked at this instant")


def test_it_is_printed_and_given_as_json(weft: Weft, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(weft.home)]
    assert run(["explain", "--tick", "replies", *home]) == 0
    result = capsys.readouterr().out
    assert "posts__news" in result
    assert "DuckDB computes the answers in this process, without Spark." in result
    assert run(["explain", "--tick", "replies", "--json", *home]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["way"], found["tau"]) == ("duckdb", "1993-04-05T08:53:20Z")
    assert {"view", "what", "by", "how", "rows"} == set(found["relations"][0])
    assert run(["explain", "SELECT id FROM posts", "--tick", "replies", *home]) == 2
    assert run(["explain", "--tick", "nobody", *home]) == 2
    with pytest.raises(NotFound):
        weft.explain_tick("nobody")
