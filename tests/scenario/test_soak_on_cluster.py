"""Random acts on a home with its data on S3, its catalog on PostgreSQL, and Spark on two workers.

Spark computes all ticks, views and synopses. The test of ``tests/soak`` runs in a process of its own, whose session is
on the cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from postgresql_server import Server
from s3_server import environment, new_bucket
from scenario.on_cluster import PATIENCE_SECONDS, TESTS, passed_on_cluster
from soak.acts import CATALOG, STORE
from standalone_cluster import Cluster
from weft.store import S3Access


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_acts_on_a_cluster_lose_nothing_and_repeat_nothing(
    cluster: Cluster, database_server: Server, s3_access: S3Access, tmp_path: Path
) -> None:
    places = {CATALOG: database_server.uri(database_server.new_database()), STORE: new_bucket(s3_access).uri}
    selection = ["-m", "not slow", str(TESTS / "soak")]
    assert "1 passed" in passed_on_cluster(cluster, tmp_path, selection, {**environment(s3_access), **places})
