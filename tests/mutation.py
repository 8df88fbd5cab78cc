"""Mutation tests: change the catalog, the derivation, the planning and the storage slightly. A test should detect it.

    python tests/mutation.py [--sample N] FOLDER [PATTERN ...]

All mutants take a day. ``--sample`` tests a random sample, and prints its seed (WEFT_SEED repeats the sample).
``FOLDER`` receives a copy of the tree, in which mutmut works ([tool.mutmut] in pyproject.toml configures mutmut). The
folder remains, so that a run can continue and ``mutmut show NAME`` can show a mutant. A pattern (``weft.planning*``)
selects mutants, also those that are sampled.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
MUTMUT = Path(sys.executable).parent / "mutmut"
LEAST: Final = 0.85
"""The minimum share of a folder's mutants that the tests must kill."""
WHOLE: Final = frozenset(
    {"catalog", "derivation", "derivation/replay", "derivation/temporal", "planning", "storage", "store", "writing"}
)
"""The folders whose mutants a full run tests."""
FIRST: Final = "weft.derivation.size.*"
"""The mutants that run first. After their run, mutmut has created all mutants and knows which tests reach which
mutant.
"""
AT_ONCE: Final = 1_000
"""The number of mutants in one command. Each command first runs the tests of its mutants without a change."""
LOG: Final = "mutmut.log"
COPIED: Final = ("src", "tests", "docs", "pyproject.toml")
KILLED: Final = frozenset({"killed", "timeout", "segfault"})
UNTRIED: Final = frozenset({"not checked", "skipped"})
_RESULT: Final = re.compile(r"\s*(?P<name>weft\.\S+): (?P<state>.+)")


def run(folder: Path, *patterns: str, sample: int | None = None) -> dict[str, int]:
    """Create the mutants in ``folder``, test them and print the results. Return how many folders pass and how many
    fail.
    """
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    ended = _try(folder, *patterns) if sample is None else _try_some(folder, sample, patterns)
    states = results(folder)
    if ended != 0 or not states:
        print((folder / LOG).read_text(errors="replace")[-2_000:], f"mutmut ended with code {ended}", sep="\n")
        return {"failed": 1}
    counts = report(states)
    if not patterns and not {_folder(name) for name in states} >= WHOLE:
        print(f"not every folder of {', '.join(sorted(WHOLE))} has mutants")
        counts["failed"] += 1
    return counts


def _try(folder: Path, *patterns: str) -> int:
    """Run mutmut on the mutants that match the patterns (default: all), and return its exit code."""
    with (folder / LOG).open("wb") as out:
        return subprocess.run(
            [MUTMUT, "run", "--max-children", str(os.cpu_count() or 1), *patterns],
            cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
        ).returncode  # fmt: skip


def _try_some(folder: Path, sample: int, patterns: Sequence[str]) -> int:
    """Run mutmut on a random sample of the mutants that match a pattern (default: all), and return its exit code."""
    seed = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))
    ended = _try(folder, FIRST)
    untried = sorted(results(folder, untried=True))
    left = [name for name in untried if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]
    drawn = random.Random(seed).sample(left, min(sample, len(left)))
    print(f"{len(drawn)} of {len(left):,} mutants, drawn with WEFT_SEED={seed}", flush=True)
    for at in range(0, len(drawn), AT_ONCE):
        ended = ended or _try(folder, *drawn[at : at + AT_ONCE])
    return ended


def _environment() -> dict[str, str]:
    """Omit PYTHONPATH, so that the tests import the copy."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def results(folder: Path, *, untried: bool = False) -> dict[str, str]:
    """Return the result of each tested mutant by name. With ``untried``, return the untested mutants."""
    listed = subprocess.run(
        [MUTMUT, "results", "--all", "true"], cwd=folder, env=_environment(), capture_output=True, text=True, check=True
    )
    found = (match for line in listed.stdout.splitlines() if (match := _RESULT.fullmatch(line)))
    return {match["name"]: match["state"] for match in found if (match["state"] in UNTRIED) == untried}


def report(states: dict[str, str]) -> dict[str, int]:
    """Print the survivors by function, and a table of the folders. Return how many folders pass and how many fail."""
    lived = Counter(name.rpartition("__mutmut_")[0] for name, state in states.items() if state not in KILLED)
    for function, count in sorted(lived.items()):
        print(f"{count:5} survive in {function}")
    mutants = Counter(_folder(name) for name in states)
    killed = Counter(_folder(name) for name, state in states.items() if state in KILLED)
    counts = {"passed": 0, "failed": 0}
    for folder, number in sorted(mutants.items()):
        counts["passed" if killed[folder] >= LEAST * number else "failed"] += 1
        print(f"{folder:24}{number:6,} mutants{killed[folder]:7,} killed{killed[folder] / number:6.0%}")
    print(f"{'all':24}{len(states):6,} mutants{killed.total():7,} killed{killed.total() / len(states):6.0%}")
    return counts


def _folder(name: str) -> str:
    """Return the folder of a mutant: ``weft.derivation.replay.join.x_at_join__mutmut_1`` is in derivation/replay."""
    return "/".join(name.split(".")[1:-2])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Mutation tests.")
    parser.add_argument("--sample", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    sys.exit(1 if run(given.folder, *given.patterns, sample=given.sample)["failed"] else 0)
