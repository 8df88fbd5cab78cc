"""Fixtures for all tests: the Spark session of the test run, and the folder of the real corpora."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delta_spark import DeltaSpark
    from postgresql_server import Server
    from weft.store import S3Access, S3Store

CANARY = "canary-5e1f0b6c"
"""The secret that no output may contain. It is in a file and in the variable WEFT_CANARY of Spark's environment."""
REPOSITORY = Path(__file__).resolve().parent.parent
SPARK_FOLDERS = ("spark", "scenario", "soak")
"""The folders whose tests all belong to the Spark stage."""

# No deadline for an example, because the machine may be busy.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")
# A test uses the class-data archive that run.py creates. Without it, each test would create one.
os.environ.setdefault("WEFT_CLASS_ARCHIVE", "existing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files with what the code gives now")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test of the Spark stage, because their import takes longer than many tests.

    A file outside the folders of this stage has such a test only if it names the fixture or the mark ``spark``.
    """
    if not str(config.option.markexpr).startswith("spark") or not collection_path.match("test_*.py"):
        return None
    folder = collection_path.relative_to(REPOSITORY / "tests").parts[0]
    if folder in SPARK_FOLDERS or re.search(r"\bspark\b", collection_path.read_text()):
        return None
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the Spark stage: those in ``spark``, ``scenario`` and ``soak``, and those that use the session.

    Tests with the mark ``last`` measure time limits. They run at the end, when the parallel stages have probably
    finished. The longest tests of the oracle run first, so that no worker waits for another at the end.
    """
    for item in items:
        if not item.path.is_relative_to(REPOSITORY / "tests"):
            continue  # an example in a docstring
        folder = item.path.relative_to(REPOSITORY / "tests").parts[0]
        if folder in SPARK_FOLDERS or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """Exclude what is there so far, such as thousands of tests, from garbage collections, and collect less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """Collect at the end of the process what was excluded, because libraries report it as leaked."""
    gc.unfreeze()


LONGEST = (
    "test_view_courses.py",
    "test_laws.py",
    "test_analytic.py",
    "test_synopses.py",
    "test_views.py",
    "test_suites.py",
    "test_two_sorted.py",
)


def _turn(item: pytest.Item) -> tuple[bool, int]:
    """Return the sort key of a test: tests marked ``last`` run at the end, and the longest tests run first."""
    longest = item.path.parent.name == "oracle" and item.path.name in LONGEST
    return item.get_closest_marker("last") is not None, LONGEST.index(item.path.name) if longest else len(LONGEST)


def pytest_runtest_teardown() -> None:
    """Reset the consoles, because a process keeps the first terminal and its width."""
    if printing := sys.modules.get("weft.cli.printing"):
        printing._console.cache_clear()


@pytest.fixture(autouse=True)
def _no_spark_outside_its_stage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts Spark outside the Spark stage. A JVM takes ten seconds of a core."""
    yield
    session = sys.modules.get("weft.runtime.session")
    marked = request.node.get_closest_marker("spark") is not None
    assert marked or session is None or session._running is None, "mark the test with `spark`, or let it need no Spark"


@pytest.fixture(autouse=True, scope="session")
def _quick_hashes() -> Iterator[None]:
    """Hash passwords with the least cost. With the real cost, a hash takes 0.2 s of a core and 64 MiB."""
    from argon2 import PasswordHasher

    from weft.rights import secrets

    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "_hasher", lambda: quick)
        yield


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether to rewrite the golden files (``make bless``)."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of the test run. It starts once per process, because the start takes 5 to 15 seconds."""
    from weft.runtime.jars import S3_JARS, fetch_jars
    from weft.runtime.session import spark_session, stop_session

    os.environ["WEFT_CANARY"] = CANARY
    yield spark_session(tmp_path_factory.mktemp("spark-log"), jars=fetch_jars(S3_JARS))
    stop_session()


@pytest.fixture(scope="session")
def other_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """Another program: a Spark with Delta Lake in a process of its own."""
    from delta_spark import delta_spark

    with delta_spark(tmp_path_factory.mktemp("other-spark")) as running:
        yield running


@pytest.fixture(scope="session")
def s3_access() -> Iterator[S3Access]:
    """The access to the S3 server of the test run. It starts once per process."""
    from s3_server import access_to, s3_server

    with s3_server("weft-tests") as port:
        yield access_to(port)


@pytest.fixture
def bucket(s3_access: S3Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3Store:
    """An empty bucket, which AWS's variables reach."""
    from s3_server import environment, new_bucket

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    return new_bucket(s3_access)


@pytest.fixture(scope="session")
def database_server() -> Iterator[Server]:
    """The PostgreSQL server of the test run. It starts once per process."""
    from postgresql_server import postgresql_server

    with postgresql_server() as running:
        yield running


@pytest.fixture(scope="module")
def postgresql(database_server: Server) -> str:
    """The URI of a PostgreSQL database for the tests of one module."""
    return database_server.uri(database_server.new_database())


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the real corpora: ``WEFT_DATA``, or ``shared/data`` next to the repository.

    The corpora are not part of the project. If they are missing, the tests that need them are skipped with a message.
    """
    chosen = os.environ.get("WEFT_DATA")
    folder = Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            f"NO REAL CORPORA: {folder} is not there; set WEFT_DATA to the folder that has netnews/ and mail-large/"
        )
    return folder
