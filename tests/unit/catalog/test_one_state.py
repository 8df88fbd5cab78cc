"""A thread that reads one state sees no changes of others, and its own changes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, text

from weft.algebra.schema import STRING
from weft.catalog import Catalog
from weft.errors import CatalogError, NotFound


@pytest.fixture
def catalog(tmp_path: Path, opened: Callable[..., Catalog]) -> Catalog:
    return opened(tmp_path / "home", create=True, clock="replay", at=0)


def add(catalog: Catalog, name: str) -> None:
    with catalog.writing("test", lambda: 1) as writer:
        writer.tables.create(name, [("note", STRING)])


def names(catalog: Catalog) -> list[str]:
    return [table.name for table in catalog.tables.known()]


def elsewhere(catalog: Catalog, name: str) -> None:
    """Add a table in another thread."""
    thread = threading.Thread(target=add, args=(catalog, name))
    thread.start()
    thread.join()


def test_changes_of_others_appear_after_the_state(catalog: Catalog) -> None:
    add(catalog, "one")
    with catalog.one_state():
        assert names(catalog) == ["one"]
        elsewhere(catalog, "two")
        assert names(catalog) == ["one"]
        with pytest.raises(NotFound):
            catalog.tables.named("two")
        with catalog.one_state():
            assert names(catalog) == ["one"]
    assert names(catalog) == ["one", "two"]


def test_own_changes_appear_at_once(catalog: Catalog) -> None:
    with catalog.one_state():
        assert names(catalog) == []
        elsewhere(catalog, "one")
        add(catalog, "two")
        assert names(catalog) == ["one", "two"]


def test_a_thread_asks_once(catalog: Catalog) -> None:
    add(catalog, "one")
    asked, begun = list[str](), list[object]()
    engine = catalog._database._engine
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    event.listen(engine, "begin", begun.append)
    with catalog.one_state():
        first = catalog.tables.all()
        count = len(asked)
        assert catalog.tables.all() is first
        assert catalog.tables.named("one") == first[0]
    assert count and len(begun) == 1
    asked.clear()
    catalog.tables.all()
    assert len(asked) == count


def test_arguments_that_can_change_are_read_each_time(catalog: Catalog) -> None:
    read, keys = list[object](), (1, [2])
    with catalog.one_state():
        for _ in range(2):
            catalog._database.read(lambda connection, *given: read.append(given), keys)
    assert read == [(keys,), (keys,)]


def test_an_error_of_the_database_ends_the_state(catalog: Catalog) -> None:
    with catalog.one_state():
        assert names(catalog) == []
        elsewhere(catalog, "one")
        with pytest.raises(CatalogError), catalog._database.reading() as connection:
            connection.execute(text("SELECT nothing FROM nowhere"))
        assert names(catalog) == ["one"]


THREADS = 32
"""As many as the threads of pages and of jobs."""


def together(work: Callable[[], object]) -> list[object]:
    """Run ``work`` in as many threads as pages and jobs have, once all of them hold a state of the catalog."""
    with ThreadPoolExecutor(THREADS) as threads:
        return [each.result(20) for each in [threads.submit(work) for _ in range(THREADS)]]


def test_as_many_threads_as_there_are_pages_read_and_ask_the_clock(catalog: Catalog) -> None:
    add(catalog, "one")
    all_read = threading.Barrier(THREADS, timeout=10)

    def page() -> object:
        with catalog.one_state():
            found = names(catalog)
            all_read.wait()
            assert catalog.clock is None or catalog.clock() < catalog.clock()
            return found

    assert together(page) == [["one"]] * THREADS


def test_a_writer_waits_for_no_page(catalog: Catalog) -> None:
    all_read, written = threading.Barrier(THREADS + 1, timeout=10), threading.Event()

    def page() -> object:
        with catalog.one_state():
            before = names(catalog)
            all_read.wait()
            assert written.wait(10)
            return before, names(catalog)

    def write() -> None:
        all_read.wait()
        add(catalog, "one")
        written.set()

    with ThreadPoolExecutor(1) as writer:
        done = writer.submit(write)
        assert together(page) == [([], [])] * THREADS
        done.result(10)
    assert names(catalog) == ["one"]


def test_an_error_in_a_reader_within_a_reader_ends_the_state_with_the_outer_one(catalog: Catalog) -> None:
    database = catalog._database
    with catalog.one_state():
        with database.reading():
            assert names(catalog) == []
            elsewhere(catalog, "one")
            with pytest.raises(CatalogError), database.reading() as connection:
                connection.execute(text("SELECT nothing FROM nowhere"))
        assert names(catalog) == ["one"]


def test_an_own_change_within_a_reader_ends_the_state_with_it(catalog: Catalog) -> None:
    with catalog.one_state():
        with catalog._database.reading():
            assert names(catalog) == []
            add(catalog, "one")
        assert names(catalog) == ["one"]
