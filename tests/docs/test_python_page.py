"""The page about Python shows every method of ``Weft`` with its signature and an example, and the examples run."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.pages import ROOT, blocks
from weft.api import Weft

PAGE = ROOT / "docs" / "reference" / "python.md"
INTERNAL = {
    "home_id",
    "known",
    "lies_ahead",
    "accounts",
    "catalog",
    "clock",
    "closed",
    "home",
    "opened",
    "schemas",
    "time_driven",
    "writing",
}
METHODS = sorted(name for name in dir(Weft) if not name.startswith("_") and name not in INTERNAL)


def _sections() -> dict[str, str]:
    """Return the text under the heading of each method."""
    found = re.split(r"^### (\w+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(found[1::2], (re.split(r"^## ", each, flags=re.MULTILINE)[0] for each in found[2::2]), strict=True))


def _signature(name: str) -> str:
    """Return the signature in the format of the page: without types, and with three dots for a default that is a
    function.
    """
    written, keywords = [], False
    for each in inspect.signature(getattr(Weft, name)).parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not keywords:
            written.append("*")
            keywords = True
        has = each.default is not each.empty
        written.append(f"{each.name}=…" if has and callable(each.default) else str(each.replace(annotation=each.empty)))
    return f"`{name}({', '.join(written)})`"


def test_every_method_is_there_and_no_other() -> None:
    assert sorted(_sections()) == METHODS


def _has_example(name: str, section: str) -> bool:
    examples = [block.text for block in blocks(section) if block.language == "python"]
    return any(re.search(rf"\b\w+\.{name}\(", text) for text in examples)


def test_each_has_its_signature_and_an_example() -> None:
    sections = _sections()
    assert {name: text.strip().splitlines()[0] for name, text in sections.items()} == {
        name: _signature(name) for name in sections
    }
    assert not [name for name, text in sections.items() if not _has_example(name, text)]


def test_the_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bless: bool) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("WEFT_HOME", "WEFT_FILES_ROOT"):
        monkeypatch.delenv(name, raising=False)
    text = PAGE.read_text()
    lines = text.splitlines()
    names: dict[str, object] = {"__name__": "page"}
    changes = []
    for block in blocks(text):
        if block.language == "python":
            code = list(block.lines)
            while code and code[-1].startswith("# "):
                code.pop()
            result = io.StringIO()
            with contextlib.redirect_stdout(result):
                exec(compile("\n".join(code), "python.md", "exec"), names)
            new = [*code, *("# " + line for line in result.getvalue().splitlines())]
            changes.append((block.begin, list(block.lines), new))
    for begin, old, new in reversed(changes):
        assert bless or new == old, "run `make bless`, and read the difference"
        lines[begin : begin + len(old)] = new
    if bless:
        PAGE.write_text("\n".join(lines) + "\n")
