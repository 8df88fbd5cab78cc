"""Law 6 on a cluster: the data on S3, the catalog on PostgreSQL, Spark on two workers, and a fault in each process.

Each home runs the pipeline until a fault ends the process, and again with the next fault. The last run is undisturbed.
The contents are then those of a local home without faults. ``make test-long`` tries 200 faults.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from postgresql_server import Server
from s3_server import access_to, environment, lossy, new_bucket, s3_server
from scenario import pipeline
from scenario.faults import NONE, Disturbance, drawn
from scenario.killed import Contents, contents, require_laws
from standalone_cluster import Cluster
from weft.api import Weft

SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"
POINTS = ("ingest.", "tick.", "delivery.", "commit.", "store.")
"""The failpoints that the pipeline can pass."""
SHARDS, FAULTS_A_SHARD = 8, 25
_PATIENCE_SECONDS = 600


@pytest.fixture(scope="module")
def undisturbed(small_batches: None, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    home = tmp_path_factory.mktemp("homes") / "undisturbed"
    pipeline.run(home, sources, *pipeline.STEPS)
    with Weft.open(home) as weft:
        return contents(weft)


def failpoints() -> list[str]:
    found = {name for path in SOURCE.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    return sorted(name for name in found if name.startswith(POINTS))


def run_disturbed(home: Path, sources: Path, surroundings: dict[str, str], failpoint: str | None) -> str:
    """Run the pipeline in a process of its own. Return how it ended: done, killed, or the class of the error."""
    own = {name: value for name, value in os.environ.items() if name != "WEFT_FAILPOINT"} | surroundings
    path = [str(Path(pipeline.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own |= {"PYTHONPATH": os.pathsep.join(path), "WEFT_SPARK_MEMORY": "1g"}
    if failpoint is not None:
        own["WEFT_FAILPOINT"] = failpoint
    command = [sys.executable, "-m", "scenario.pipeline", str(home), str(sources), *pipeline.STEPS]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    if done.returncode == 0:
        return "done"
    if done.returncode == -signal.SIGKILL and failpoint is not None:
        return "killed"
    stated = re.match(r"weft\.errors\.(\w+): ", done.stderr.strip().splitlines()[-1])
    assert stated, f"exit code {done.returncode}\n{done.stderr}"
    return stated[1]


@contextmanager
def disturbed_home(
    home: Path, disturbance: Disturbance, patch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Create a home on S3 and PostgreSQL. Give the variables of a process behind the proxy, and of one before it."""
    with s3_server("weft") as port:
        access = access_to(port)
        for name, value in environment(access).items():
            patch.setenv(name, value)
        store = new_bucket(access)
        database = disturbance.database
        url = database.uri(database.new_database())
        Weft.open(home, clock="replay", create=True, catalog=url, store=store.uri).close()
        with lossy(store, disturbance) as behind:
            on_cluster = {"WEFT_SPARK_MASTER": disturbance.cluster.url}
            yield environment(behind.access) | on_cluster, environment(access) | on_cluster


def try_faults(
    chance: random.Random,
    home: Path,
    sources: Path,
    disturbance: Disturbance,
    undisturbed: Contents,
    patch: pytest.MonkeyPatch,
) -> None:
    """Run the pipeline with faults until it is done, and check the contents of the home."""
    with disturbed_home(home, disturbance, patch) as (behind, direct):
        end = ""
        while end != "done":
            faults = drawn(chance, failpoints())
            disturbance.begin(faults)
            end = run_disturbed(home, sources, behind, faults.failpoint)
            disturbance.happened["driver"] += end == "killed"
        disturbance.begin(NONE)
        assert run_disturbed(home, sources, direct, None) == "done"
        with Weft.open(home) as weft:
            assert contents(weft) == undisturbed
            require_laws(weft)


@pytest.mark.timeout(14_000)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(SHARDS)])
def test_faults_lose_nothing_and_repeat_nothing(
    seed: int,
    cluster: Cluster,
    database_server: Server,
    undisturbed: Contents,
    sources: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance, disturbance, homes = random.Random(seed), Disturbance(cluster, database_server), 0
    while disturbance.happened.total() < FAULTS_A_SHARD:
        homes += 1
        try_faults(chance, tmp_path / f"home-{homes}", sources, disturbance, undisturbed, monkeypatch)
    print(f"seed {seed}: {homes} homes, faults: {dict(disturbance.happened)}")
