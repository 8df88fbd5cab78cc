"""Law 6: a process killed at any write, and run again: nothing lost, nothing twice, in tables, on file and cursor.

The process that is killed is a whole one, its JVM with it.  A kill needs only the step that it happens in, so each
begins with a copy of a home that has come so far; the second run does every step, as a person's script would.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenario import pipeline
from scenario.killed import Contents, contents, require_laws, run_process, write_sources
from weft.api import Weft
from weft.extraction import file_casting, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"
STEPS = tuple(pipeline.STEPS)


@dataclass(frozen=True)
class Kill:
    """A kill at ``point`` (``name:pass``) in ``step``, of a home that has come as far as ``after`` says."""

    point: str
    step: str
    after: str

    @property
    def name(self) -> str:
        return self.point.partition(":")[0]


# In this order: ``after`` is a step that was done, or the point of an earlier kill.
KILLS = (
    Kill("ingest.quarantined", "load_first", ""),
    Kill("ingest.reserved:2", "load_first", ""),
    Kill("ingest.written", "load_first", ""),
    Kill("ingest.committed:2", "load_first", ""),
    Kill("ingest.written:2", "load_votes", "load_first"),
    Kill("tick.planned", "first_tick", "install"),
    Kill("tick.computed", "first_tick", "install"),
    Kill("tick.written", "second_tick", "load_more"),
    Kill("tick.counting", "second_tick", "load_more"),
    Kill("tick.committed", "first_tick", "install"),
    Kill("delivery.opened:2", "first_tick", "tick.committed"),
    Kill("delivery.torn", "first_tick", "tick.committed"),
    Kill("delivery.torn:2", "first_tick", "tick.committed"),
    Kill("delivery.written", "first_tick", "tick.committed"),
    Kill("delivery.marked:2", "first_tick", "tick.committed"),
    Kill("delivery.recovered", "first_tick", "delivery.torn"),
)


@pytest.fixture(scope="module")
def small_batches() -> Iterator[None]:
    """The pipeline makes its batches small for good; here that ends with the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "batches_of", ingest.batches_of)
        patch.setattr(file_casting, "MAX_ROWS", file_casting.MAX_ROWS)
        yield


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, small_batches: None, sources: Path, homes: Path) -> Contents:
    """A run that nothing happens to; the home is kept as it was after each step."""
    home = homes / "undisturbed"
    for step in STEPS:
        pipeline.run(home, sources, step)
        shutil.copytree(home, homes / f"after-{step}")
    with Weft.open(home) as weft:
        require_laws(weft)
        return contents(weft)


@pytest.fixture(scope="module")
def killed(undisturbed: Contents, sources: Path, homes: Path) -> dict[Kill, Path]:
    """Every kill's home as the dead process left it; two processes at a time."""

    def kill(one: Kill) -> Path:
        home = homes / f"killed-{one.point.replace(':', '-')}-{one.step}"
        if one.after:
            shutil.copytree(homes / (f"after-{one.after}" if one.after in STEPS else _home_of(one.after)), home)
        assert run_process(home, sources, one.step, failpoint=one.point) == -9, f"{one} was never reached"
        return home

    found: dict[Kill, Path] = {}
    waiting = list(KILLS)
    with ThreadPoolExecutor(2) as pool:
        while waiting:
            reached = {done.point for done in found}
            ready = [one for one in waiting if not one.after or one.after in STEPS or one.after in reached]
            found |= dict(zip(ready, pool.map(kill, ready), strict=True))
            waiting = [one for one in waiting if one not in found]
    return found


def _home_of(point: str) -> str:
    return next(f"killed-{one.point.replace(':', '-')}-{one.step}" for one in KILLS if one.point == point)


def test_every_failpoint_is_killed_at() -> None:
    names = {name for path in SOURCE.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    assert names == {kill.name for kill in KILLS}
    assert len(names) >= 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: f"{kill.point}-{kill.step}")
def test_a_killed_process_run_again_loses_nothing_and_repeats_nothing(
    kill: Kill, killed: dict[Kill, Path], undisturbed: Contents, sources: Path, homes: Path
) -> None:
    home = homes / f"again-{killed[kill].name}"
    shutil.copytree(killed[kill], home)
    pipeline.run(home, sources, *STEPS)
    with Weft.open(home) as weft:
        assert contents(weft) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_killed_again_and_again(seed: int, undisturbed: Contents, sources: Path, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = sorted({kill.name for kill in KILLS})
    for _ in range(chance.randint(2, 6)):
        run_process(
            tmp_path / "home", sources, *STEPS, failpoint=f"{chance.choice(names)}:{chance.choice((1, 1, 2, 3, 5))}"
        )
    assert run_process(tmp_path / "home", sources, *STEPS) == 0
    with Weft.open(tmp_path / "home") as weft:
        assert contents(weft) == undisturbed
        require_laws(weft)
