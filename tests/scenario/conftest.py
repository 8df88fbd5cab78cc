"""What several scenarios use: a cluster, the files that they load, and the demo on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenario import pipeline
from scenario.cluster_session import Answers, Silent, answers
from scenario.killed import write_sources
from standalone_cluster import Cluster, standalone_cluster
from weft.demo.play import play


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of two workers."""
    with standalone_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def small_batches() -> Iterator[None]:
    """Limit batches to a few rows, until the end of the module."""
    with pytest.MonkeyPatch.context() as patch:
        pipeline.limit_batches(patch)
        yield


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files that the pipeline loads."""
    return write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="session")
def local_demo(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the demo in a folder, on one machine."""
    home = tmp_path_factory.mktemp("local-demo") / "home"
    play(home, Silent())
    return home


@pytest.fixture(scope="session")
def demo_answers(local_demo: Path) -> Answers:
    """The answers of the demo on one machine."""
    found = answers(local_demo)
    assert all(found.values())
    return found
