"""The catalog on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.catalog import Catalog, liveness, open_catalog

_numbers = itertools.count(1)
Opened = Callable[..., Catalog]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The URL of an empty catalog, None for the SQLite file that a home has."""
    if request.param == "sqlite":
        return None
    monkeypatch.setattr(liveness, "_RECONNECT_US", 0)  # the server has started later than the times of the tests
    return f"{request.getfixturevalue('postgresql')}&schema=home_{next(_numbers)}"


@pytest.fixture
def opened(url: str | None) -> Iterator[Opened]:
    """``open_catalog`` over the database; what it opened is closed at the end."""
    made: list[Catalog] = []

    def open_one(home: Path, *, create: bool = False, **options: object) -> Catalog:
        given = url if create else None  # the settings of the home name the URL from then on
        made.append(open_catalog(home, create=create, url=given, **options))  # type: ignore[arg-type]
        return made[-1]

    yield open_one
    for each in made:
        each.close()
