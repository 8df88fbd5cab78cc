"""The rules of the house that no linter knows: sizes, names, docstrings (design, section 4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "weft").rglob("*.py"))
MODULE_LINES = 600
FUNCTION_LINES = 40
BANNED = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "base", "misc"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code from the signature on, the docstring left aside: saying more must not cost anything."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 10


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_modules_are_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MODULE_LINES, f"{_name(path)} has {lines} lines: split it by what it does"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_functions_are_short(path: Path) -> None:
    long = [f"{f.name} ({_length(f)} lines)" for f in _functions(path) if _length(f) > FUNCTION_LINES]
    assert not long, f"{_name(path)}: {', '.join(long)}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_no_file_has_a_name_that_says_nothing(path: Path) -> None:
    assert not BANNED & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_what_is_public_is_explained(path: Path) -> None:
    tree = ast.parse(path.read_text())
    silent = ["module"] if ast.get_docstring(tree) is None else []
    for node in tree.body:
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if named and not node.name.startswith("_") and ast.get_docstring(node) is None:
            silent.append(node.name)
    assert not silent, f"{_name(path)} says nothing about: {', '.join(silent)}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_annotations_are_postponed(path: Path) -> None:
    text = path.read_text()
    has_code = any(not isinstance(node, ast.Expr) for node in ast.parse(text).body)
    assert not has_code or "from __future__ import annotations" in text


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_only_the_clock_reads_the_clock(path: Path) -> None:
    if path.name == "clock.py" and path.parent.name == "schedule":
        return
    found = re.findall(r"\b(?:time\.time(?:_ns)?|datetime\.now|datetime\.utcnow|date\.today)\(", path.read_text())
    assert not found, f"{_name(path)} reads the clock ({found[0]}…): take the instant as an argument"


# These read and write a home's data; the other parts have local files of their own.
DATA_PARTS = [path for path in SOURCES if re.search("weft/(storage/|execution/|extraction/quarantine)", str(path))]
FILE_MODULES = {"pathlib", "shutil", "fcntl", "glob", "tempfile", "io"}
OF_THE_PROCESS = {"environ", "getpid", "kill", "cpu_count"}
# An open home's folder, for its catalog and Spark's log; the folders of arrangements and open rows, which are no data.
LOCAL_FOLDERS = {
    "src/weft/execution/home.py",
    "src/weft/execution/look_ups.py",
    "src/weft/execution/current_rows_cache.py",
}


@pytest.mark.parametrize("path", DATA_PARTS, ids=_name)
def test_data_is_reached_through_locations_only(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.split(".")[0] in FILE_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in {*FILE_MODULES, "os"}:
                found.append(module)
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in OF_THE_PROCESS:
                found.append(f"os.{name}")
            case ast.Call(func=ast.Name(id="open")):
                found.append("open(…)")
    if _name(path) in LOCAL_FOLDERS:
        found = [each for each in found if each != "pathlib"]
    assert not found, f"{_name(path)} uses {', '.join(found)}: a home's data is reached through weft.location"
