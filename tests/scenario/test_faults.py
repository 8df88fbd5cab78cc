"""Law 6 on a cluster: the data on S3, the catalog on PostgreSQL, Spark on two workers, and faults in each process.

Each home runs the pipeline until a fault ends the process, and again with the next faults. The last run is undisturbed.
The contents are then those of a local home without faults. ``make test-long`` tries 200 faults: each shard has every
failpoint and every kind of fault.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from postgresql_server import Server
from s3_server import environment, lossy, new_bucket
from scenario import pipeline
from scenario.attached import jvm_of_its_own
from scenario.faults import Deck, Disturbance, Faults
from scenario.killed import Contents, contents, pipeline_process, require_laws
from standalone_cluster import Cluster
from weft.api import Weft
from weft.store import S3Access

SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"
POINTS = ("ingest.", "tick.", "delivery.", "commit.")
"""The failpoints that the pipeline passes."""
SHARDS = 4
PATIENCE_SECONDS = 1_200
LEASE_SECONDS = 50
"""A restart of the database server hides for 45 seconds whether the holder of a lease has ended."""


@dataclass
class Trial:
    """The faults of a shard, and what became of them. ``attached`` has the variables of the JVM on the cluster."""

    deck: Deck
    chance: random.Random
    disturbance: Disturbance
    sources: Path
    attached: Mapping[str, str]
    ends: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    longest_wait: float = 0.0

    def run(self, home: Path, variables: Mapping[str, str]) -> str:
        """Run the pipeline with faults. Return how it ended: done, killed, or the class of the error."""
        faults, begun = self.deck.draw(), time.monotonic()
        by_spark = ("by_spark",) if self.chance.random() < 0.3 else ()
        print(faults, *by_spark, flush=True)
        self.disturbance.begin(faults.at_request)
        how = self._end_of(home, {**variables, **self.attached}, faults, *by_spark)
        left = self.disturbance.end()
        self.deck.ended(faults, how, left)
        self.ends[how] += 1
        self.kills.update([faults.failpoint] if how == "killed" and faults.failpoint else [])
        self._require_free_lease(home)
        seconds, requests = time.monotonic() - begun, self.disturbance.requests
        print(f"  {how} after {seconds:.0f} s and {requests} requests; what did not happen: {left}", flush=True)
        return how

    def _end_of(self, home: Path, variables: Mapping[str, str], faults: Faults, *first: str) -> str:
        steps = (*first, *pipeline.STEPS)
        done = pipeline_process(
            home, self.sources, *steps, failpoint=faults.failpoint, variables=variables, patience=PATIENCE_SECONDS
        )
        if done.returncode == 0:
            return "done"
        if done.returncode == -signal.SIGKILL and faults.failpoint is not None:
            return "killed"
        stated = re.search(r"^weft\.errors\.(\w+): (.*)", done.stderr, re.MULTILINE)
        assert stated, f"exit code {done.returncode}\n{done.stderr}"
        print(*stated.groups(), flush=True)
        assert "damage" not in stated[2], done.stderr
        return stated[1]

    def _require_free_lease(self, home: Path) -> None:
        begun = time.monotonic()
        with Weft.open(home) as weft:
            wait_us = LEASE_SECONDS * 1_000_000
            with weft.catalog.writing("test", weft.clock, wait_us=wait_us):
                pass
            with weft.catalog.delivering(weft.clock, wait_us=wait_us):
                pass
        self.longest_wait = max(self.longest_wait, time.monotonic() - begun)


@pytest.fixture(scope="module")
def undisturbed(small_batches: None, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    home = tmp_path_factory.mktemp("homes") / "undisturbed"
    pipeline.run(home, sources, *pipeline.STEPS)
    with Weft.open(home) as weft:
        return contents(weft)


def failpoints() -> list[str]:
    found = {name for path in SOURCE.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    return sorted(name for name in found if name.startswith(POINTS))


@contextmanager
def new_home(home: Path, access: S3Access, disturbance: Disturbance) -> Iterator[Mapping[str, str]]:
    """Create a home on S3 and PostgreSQL, and give the variables of a process whose requests may fail."""
    store, database = new_bucket(access), disturbance.database
    url = database.uri(database.new_database())
    Weft.open(home, clock="replay", create=True, catalog=url, store=store.uri).close()
    with lossy(store, disturbance) as behind:
        yield environment(behind.access) | {"WEFT_SPARK_MASTER": disturbance.cluster.url}


def try_faults(trial: Trial, home: Path, access: S3Access, undisturbed: Contents) -> None:
    """Run the pipeline with faults until it is done, and check the contents of the home."""
    with new_home(home, access, trial.disturbance) as variables:
        while trial.run(home, variables) != "done":
            pass
        last = pipeline_process(home, trial.sources, *pipeline.STEPS, failpoint=None, variables=variables)
        assert last.returncode == 0, last.stderr
    with Weft.open(home) as weft:
        assert contents(weft) == undisturbed
        require_laws(weft)


@pytest.mark.slow
@pytest.mark.timeout(14_000)
@pytest.mark.parametrize("seed", range(SHARDS))
def test_faults_lose_nothing_and_repeat_nothing(
    seed: int,
    cluster: Cluster,
    database_server: Server,
    s3_access: S3Access,
    undisturbed: Contents,
    sources: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    chance, disturbance, homes = random.Random(seed), Disturbance(cluster, database_server), 0
    with jvm_of_its_own(tmp_path, {"WEFT_SPARK_MASTER": cluster.url}) as attached:
        trial = Trial(Deck(chance, failpoints()), chance, disturbance, sources, attached)
        while trial.deck:
            homes += 1
            try_faults(trial, tmp_path / f"home-{homes}", s3_access, undisturbed)
    count = disturbance.happened.total() + trial.kills.total()
    print(f"seed {seed}: {homes} homes, {count} faults: {dict(disturbance.happened)}, killed at {dict(trial.kills)}")
    print(f"processes ended {dict(trial.ends)}; a lease was free after {trial.longest_wait:.1f} s at most")
    assert count * SHARDS >= 200
