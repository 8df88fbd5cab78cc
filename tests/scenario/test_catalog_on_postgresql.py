"""Laws 1, 2 and 6 for a home whose catalog is on PostgreSQL: ticks are killed, and the server is restarted and stopped.

The messages, secrets and leases of such a home are tested in ``tests/unit/cli/test_catalog_on_postgresql.py``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgresql_server import Server
from scenario import pipeline
from scenario.killed import contents, require_laws, run_process, write_sources
from weft.api import Weft
from weft.errors import CatalogUnreachable
from weft.extraction import ingest
from weft.extraction.files import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small_batches() -> Iterator[None]:
    """Limit batches to a few rows, until the end of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "batches_of", ingest.batches_of)
        patch.setattr(rows, "MAX_ROWS", rows.MAX_ROWS)
        yield


def once_at(point: str, happens: Callable[[], None]) -> Callable[[str], None]:
    """Return a function in place of ``failpoint``, in which something happens when a tick first reaches ``point``."""
    left = [happens]

    def reached(name: str) -> None:
        if name == point and left:
            left.pop()()

    return reached


def test_kills_and_restarts_lose_nothing_and_repeat_nothing(
    spark: SparkSession, small_batches: None, database_server: Server, tmp_path: Path
) -> None:
    home, sources = tmp_path / "home", write_sources(tmp_path)
    url = database_server.uri(database_server.new_database())
    Weft.open(home, clock="replay", create=True, catalog=url).close()
    pipeline.run(home, sources, "load_first", "load_votes", "install")
    for point in ("tick.computed", "tick.written"):
        assert run_process(home, sources, "first_tick", failpoint=point) == -signal.SIGKILL
    pipeline.run(home, sources, "first_tick")  # the leases of the killed processes are free at once
    database_server.restart()
    pipeline.run(home, sources, "load_more")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.writing.outputs.failpoint", once_at("tick.computed", database_server.restart))
        pipeline.run(home, sources, "second_tick")  # no transaction is open while a tick computes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.execution.ticks.tick.failpoint", once_at("tick.planned", database_server.stop))
        try:
            with pytest.raises(CatalogUnreachable, match="the catalog could not be reached"):
                pipeline.run(home, sources, "third_tick")
        finally:
            database_server.start()
    pipeline.run(home, sources, *pipeline.STEPS, "third_tick")
    with Weft.open(home) as weft:
        assert weft.catalog.home().watermark == pipeline.THIRD_TICK
        require_laws(weft)
        found = contents(weft)
    assert all(found.tables.values()) and all(found.files.values()) and found.quarantine
    assert not (home / "catalog.sqlite").exists()
