"""Random acts on a home with its data on S3, its catalog on PostgreSQL, and Spark on two workers.

Spark computes all ticks, views and synopses. The test of ``tests/soak`` runs in a process of its own, whose session is
on the cluster.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from postgresql_server import Server
from s3_server import environment, new_bucket
from scenario.attached import surroundings
from soak.acts import CATALOG, STORE
from standalone_cluster import Cluster
from weft.store import S3Access

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 6_000


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_acts_on_a_cluster_lose_nothing_and_repeat_nothing(
    cluster: Cluster, database_server: Server, s3_access: S3Access, tmp_path: Path
) -> None:
    places = {CATALOG: database_server.uri(database_server.new_database()), STORE: new_bucket(s3_access).uri}
    command = [
        sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:xdist", "-p", "no:cacheprovider",
        f"--timeout={PATIENCE_SECONDS}", f"--basetemp={tmp_path / 't'}", "-m", "not slow", str(TESTS / "soak"),
    ]  # fmt: skip
    before = cluster.sessions()
    done = subprocess.run(
        command,
        env=surroundings({"WEFT_SPARK_MASTER": cluster.url, **environment(s3_access), **places}),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert cluster.sessions() == before + 1
