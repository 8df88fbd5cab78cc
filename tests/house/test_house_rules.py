"""The rules for source files that no linter checks: sizes, names, docstrings (design, section 4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "weft").rglob("*.py"))
MODULE_LINES = 600
FUNCTION_LINES = 40
BANNED = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "base", "misc"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines from the signature on, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 10


def _check(rule: Callable[[Path], Iterable[str]], paths: Sequence[Path] = SOURCES) -> None:
    """Fail with a list of all violations in all files."""
    offences = [f"{_name(path)}: {offence}" for path in paths for offence in rule(path)]
    assert not offences, "\n".join(["", *offences])


def _is_long(path: Path) -> Iterator[str]:
    lines = len(path.read_text().splitlines())
    if lines > MODULE_LINES:
        yield f"{lines} lines: split it by what it does"


def test_modules_are_short() -> None:
    _check(_is_long)


def _long_functions(path: Path) -> Iterator[str]:
    return (f"{f.name} has {_length(f)} lines" for f in _functions(path) if _length(f) > FUNCTION_LINES)


def test_functions_are_short() -> None:
    _check(_long_functions)


def test_no_file_has_a_name_that_says_nothing() -> None:
    _check(lambda path: BANNED & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts})


def _unexplained(path: Path) -> Iterator[str]:
    tree = _tree(path)
    if ast.get_docstring(tree) is None:
        yield "the module has no docstring"
    for node in tree.body:
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if named and not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"{node.name} has no docstring"


def test_public_objects_have_docstrings() -> None:
    _check(_unexplained)


def _evaluates_annotations(path: Path) -> Iterator[str]:
    has_code = any(not isinstance(node, ast.Expr) for node in _tree(path).body)
    if has_code and "from __future__ import annotations" not in path.read_text():
        yield "add `from __future__ import annotations`"


def test_annotations_are_postponed() -> None:
    _check(_evaluates_annotations)


CLOCK = re.compile(r"\b(?:time\.time(?:_ns)?|datetime\.now|datetime\.utcnow|date\.today)\(")


def _clock_reads(path: Path) -> Iterator[str]:
    if path.parts[-2:] != ("schedule", "clock.py"):
        for found in CLOCK.findall(path.read_text()):
            yield f"reads the clock ({found}…): take the instant as an argument"


def test_only_the_clock_reads_the_clock() -> None:
    _check(_clock_reads)


# These modules read and write the data of a home. Other modules may have local files.
DATA_PARTS = [
    path for path in SOURCES if re.search("weft/(storage/|writing/|execution/|extraction/quarantine)", str(path))
]
FILE_MODULES = {"pathlib", "shutil", "fcntl", "glob", "tempfile", "io"}
OF_THE_PROCESS = {"environ", "getpid", "kill", "cpu_count", "register_at_fork"}
# The folder of a home contains its catalog and Spark's log. The folders of arrangements and open rows contain no data.
LOCAL_FOLDERS = {f"src/weft/execution/{name}.py" for name in ("home", "look_ups", "current_rows_cache")}


def _local_files(path: Path) -> Iterator[str]:
    found = []
    for node in ast.walk(_tree(path)):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.split(".")[0] in FILE_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in {*FILE_MODULES, "os"}:
                found.append(module)
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in OF_THE_PROCESS:
                found.append(f"os.{name}")
            case ast.Call(func=ast.Name(id="open")):
                found.append("open(…)")
    for each in found:
        if each != "pathlib" or _name(path) not in LOCAL_FOLDERS:
            yield f"uses {each}: a home's data is reached through weft.store"


def test_data_is_reached_through_locations_only() -> None:
    _check(_local_files, DATA_PARTS)


OF_THE_PAGE = [path for path in SOURCES if "src/weft/web/" in str(path)]


def _bypasses(path: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in ("catalog", "opened"):
            yield f"line {node.lineno} uses .{node.attr}: a page needs a method of Weft, which checks the right"


def test_pages_use_methods_that_check_rights() -> None:
    assert OF_THE_PAGE
    _check(_bypasses, OF_THE_PAGE)
