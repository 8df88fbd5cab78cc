"""What several scenarios compare with."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenario.cluster_session import Answers, Silent, answers
from weft.demo.play import play


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
