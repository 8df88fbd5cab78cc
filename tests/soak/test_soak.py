"""Random acts on a home against a model of it: nothing is lost or repeated, and nothing grows without a reason.

``make test`` does 200 acts, ``make test-long`` 20,000 in shards, each on a home of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenario import attached
from soak.acts import STORE
from soak.driver import Sample, soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")
ACTS, LONG_ACTS, SHARDS = 200, 1_000, 20
MEMORY, FILES_OPEN, THREADS = 128 << 20, 16, 96
"""What may be added after the first tenth: the pools of delta-rs and Arrow start a thread when they need one."""
FILES_AN_ACT = 6
"""How many files of a home an act may leave: those of a commit of each table that it changes, and of its records."""


def require_steady(samples: Sequence[Sample]) -> None:
    """Check that memory, open files and threads stay near the first tenth, and that files grow only with the acts."""
    tenth = max(1, len(samples) // 10)
    first, later = samples[:tenth], samples[tenth:]
    for number, held in enumerate(later, tenth):
        assert held.memory <= max(each.memory for each in first) + MEMORY, (number, held)
        assert held.files_open <= max(each.files_open for each in first) + FILES_OPEN, (number, held)
        assert held.threads <= max(each.threads for each in first) + THREADS, (number, held)
        assert held.files <= first[0].files + FILES_AN_ACT * (number + 1), (number, held)


def jobs_of(spark: SparkSession) -> int:
    """Return how many jobs the session has begun."""
    number: int = spark.sparkContext._jsc.sc().dagScheduler().nextJobId()
    return number


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(
    ("seed", "acts"),
    [(0, ACTS), *(pytest.param(seed, LONG_ACTS, marks=pytest.mark.slow) for seed in range(1, SHARDS + 1))],
)
def test_acts_lose_nothing_and_repeat_nothing(seed: int, acts: int, spark: SparkSession, tmp_path: Path) -> None:
    begun, used, jobs = time.monotonic(), time.process_time(), jobs_of(spark)
    with soak(tmp_path, seed, attached.door) as running:
        try:
            running.run(acts)
        finally:
            seconds = f"{time.monotonic() - begun:.0f} s, {time.process_time() - used:.0f} s of this process"
            print(f"seed {seed}: {dict(running.counts)}\n{dict(running.outcomes)}\n{seconds}\n{running.samples[-1:]}")
        require_steady(running.samples)
        assert {"killed", "ended", "stopped", "beside"} <= set(running.counts)
        assert running.outcomes["answers"]
        if STORE in os.environ:
            assert jobs_of(spark) - jobs > running.counts["tick"]
