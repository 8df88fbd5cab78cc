"""Laws 1 to 4 on a standalone cluster: the tests of random queries, views and formulas on Spark, on two workers.

Those tests take the session of the test run. They run here in a process of their own, whose session is on the cluster.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scenario.attached import surroundings
from standalone_cluster import Cluster

TESTS = Path(__file__).resolve().parents[1]
LAWS = {
    "1 and 2": "spark/test_random.py",
    "3": "oracle/test_view_courses_on_spark.py::test_views_are_kept_on_both_engines",
    "4": "oracle/test_synopses_on_spark.py::test_law_4_on_spark",
}
_PATIENCE_SECONDS = 6_000


@pytest.mark.slow
@pytest.mark.timeout(_PATIENCE_SECONDS + 60)
@pytest.mark.parametrize("laws", LAWS)
def test_the_laws_hold_on_a_cluster(laws: str, cluster: Cluster, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:xdist", "-p", "no:cacheprovider",
        f"--timeout={_PATIENCE_SECONDS}", f"--basetemp={tmp_path / 't'}", str(TESTS / LAWS[laws]),
    ]  # fmt: skip
    before = cluster.sessions()
    done = subprocess.run(
        command,
        env=surroundings({"WEFT_SPARK_MASTER": cluster.url}),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
    assert cluster.sessions() == before + 1
