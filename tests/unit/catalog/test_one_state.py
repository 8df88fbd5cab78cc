"""A thread that reads one state sees no changes of others, and its own changes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
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


def test_an_error_of_the_database_ends_the_state(catalog: Catalog) -> None:
    with catalog.one_state():
        assert names(catalog) == []
        elsewhere(catalog, "one")
        with pytest.raises(CatalogError), catalog._database.reading() as connection:
            connection.execute(text("SELECT nothing FROM nowhere"))
        assert names(catalog) == ["one"]
