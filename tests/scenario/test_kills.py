"""Law 6: after a kill at any write and a second run, tables, files and cursors lose nothing and repeat nothing.

SIGKILL kills a process. In some ticks, the process has a separate JVM, which dies with the process. In other ticks, the
process uses the running JVM of the tests (``scenario/attached.py``). ``make test-long`` kills at every point in both
ways. A kill needs only the step in which it happens. Each test therefore starts with a copy of a home after the earlier
steps. The second run executes every step, as a user's script would.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replayed import first_instants
from scenario import pipeline
from scenario.killed import Contents, contents, require_laws, run_process
from weft.api import Weft
from weft.storage.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"
STEPS = tuple(pipeline.STEPS)


@dataclass(frozen=True)
class Kill:
    """A sequence of kills at ``points`` (``name`` or ``name:pass``) in ``step``.

    ``after`` is the state of the home before the step: the name of an earlier step, or ``committed`` for a committed
    tick without deliveries.
    """

    points: tuple[str, ...]
    step: str
    after: str
    slow: bool = False
    """Whether only ``make test-long`` runs the test."""
    whole: bool = False
    """Whether ``make test`` uses a separate JVM for this kill."""

    @property
    def names(self) -> set[str]:
        return {point.partition(":")[0] for point in self.points}


KILLS = (
    Kill(("ingest.quarantined",), "load_first", "", slow=True),
    Kill(("ingest.reserved:2",), "load_first", "", slow=True),
    Kill(("ingest.reserved:2",), "load_more", "first_tick"),
    Kill(("ingest.written",), "load_first", "", slow=True),
    Kill(("ingest.committed:2",), "load_first", ""),
    Kill(("ingest.written:2",), "load_votes", "load_first"),
    Kill(("tick.planned",), "first_tick", "install", slow=True),
    Kill(("tick.computed",), "first_tick", "install", slow=True),
    Kill(("tick.computed",), "second_tick", "load_more"),
    Kill(("tick.written",), "second_tick", "load_more", whole=True),
    Kill(("tick.recorded",), "second_tick", "load_more"),
    Kill(("tick.computed:2", "tick.written"), "first_tick", "install"),
    Kill(("tick.counting",), "second_tick", "load_more", slow=True),
    Kill(("tick.committed",), "second_tick", "load_more", slow=True),
    Kill(("state.written",), "second_tick", "load_more", slow=True),
    Kill(("state.noted",), "second_tick", "load_more", slow=True),
    Kill(("state.recorded", "tick.written"), "second_tick", "load_more"),
    Kill(("delivery.opened:2",), "first_tick", "committed"),
    Kill(("delivery.torn",), "first_tick", "committed"),
    Kill(("delivery.torn:2", "delivery.recovered"), "first_tick", "committed"),
    Kill(("delivery.written",), "first_tick", "committed"),
    Kill(("delivery.marked:2",), "first_tick", "committed"),
)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, small_batches: None, sources: Path, homes: Path) -> Contents:
    """Return the contents after a run without kills. The fixture saves a copy of the home after each step."""
    home = homes / "undisturbed"
    for step in STEPS:
        pipeline.run(home, sources, step)
        shutil.copytree(home, homes / f"after-{step}")
    with Weft.open(home, create=True) as weft:
        require_laws(weft)
        return contents(weft)


@pytest.fixture(scope="module")
def committed_home(undisturbed: Contents, sources: Path, homes: Path) -> Path:
    """Return a home whose process was killed after the commit of the first tick and before its delivery."""
    home = homes / "after-committed"
    shutil.copytree(homes / "after-install", home)
    assert run_process(home, sources, "first_tick", failpoint="tick.committed") == -signal.SIGKILL
    return home


def test_every_failpoint_is_killed_at() -> None:
    names = {name for path in SOURCE.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    # Spark has no part in these points. The tests of these points are tests/unit/arrangement/test_kills.py,
    # test_state_kills.py,
    # unit/execution/test_compacting.py, test_temporal_views.py, test_discarding.py, test_undoing.py,
    # test_replacement_preview.py, unit/extraction/test_sources.py, test_attached.py and test_many_rejected.py,
    # unit/delivery/test_mail_failures.py, test_delta.py, test_digest.py, test_webhook.py, test_program.py, test_feed.py
    # and test_mailbox.py, and unit/cli/test_copying.py and test_destroying.py.
    others = (
        "arrangement.", "attached.", "cleaning.", "commit.", "compaction.", "copy.", "delta.", "destroy.", "digest.",
        "discard.", "exec.", "feed.", "imap.", "mail.", "purge.", "replace.", "source.", "state.cleaned",
        "state.forgotten", "store.", "synopsis.", "table.", "undo.", "view.", "webhook.",
    )  # fmt: skip
    names = {name for name in names if not name.startswith(others)}
    assert names == set().union(*(kill.names for kill in KILLS))
    assert len(set().union(*(kill.names for kill in KILLS if not kill.slow))) >= 8
    assert {name.partition(".")[0] for kill in KILLS if kill.whole for name in kill.names} == {"tick"}


def _ways(kill: Kill) -> list[Any]:
    """Return the kill in the JVM of the tests and in a separate JVM. ``make test`` runs only one of the two."""
    name = f"{'-'.join(kill.points)}-{kill.step}"
    if kill.after == "committed" or kill.step.startswith("load"):  # no JVM is needed
        return [pytest.param(kill, True, id=name, marks=[pytest.mark.slow] if kill.slow else [])]
    slow = {False: kill.slow or kill.whole, True: not kill.whole}
    return [
        pytest.param(kill, own, id=f"{name}-{'own' if own else 'shared'}", marks=[pytest.mark.slow] if left else [])
        for own, left in slow.items()
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kill", "own_jvm"), [way for kill in KILLS for way in _ways(kill)])
def test_a_killed_process_run_again_loses_nothing_and_repeats_nothing(
    kill: Kill, own_jvm: bool, undisturbed: Contents, committed_home: Path, sources: Path, homes: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    if kill.after:
        shutil.copytree(homes / f"after-{kill.after}", home)
    for point in kill.points:
        died = run_process(home, sources, kill.step, failpoint=point, own_jvm=own_jvm)
        assert died == -signal.SIGKILL, f"{point} was never reached"
    pipeline.run(home, sources, *STEPS)
    with Weft.open(home, create=True) as weft:
        assert contents(weft) == undisturbed


@pytest.mark.timeout(600)
def test_a_purge_after_a_crash_leaves_a_home_that_goes_on(
    undisturbed: Contents, sources: Path, homes: Path, tmp_path: Path
) -> None:
    """The ledger contains answers of the killed tick. Weft counts the tick before the purge removes answers."""
    home = tmp_path / "home"
    shutil.copytree(homes / "after-load_more", home)
    assert run_process(home, sources, "second_tick", failpoint="tick.written") == -signal.SIGKILL
    with Weft.open(home, create=True) as weft:
        weft.remove("noticed", purge=True)  # this query reads the other
        weft.remove("liked", purge=True)
        assert weft.catalog.ticks.planned() is None
        assert verify(weft.catalog) == []
    pipeline.run(home, sources, "second_tick")
    with Weft.open(home, create=True) as weft, Weft.open(homes / "after-second_tick", create=True) as whole:
        for name in ("news", "chains", "unanswered"):
            assert first_instants(weft, name) == first_instants(whole, name), name
        weft.tick(now=pipeline.SECOND_TICK + pipeline.DAY)


@pytest.mark.timeout(600)
def test_a_text_is_replaced_between_ticks_that_die(
    undisturbed: Contents, sources: Path, homes: Path, tmp_path: Path
) -> None:
    """Weft counts the killed tick for the old text. The first tick of the new text is also killed."""
    news = pipeline.QUERIES["news"][0].replace("comp.%", "sci.%")
    waiting = pipeline.QUERIES["unanswered"][0].replace("3 DAYS", "1 DAYS")
    found = []
    for killed in (False, True):
        home = tmp_path / f"killed-{killed}"
        shutil.copytree(homes / ("after-load_more" if killed else "after-second_tick"), home)
        if killed:
            assert run_process(home, sources, "second_tick", failpoint="tick.written") == -signal.SIGKILL
        with Weft.open(home) as weft:
            weft.install("news", news, replace=True)
            weft.install("unanswered", waiting, replace=True)  # another query reads this query
            assert weft.catalog.ticks.planned() is None
        if killed:
            assert run_process(home, sources, "third_tick", failpoint="tick.written") == -signal.SIGKILL
        pipeline.run(home, sources, "third_tick")
        with Weft.open(home) as weft:
            assert verify(weft.catalog) == []
            answers = {name: first_instants(weft, name) for name in ("news", "unanswered", "noticed")}
            for name in answers:
                lines = (weft.home / "files" / f"{name}.jsonl").read_text().splitlines()
                assert [json.loads(line)["_ordinal"] for line in lines] == list(range(1, len(answers[name]) + 1))
            found.append(answers)
    assert found[0] == found[1]
    assert all(found[0].values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_killed_again_and_again(seed: int, undisturbed: Contents, sources: Path, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = sorted(set().union(*(kill.names for kill in KILLS)))
    for _ in range(chance.randint(2, 6)):
        point = f"{chance.choice(names)}:{chance.choice((1, 1, 2, 3, 5))}"
        run_process(tmp_path / "home", sources, *STEPS, failpoint=point, own_jvm=chance.random() < 0.5)
    assert run_process(tmp_path / "home", sources, *STEPS, own_jvm=True) == 0
    with Weft.open(tmp_path / "home", create=True) as weft:
        assert contents(weft) == undisturbed
        require_laws(weft)
