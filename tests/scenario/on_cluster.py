"""Run tests in a process of their own, whose Spark session is on a cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scenario.attached import surroundings
from standalone_cluster import Cluster

TESTS: Final = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS: Final = 6_000


def passed_on_cluster(
    cluster: Cluster, folder: Path, selection: Sequence[str], variables: Mapping[str, str] | None = None
) -> str:
    """Run the selected tests with further variables, and return the output. They must pass in one session.

    ``selection`` has options of pytest, and paths below ``TESTS``.
    """
    command = [
        sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:xdist", "-p", "no:cacheprovider",
        f"--timeout={PATIENCE_SECONDS}", f"--basetemp={folder / 't'}", *selection,
    ]  # fmt: skip
    before = cluster.sessions()
    done = subprocess.run(
        command,
        env=surroundings({"WEFT_SPARK_MASTER": cluster.url, **(variables or {})}),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cluster.sessions() == before + 1
    return done.stdout
