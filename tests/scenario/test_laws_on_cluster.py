"""Laws 1 to 4 on a standalone cluster: the tests of random queries, views and formulas on Spark, on two workers.

Those tests take the session of the test run. They run here in a process of their own, whose session is on the cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scenario.on_cluster import PATIENCE_SECONDS, TESTS, passed_on_cluster
from standalone_cluster import Cluster

LAWS = {
    "1 and 2": "spark/test_random.py",
    "3": "oracle/test_view_courses_on_spark.py::test_views_are_kept_on_both_engines",
    "4": "oracle/test_synopses_on_spark.py::test_law_4_on_spark",
}


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 60)
@pytest.mark.parametrize("laws", LAWS)
def test_the_laws_hold_on_a_cluster(laws: str, cluster: Cluster, tmp_path: Path) -> None:
    assert "skipped" not in passed_on_cluster(cluster, tmp_path, [str(TESTS / LAWS[laws])])
