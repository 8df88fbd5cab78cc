"""Each rule of the derivation names a theorem of ``proofs/`` in its docstring, and each name is that of a theorem.

These tests need no ``coqc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.derivation import (
    access_paths,
    canonical,
    incremental,
    lift,
    localize,
    merge,
    monotone,
    recursion,
    simplify,
)
from weft.derivation.replay import OPERATORS, rules
from weft.derivation.temporal import (
    aggregation,
    delta,
    difference,
    extension,
    join,
    projection,
    union,
)

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "proofs"
RULES = (
    *OPERATORS, rules, incremental, monotone, lift,
    merge, canonical, simplify, localize, access_paths, recursion,
    difference, union, projection, join, extension, aggregation, delta,
)  # fmt: skip
MENTION = re.compile(r"proofs/(\w+\.v): (\w+(?:, \w+)*)")


def _theorems(file: str) -> set[str]:
    return set(re.findall(r"^ *Theorem (\w+)", (PROOFS / file).read_text(), re.M))


def _mentions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the name of each theorem that a text mentions."""
    for file, names in MENTION.findall(text):
        for name in names.split(", "):
            yield file, name


@pytest.mark.parametrize("module", RULES, ids=lambda module: module.__name__.removeprefix("weft.derivation."))
def test_each_rule_names_its_theorem(module: object) -> None:
    assert list(_mentions(module.__doc__ or "")), "the docstring names no theorem: `Proof: proofs/FILE.v: theorem`"


def test_each_named_theorem_exists() -> None:
    texts = {path: path.read_text() for path in (ROOT / "src").rglob("*.py")}
    lost = [
        f"{path.relative_to(ROOT)}: {file}: {name}"
        for path, text in texts.items()
        for file, name in _mentions(text)
        if not (PROOFS / file).exists() or name not in _theorems(file)
    ]
    assert not lost, "\n".join(["no theorem has this name:", *lost])


def test_each_file_is_checked() -> None:
    """The Makefile lists its files, so that a new file is not forgotten."""
    listed = re.search(r"FILES := ((?:.*\\\n)*.*)", (PROOFS / "Makefile").read_text())
    assert listed is not None
    names = listed[1].replace("\\", "").split()
    assert sorted(names) == sorted(path.stem for path in PROOFS.glob("*.v") if path.name != "Assumptions.v")


def test_each_theorem_is_in_the_golden_file() -> None:
    golden = (PROOFS / "assumptions.txt").read_text().splitlines()
    for path in PROOFS.glob("*.v"):
        for name in _theorems(path.name):
            assert f"{path.name}: {name}" in golden, "run make -C proofs bless"
