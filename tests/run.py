"""Runs the checks and tests in stages and ends with one line for all of them.

    python tests/run.py [--long] [STAGE ...]      stages: lint fast examples spark mutation

``mutation`` runs with --long, or where it is named.  A stage that fails does not keep the next from running: one run
tells everything.  The Spark stage is one process, since a session takes seconds to start and two of them fight for two
cores.  It leaves much of a second core free: the other stages of tests run beside it, one after another, with what it
leaves of the processors, and are shown after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import mutation

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

LINT = (
    ("ruff check", [str(BIN / "ruff"), "check", "--no-cache", "src", "tests"]),
    ("ruff format", [str(BIN / "ruff"), "format", "--check", "--no-cache", "src", "tests"]),
    ("mypy", [str(BIN / "mypy")]),
    ("import-linter", [str(BIN / "lint-imports")]),
)
STAGES = {
    # One test at a time for each worker, the oracle's long ones first (conftest.py), so that both end together.
    "fast": (
        "not spark",
        ("tests/oracle", "tests/unit", "tests/golden", "tests/house", "tests/docs"),
        ("-n", "2", "--maxschedchunk", "1"),
    ),
    # The examples in docstrings.
    "examples": ("not spark", ("src/weft",), ("--doctest-modules",)),
    # Whatever asks for Spark, wherever it is; all of the scenarios, too (conftest.py marks them).
    "spark": ("spark", ("tests",), ("-p", "no:xdist")),
}
MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""Bytes that must be free in memory before the tests' homes are made there: a third of a run is waiting for a disk."""
BESIDE = ["nice", "-n", "10"] if shutil.which("nice") else []
MUTANTS = 400
"""Of thousands: all of them would take a day."""
NO_TESTS = 5
"""pytest's exit code where a selection is empty."""


def lint() -> dict[str, int]:
    """Runs the linters; the counts of those that passed and failed."""
    counts = {"passed": 0, "failed": 0}
    for name, command in LINT:
        print(f"== {name}", flush=True)
        done = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        counts["passed" if done.returncode == 0 else "failed"] += 1
    return counts


QUICK_COMPILER = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""What ``weft`` itself chooses for a command that ends soon: a JVM of the tests takes half of its processor time."""


def environment(scratch: str, *, long: bool) -> dict[str, str]:
    """The environment of the tests: temporary files in ``scratch``, each module compiled once, the quick compiler."""
    own = {"TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **own} if long else {**QUICK_COMPILER, **os.environ, **own}


def scratch_parent() -> Path | None:
    """Where temporary files go: memory, if it has room, else the system's folder for them."""
    return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM else None


def tests(stage: str, *, long: bool, shown: IO[str] | None = None) -> dict[str, int]:
    """Runs one stage of tests; its counts, read from pytest's own report.

    What it says goes to ``shown``; where that is given it runs beside another, to which it leaves the processors.
    """
    mark, folders, options = STAGES[stage]
    there = [folder for folder in folders if any((ROOT / folder).rglob("*.py"))]
    if not there:
        return {}
    print(f"== {stage}: {' '.join(there)}", flush=True, file=shown)
    selection = ["-m", mark, "--timeout=14400"] if long else ["-m", f"{mark} and not slow"]
    with TemporaryDirectory(prefix="w", dir=scratch_parent()) as folder:
        report = Path(folder, "report.xml")
        command = [] if shown is None else BESIDE
        command = [*command, sys.executable, "-m", "pytest", "-q", "--durations=5", f"--junitxml={report}"]
        command += [f"--basetemp={folder}/t"]  # a short one: the path of a socket has at most 107 bytes
        command += [*options, *selection, *there]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(folder, long=long),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=shown,
        )
        counts = _read(report)
    if done.returncode not in (0, NO_TESTS) and not counts.get("failed"):
        counts["failed"] = 1  # it stopped before it could count
    return counts


def _read(report: Path) -> dict[str, int]:
    if not report.exists():
        return {}
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in suites:
        for name in totals:
            totals[name] += int(suite.get(name, 0))
    bad = totals["failures"] + totals["errors"]
    return {"passed": totals["tests"] - bad - totals["skipped"], "failed": bad, "skipped": totals["skipped"]}


def beside(first: str, others: Sequence[str], *, long: bool) -> Iterator[dict[str, int]]:
    """Runs a stage of tests, and others one after another at the same time; the counts of each.

    What the others say is shown when all have ended.
    """
    with ThreadPoolExecutor(1) as lane, TemporaryFile("w+") as shown:
        running = [lane.submit(tests, stage, long=long, shown=shown) for stage in others]
        yield tests(first, long=long)
        yield from (each.result() for each in running)
        shown.seek(0)
        print(shown.read(), end="", flush=True)


def mutants() -> dict[str, int]:
    """Runs the mutation tests, away from the tree; how many folders kill enough of theirs, and how many do not."""
    print("== mutation", flush=True)
    with TemporaryDirectory() as folder:
        return mutation.run(Path(folder), sample=MUTANTS)


def counted(stages: Sequence[str], *, long: bool) -> Iterator[dict[str, int]]:
    """Runs stages of any kind; the counts of each."""
    others = [stage for stage in stages if stage in STAGES and stage != "spark"] if "spark" in stages else []
    for stage in stages:
        match stage:
            case "lint":
                yield lint()
            case "mutation":
                yield mutants()
            case "spark" if others:
                yield from beside("spark", others, long=long)
            case _ if stage in others:
                pass
            case _:
                yield tests(stage, long=long)


def main(arguments: list[str]) -> int:
    """Runs the stages asked for; 0 where nothing failed."""
    long = "--long" in arguments
    chosen = [name for name in arguments if not name.startswith("--")] or [
        "lint",
        *STAGES,
        *(("mutation",) if long else ()),
    ]
    began = time.monotonic()
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for counts in counted(chosen, long=long):
        for kind, count in counts.items():
            total[kind] += count
    words = ", ".join(f"{total[kind]} {kind}" for kind in ("failed", "passed", "skipped") if total[kind])
    print(f"===== {words} in {time.monotonic() - began:.2f}s =====")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
