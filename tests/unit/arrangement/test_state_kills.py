"""A process killed while it stores totals: those of earlier instants remain, and the work repeated gives the same."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import forked
from weft.arrangement.state_store import Files, StateStore, StoredFiles, StoredTotals
from weft.storage.delta_log import DataFile
from weft.store import local_store

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src" / "weft" / "arrangement" / "state_store.py"
INSTANTS = (100, 200, 300, 400, 500, 600)
QUIET = (300, 500)
"""The instants up to which nothing changes after the instant before."""
KILLS = (
    "state.written", "state.written:2", "state.written:4",
    "state.noted", "state.noted:3", "state.noted:6",
    "state.recorded:2", "state.recorded:3", "state.forgotten", "state.forgotten:4", "state.cleaned", "state.cleaned:2",
)  # fmt: skip


def files(folder: Path, at: int) -> Files:
    """A file for each hundred microseconds before ``at``."""
    made = [DataFile(local_store(folder) / f"part-{n}", 1, 1, {"ts": n}, {}) for n in range(0, at, 100)]
    return {"msgs": StoredFiles("ts", made)}


def totals(at: int) -> pa.Table:
    changed = max(each for each in INSTANTS if each <= at and each not in QUIET)
    return pa.table({"c1": ["a", None], "n": pa.array([changed, changed // 100], pa.int64())})


def work(folder: Path) -> None:
    """Ticks that store their totals; those after ``before`` are repeated, as a tick without a record is."""
    store = StateStore(folder / "states")
    for before, at in zip((0, *INSTANTS), INSTANTS, strict=False):
        stored = store.totals("s", before, files(folder, at))
        if at in QUIET and stored is not None:
            store.advance("s", stored, at, files(folder, at))
        else:
            store.write("s", at, since(at, stored), files(folder, at), stored, added_up)


def since(at: int, stored: StoredTotals | None) -> pa.Table:
    """The changes of the totals between the stored ones and the instant ``at``."""
    if stored is None:
        return totals(at)
    signed = [pa.table({"c1": rows["c1"], "n": pc.multiply(rows["n"], sign)}) for rows, sign in
              ((totals(at), 1), (totals(stored.at), -1))]  # fmt: skip
    return added_up(pa.concat_tables(signed))


def added_up(rows: pa.Table) -> pa.Table:
    """One row for each group, in the order of the groups."""
    found = rows.group_by("c1").aggregate([("n", "sum")]).rename_columns(["c1", "n"])
    return found.sort_by([("c1", "ascending")])


def killed(folder: Path, point: str) -> int:
    code = f"import sys; sys.path.insert(0, {os.fspath(TESTS)!r}); import runpy, pathlib; "
    code += f"runpy.run_path({os.fspath(Path(__file__))!r})['work'](pathlib.Path({os.fspath(folder)!r}))"
    return forked.run([sys.executable, "-c", code], point).returncode


def require_earlier_totals(folder: Path) -> None:
    """Each instant has the totals of the latest stored instant before it, and they are right."""
    store = StateStore(folder / "states")
    for at in INSTANTS:
        found = store.totals("s", at, files(folder, at))
        assert found is None or (found.at <= at and added_up(found.rows) == totals(found.at))


def require_final_totals(folder: Path) -> None:
    work(folder)
    store = StateStore(folder / "states")
    for at in INSTANTS[-2:]:
        found = store.totals("s", at, files(folder, at))
        assert found is not None
        assert (found.at, added_up(found.rows)) == (at, totals(at))
    stored = {path.name for path in (folder / "states" / "s").iterdir() if not path.name.startswith(".")}
    assert {name for name in stored if name.endswith(".json")} == {f"{at}.json" for at in INSTANTS[-2:]}


def test_every_failpoint_of_the_totals_is_killed_at() -> None:
    names = set(re.findall(r'failpoint\("([^"]+)"\)', SOURCE.read_text()))
    assert names == {kill.partition(":")[0] for kill in KILLS}


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_tick_leaves_the_totals_of_earlier_instants(kill: str, tmp_path: Path) -> None:
    assert killed(tmp_path, kill) == -signal.SIGKILL, f"{kill} was never reached"
    require_earlier_totals(tmp_path)
    require_final_totals(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(200))
def test_repeated_kills_at_random_points(number: int, tmp_path: Path) -> None:
    chance = random.Random(number)
    for _ in range(3):
        point = f"{chance.choice(KILLS).partition(':')[0]}:{chance.randint(1, 5)}"
        assert killed(tmp_path, point) in (0, -signal.SIGKILL)
        require_earlier_totals(tmp_path)
    require_final_totals(tmp_path)
