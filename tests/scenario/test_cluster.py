"""A home on a standalone cluster of two workers gives the answers of a home on one machine, also if workers die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenario.cluster_session import Silent, answers
from standalone_cluster import Cluster, standalone_cluster
from weft.demo.play import play

SESSION = Path(__file__).with_name("cluster_session.py")
LOST = Path(__file__).with_name("lost_executors.py")
RESULT = sum(number % 7 == 3 for number in range(100_000))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standalone_cluster() as running:
        yield running


@pytest.mark.timeout(600)
def test_a_worker_dies_in_a_tick_and_the_answers_are_those_of_one_machine(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    environment = {**os.environ, "WEFT_SPARK_MASTER": cluster.url, "WEFT_SPARK_MEMORY": "1g"}
    command = [sys.executable, str(SESSION), str(tmp_path / "on-the-cluster")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        lines = iter(session.stdout)
        assert next(lines) == "busy\n"
        cluster.kill_worker(1)
        cluster.start_worker()
        found = json.loads(next(lines))
    play(tmp_path / "local", Silent())
    expected = json.loads(json.dumps(answers(tmp_path / "local")))
    assert found == expected
    assert all(found.values())


@pytest.mark.timeout(600)
def test_tables_of_a_computation_survive_an_executor_and_are_computed_again_after_two(
    cluster: Cluster, tmp_path: Path
) -> None:
    environment = {**os.environ, "WEFT_SPARK_MASTER": cluster.url, "WEFT_SPARK_MEMORY": "1g"}
    command = [sys.executable, str(LOST), str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for killed, times in ((1, 1), (2, 2)):
            assert process.stdout.readline() == "kept\n"
            for number in list(cluster.workers)[:killed]:
                cluster.kill_worker(number)
            if killed == 2:
                cluster.start_worker()
            cluster.start_worker()
            process.stdin.write("\n")
            assert process.stdout.readline() == f"{RESULT} {times}\n"
