"""Run the checks and tests in stages, and print one line with the results at the end.

    python tests/run.py [--long] [STAGE ...]      stages: lint fast examples spark scenario mutation

``mutation`` runs with --long or by name. After a failed stage, the other stages still run. The Spark stage is one
process, because a session takes seconds to start. The other stages run one after another during the Spark stage, with
low priority. Their output follows the output of the Spark stage. The stage of scenarios is the last. It starts when the
Spark stage or the others have ended, so that both cores are busy until the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
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
    # A third worker uses the cores while other tests wait. One test at a time per worker. The long tests of the oracle
    # come first (conftest.py), so that all workers end together.
    "fast": (
        "not spark",
        ("tests/oracle", "tests/unit", "tests/golden", "tests/house", "tests/proofs", "tests/docs"),
        ("-n", "3", "--maxschedchunk", "1"),
    ),
    # The examples in docstrings.
    "examples": ("not spark", ("src/weft",), ("--doctest-modules",)),
    # The tests with the mark ``spark`` (conftest.py sets the mark).
    "spark": ("spark", ("tests/spark", "tests/oracle", "tests/unit"), ("-p", "no:xdist")),
    "scenario": ("spark", ("tests/scenario", "tests/soak", "tests/docs"), ("-p", "no:xdist")),
}
LANE = ("lint", "examples", "fast", "scenario")
"""The order of the stages beside the Spark stage."""
SPARK = ("spark", "scenario")
"""The stages that start Spark."""
MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""The minimum free memory in bytes for temporary files in memory. On a disk, a third of the run time is waiting."""
BESIDE = ["nice", "-n", "10"] if shutil.which("nice") else []
MUTANTS = 400
"""The number of mutants to test. All mutants would take a day."""
NO_TESTS = 5
"""The exit code of pytest for an empty selection."""


def lint(shown: IO[str] | None = None) -> dict[str, int]:
    """Run the linters. Return the numbers of passed and failed linters. ``shown`` is as in ``tests``."""
    counts = {"passed": 0, "failed": 0}
    for name, command in LINT:
        print(f"== {name}", flush=True, file=shown)
        command = command if shown is None else [*BESIDE, *command]
        done = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown)
        counts["passed" if done.returncode == 0 else "failed"] += 1
    return counts


QUICK_JAVA = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""The quick compiler, which ``weft`` chooses for a short command. It halves the processor time of a JVM in the tests.

The JVM of the tests lives long. In the small code cache of the quick compiler, it would compile most code again and
again. A JVM that does not verify the classes of Spark starts with a tenth less processor time.
"""
QUICK_MALLOC = {
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=1000:glibc.malloc.mmap_threshold=67108864"
    ":glibc.malloc.trim_threshold=268435456:glibc.malloc.top_pad=4194304"
}
"""Settings by which the C library keeps more free memory. DuckDB then takes a tenth less processor time.

Tests that measure the memory of a process turn them off, and the Spark stage does not have them.
"""


def environment(scratch: str, stage: str, *, long: bool) -> dict[str, str]:
    """Return the environment of a stage: temporary files in ``scratch``, cached bytecode, quick settings."""
    own = {"TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": ""}
    quick = {} if long else QUICK_JAVA if stage in SPARK else {**QUICK_JAVA, **QUICK_MALLOC}
    return {**quick, **os.environ, **own}


def scratch_parent() -> Path | None:
    """Return the parent of the temporary folder: the memory if it has room, or None for the default of the system."""
    return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM else None


@contextmanager
def class_archive(environ: Mapping[str, str]) -> Iterator[None]:
    """Create Weft's class-data archive during the ``with`` block. With it, a JVM starts with half the processor time.

    The archive stays in the cache folder of the user. Its name depends on the environment.
    """
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "weft", "prepare"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdin=quiet, stdout=quiet, stderr=quiet):
        yield


def tests(stage: str, *, long: bool, shown: IO[str] | None = None) -> dict[str, int]:
    """Run one stage of tests. Return the numbers in pytest's report.

    If ``shown`` is given, the output goes to this file, and the stage runs with low priority next to another stage.
    """
    mark, folders, options = STAGES[stage]
    there = [folder for folder in folders if any((ROOT / folder).rglob("*.py"))]
    if not there:
        return {}
    print(f"== {stage}: {' '.join(there)}", flush=True, file=shown)
    selection = ["-m", mark, "--timeout=14400"] if long else ["-m", f"{mark} and not slow"]
    with TemporaryDirectory(prefix="w", dir=scratch_parent()) as folder:
        os.chmod(folder, 0o711)  # PostgreSQL does not run as root: another user enters its folder below
        report = Path(folder, "report.xml")
        command = [] if shown is None else BESIDE
        command = [*command, sys.executable, "-m", "pytest", "-q", "--durations=5", f"--junitxml={report}"]
        command += [f"--basetemp={folder}/t"]  # a short one: the path of a socket has at most 107 bytes
        command += [*options, *selection, *there]
        environ = environment(folder, stage, long=long)
        with class_archive(environ) if stage == "spark" else nullcontext():
            done = subprocess.run(
                command, cwd=ROOT, env=environ, check=False, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown
            )
        counts = _read(report)
    if done.returncode not in (0, NO_TESTS) and not counts.get("failed"):
        counts["failed"] = 1  # pytest ended before it counted the tests
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
    """Run a stage of tests, and at the same time other stages one after another. Yield the numbers of each stage.

    The stages that have not begun when the first one ends run in two lanes. The output of the second lane appears at
    the end.
    """
    waiting = deque(others)

    def lane(shown: IO[str] | None) -> Iterator[dict[str, int]]:
        while True:
            try:
                stage = waiting.popleft()
            except IndexError:  # the other lane took the last one
                return
            yield _stage(stage, long=long, shown=shown)

    with ThreadPoolExecutor(1) as pool, TemporaryFile("w+") as shown:
        second = pool.submit(lambda: list(lane(shown)))
        yield tests(first, long=long)
        yield from lane(None)
        yield from second.result()
        shown.seek(0)
        print(shown.read(), end="", flush=True)


def _stage(stage: str, *, long: bool, shown: IO[str] | None = None) -> dict[str, int]:
    return lint(shown) if stage == "lint" else tests(stage, long=long, shown=shown)


def mutants() -> dict[str, int]:
    """Run the mutation tests in a copy of the tree. Return how many folders pass and how many fail."""
    print("== mutation", flush=True)
    with TemporaryDirectory() as folder:
        return mutation.run(Path(folder), sample=MUTANTS)


def counted(stages: Sequence[str], *, long: bool) -> Iterator[dict[str, int]]:
    """Run stages of any kind. Yield the numbers of each stage."""
    others = sorted({*stages} - {"spark", "mutation"}, key=LANE.index) if "spark" in stages else []
    for stage in stages:
        match stage:
            case "mutation":
                yield mutants()
            case "spark" if others:
                yield from beside("spark", others, long=long)
            case _ if stage in others:
                pass
            case _:
                yield _stage(stage, long=long)


def main(arguments: list[str]) -> int:
    """Run the named stages. Return 0 if nothing failed."""
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
