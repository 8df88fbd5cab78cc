"""Words find the answers that contain them, also after purges, damage, and answers of later ticks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.api import searching
from weft.api.searching import Found
from weft.api.weft import Weft
from weft.rights.principal import Principal

DAY = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", create=True, clock="replay") as opened:
        opened.make_table("notes", "id INT, text STRING")
        opened.install("all", "SELECT n.id, n.text FROM notes n", keep="synopsis")
        opened.install("few", "SELECT n.text FROM notes n WHERE n.id < 3", keep="synopsis")
        _add(opened, 1, "a quick fox of Größe", 'slow "quoted" hare')
        yield opened


def _add(weft: Weft, first: int, *texts: str) -> None:
    day = DAY + dt.timedelta(days=first)
    weft.append("notes", [{"id": n, "text": text, "ts": day} for n, text in enumerate(texts, first)], ts_from="ts")
    weft.tick(now=day + dt.timedelta(hours=1))


def _found(weft: Weft, text: str, query_id: int | None = None) -> list[tuple[str, int]]:
    found = weft.search(text, query_id=query_id)
    assert found.complete
    return sorted((each.query.name, each.ordinal) for each in found.answers)


def test_words_find_answers(weft: Weft) -> None:
    assert _found(weft, "fox") == [("all", 1), ("few", 1)]
    assert _found(weft, "GROSSE qui") == []
    assert _found(weft, "große") == _found(weft, "grö") == _found(weft, "QUICK fo") == [("all", 1), ("few", 1)]
    assert _found(weft, "fox", query_id=1) == [("all", 1)]
    assert _found(weft, 'say "quoted') == []
    assert _found(weft, '"quoted" OR NOT * (') == []
    assert _found(weft, "") == _found(weft, " \0 ") == []


def test_a_search_is_complete_while_another_thread_looks_for_answers(weft: Weft) -> None:
    _found(weft, "fox")
    (lock,) = (each for folder, each in searching._adding.items() if folder.is_relative_to(weft.home))
    with lock:
        assert _found(weft, "fox") == [("all", 1), ("few", 1)]
        _add(weft, 3, "a second fox")
        assert not weft.search("fox").complete
    assert _found(weft, "second") == [("all", 3)]


def test_later_answers_are_found_newest_first_and_page_by_page(weft: Weft) -> None:
    assert _found(weft, "hare") == [("all", 2), ("few", 2)]
    _add(weft, 3, "a second hare")
    first = weft.search("hare", query_id=1, limit=1)
    assert [each.ordinal for each in first.answers] == [3]
    assert first.more is not None
    rest = weft.search("hare", query_id=1, before=first.more, limit=1)
    assert ([each.ordinal for each in rest.answers], rest.more) == ([2], None)


def test_a_search_reveals_nothing_about_hidden_answers(weft: Weft) -> None:
    _add(weft, 3, "a second hare", "a third hare")
    weft.accounts.add_user("bo", "reader")
    bo = weft.acting_as(Principal("bo", weft.accounts.user("bo").user_id))
    for text in ("hare", "h", "second"):
        assert bo.search(text, limit=1) == Found((), None, True) == bo.search(text, query_id=1, limit=1)
    weft.accounts.grant("bo", "read", "results.few")
    found = bo.search("hare", limit=1)
    assert ([(each.query.name, each.ordinal) for each in found.answers], found.more) == ([("few", 2)], None)
    assert bo.search("h", query_id=1).answers == ()


def test_purged_answers_leave_the_index(weft: Weft) -> None:
    assert _found(weft, "fox") == [("all", 1), ("few", 1)]
    weft.remove("few", purge=True)
    assert _found(weft, "fox") == [("all", 1)]
    files = [file.read_bytes() for file in (weft.home / "search").iterdir()]
    weft.remove("all", purge=True)
    assert _found(weft, "fox") == []
    assert any(b"quick fox" in content for content in files)
    assert not any(b"quick fox" in file.read_bytes() for file in (weft.home / "search").iterdir())


def test_a_damaged_index_is_made_again(weft: Weft) -> None:
    assert _found(weft, "fox")
    index = weft.home / "search" / "answers.sqlite"
    for file in index.parent.iterdir():
        file.unlink()
    index.write_bytes(b"no database" * 1_000)
    assert _found(weft, "fox") == [("all", 1), ("few", 1)]


def test_the_index_has_what_the_ledger_has(weft: Weft) -> None:
    weft.index_answers()
    weft.index_answers()
    _add(weft, 3, "third", "fourth")
    weft.index_answers()
    every = {(query.name, row.ordinal) for query in weft.queries() for row in weft.results(query.name)}
    words = ("quick", "slow", "third", "fourth")
    assert {each for word in words for each in _found(weft, word)} == every
