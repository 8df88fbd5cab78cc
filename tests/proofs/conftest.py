"""The checked proofs: a copy in which ``make`` has run, once for all processes of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PROOFS = Path(__file__).resolve().parents[2] / "proofs"


@dataclass(frozen=True)
class Checked:
    """A folder with the proofs and their compiled files, and what ``make`` said."""

    folder: Path
    made: subprocess.CompletedProcess[str]


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``make`` in the folder."""
    return subprocess.run(
        ["make", *arguments], cwd=folder, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """The proofs after ``make``. If Coq is not installed, the test is skipped with a message."""
    if shutil.which("coqc") is None:
        pytest.skip("PROOFS NOT CHECKED: coqc is not installed (Debian: apt-get install --no-install-recommends coq)")
    folder = tmp_path_factory.getbasetemp()
    shared, own = folder / "proofs", tmp_path_factory.mktemp("checked") / "proofs"
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = folder.parent / "proofs"  # the folder of all workers
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            shutil.copytree(PROOFS, shared, ignore=shutil.ignore_patterns("*.vo*", "*.glob", ".*", "*.out*"))
        made = make(shared)
    shutil.copytree(shared, own)
    return Checked(own, made)
