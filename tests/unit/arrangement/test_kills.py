"""A process killed at each failpoint of an arrangement: what is there then is the state before or after, whole."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import forked
from arranged import Files, Row, looked_up, matching
from weft.arrangement import Arrangement, merging, remove

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src" / "weft"
SCHEMA = pa.schema([("parent", pa.string()), ("id", pa.int64())])
ROWS: list[Row] = [(None if at % 9 == 0 else f"parent {at % 5}", at) for at in range(60)]
KEYS: list[Row] = [(f"parent {number}",) for number in range(5)] + [(None,)]

KILLS = (
    "arrangement.written",
    "arrangement.written:4",
    "arrangement.merged",
    "arrangement.merged:2",
    "arrangement.forced",
    "arrangement.forced:3",
    "arrangement.torn",
    "arrangement.torn:4",
    "arrangement.noted",
    "arrangement.noted:5",
    "arrangement.renamed",
    "arrangement.renamed:2",
    "arrangement.committed:4",
    "arrangement.committed:6",
    "arrangement.cleaned:5",
    "arrangement.forgotten",
)


def table_of(parts: int) -> Files:
    table = Files(SCHEMA)
    for at in range(parts):
        table.add(f"part-{at}", ROWS[10 * at : 10 * at + 10])
    return table


def work(folder: Path) -> None:
    """Six catch-ups, the third of which merges; a merge; all again, after a file vanished; it is deleted, and made
    once more."""
    merging.FANOUT = 3
    merging.LEAST_TIER_ROWS = 100
    arrangement = Arrangement.open(folder, ("parent",), SCHEMA)
    for parts in range(1, 7):
        table = table_of(parts)
        arrangement.catch_up(table.files, table.read)
    arrangement.merge()
    del table.content["part-0"]
    arrangement.catch_up(table.files, table.read)
    remove(folder)
    arrangement.catch_up(table.files, table.read)


def test_every_failpoint_of_an_arrangement_is_killed_at() -> None:
    names = set()
    for path in (SOURCE / "arrangement").rglob("*.py"):
        names |= set(re.findall(r'failpoint\("([^"]+)"\)', path.read_text()))
    names = {name for name in names if not name.startswith("state.")}  # test_state_kills.py
    assert names == {kill.partition(":")[0] for kill in KILLS}


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_writer_leaves_the_state_before_or_after(kill: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    code = f"import sys; sys.path.insert(0, {os.fspath(TESTS)!r}); import runpy, pathlib; "
    code += f"runpy.run_path({os.fspath(Path(__file__))!r})['work'](pathlib.Path({os.fspath(folder)!r}))"
    died = forked.run([sys.executable, "-c", code], kill)
    assert died.returncode == -signal.SIGKILL, f"{kill} was never reached"
    reader = Arrangement.open(folder, ("parent",), SCHEMA)
    assert reader.why_rebuilt is None
    if reader.rows:
        rows = table_of(reader.rows // 10).rows
        assert looked_up(reader, KEYS, null_safe=True) == matching(rows, [0], KEYS, null_safe=True)
    table = table_of(6)
    table.add("more", [("parent 1", 1000)])
    arrangement = Arrangement.open(folder, ("parent",), SCHEMA)
    covered = arrangement.rows
    arrangement.catch_up(table.files, table.read)
    assert table.read_rows == 61 - covered
    assert looked_up(arrangement, KEYS, null_safe=True) == matching(table.rows, [0], KEYS, null_safe=True)
    assert len(list(folder.iterdir())) == arrangement.runs + 1
