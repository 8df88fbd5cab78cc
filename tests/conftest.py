"""Fixtures that every kind of test shares: the one Spark session of a test run, and where the real corpora are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANARY = "canary-5e1f0b6c"
"""What must never come back from a hostile text: the content of a file, and of WEFT_CANARY in Spark's environment."""
REPOSITORY = Path(__file__).resolve().parent.parent

# How long an example takes says nothing: the machine may be busy.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")
# Making an archive of Java's classes takes a core for two minutes; what is of the archive has a test of its own.
os.environ.setdefault("WEFT_CLASS_ARCHIVE", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files with what the code gives now")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what belongs to the Spark stage: the folders that run Weft as a whole, and whoever asks for the session.

    What waits for limits of time comes last, when other stages that began with this one are through, or nearly so.  The
    longest tests of the oracle come first, so that no worker waits for another at the end.
    """
    for item in items:
        if not item.path.is_relative_to(REPOSITORY / "tests"):
            continue  # an example in a docstring
        folder = item.path.relative_to(REPOSITORY / "tests").parts[0]
        if folder in ("spark", "scenario") or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=_turn)


LONGEST = ("test_view_courses.py", "test_laws.py", "test_synopses.py", "test_views.py", "test_two_sorted.py")


def _turn(item: pytest.Item) -> tuple[bool, int]:
    """When a test runs: those marked ``last`` at the end, the longest first."""
    longest = item.path.parent.name == "oracle" and item.path.name in LONGEST
    return item.get_closest_marker("last") is not None, LONGEST.index(item.path.name) if longest else len(LONGEST)


def pytest_runtest_teardown() -> None:
    """A process keeps the terminal that it wrote to first, and the width it had: each test begins with none."""
    if printing := sys.modules.get("weft.cli.printing"):
        printing._console.cache_clear()


@pytest.fixture(autouse=True)
def _no_spark_outside_its_stage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts Spark in the stages without it: a JVM takes ten seconds of a core."""
    yield
    session = sys.modules.get("weft.runtime.session")
    marked = request.node.get_closest_marker("spark") is not None
    assert marked or session is None or session._running is None, "mark the test with `spark`, or let it need no Spark"


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten (``make bless``)."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of this test run; starting it takes 5 to 15 seconds, so it is started once a process."""
    from weft.runtime.session import spark_session, stop_session

    os.environ["WEFT_CANARY"] = CANARY
    yield spark_session(tmp_path_factory.mktemp("spark-log"))
    stop_session()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the real corpora: ``WEFT_DATA``, else ``shared/data`` beside the repository.

    They are not part of the project: a test that asks for them is skipped, and says so, where they are not there.
    """
    chosen = os.environ.get("WEFT_DATA")
    folder = Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            f"NO REAL CORPORA: {folder} is not there; set WEFT_DATA to the folder that has netnews/ and mail-large/"
        )
    return folder
