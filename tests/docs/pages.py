"""Read the documents for tests: their files, fenced blocks, headings, links and executable consoles.

A ``console`` block shows a terminal: ``$`` before a command, ``>`` before its further lines, then its output. A line of
three dots matches any lines. The comparison ignores empty lines, spacing, elapsed seconds and instants from 2026 on
(the wall clock). In transcripts, it also ignores file sizes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.cli.app import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
ANYTHING = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, and the number of its first line in the page (from 0)."""

    language: str
    lines: tuple[str, ...]
    begin: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Step:
    """A command, and its expected output."""

    command: str
    typed: tuple[str, ...]
    shown: tuple[str, ...]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order, including those in lists."""
    language, lines, begin, indent = None, [], 0, 0
    for number, line in enumerate(text.splitlines()):
        if not line.strip().startswith("```"):
            lines.append(line[indent:])
        elif language is None:
            language, lines, begin = line.strip()[3:], [], number + 1
            indent = len(line) - len(line.lstrip())
        else:
            yield Block(language, tuple(lines), begin)
            language, indent = None, 0
    assert language is None, "a fenced block has no end"


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", prose(text), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


def links(text: str) -> list[str]:
    """Return the targets of a page's links."""
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text)))


def steps(block: Block) -> list[Step]:
    """Return the commands of a console with their outputs."""
    found: list[Step] = []
    typed: list[str] = []
    shown: list[str] = []
    for line in (*block.lines, "$ "):
        if line.startswith("$ "):
            if typed:
                command = "\n".join(each[2:] for each in typed)
                found.append(Step(command, tuple(typed), tuple(shown)))
            typed, shown = [line], []
        elif (line.startswith("> ") or line == ">") and not shown:
            typed.append(line)
        else:
            shown.append(line)
    return found


def perform(
    command: str, setenv: Callable[[str, str], None], captured: Callable[[], str], *, codes: bool = False
) -> str:
    """Run a command and return its output. ``weft`` and ``export`` run in this process, and other commands run in a
    shell. ``python`` is the interpreter of this process.

    With ``codes``, the last line for a ``weft`` command is its exit code unless the code is 0.
    """
    word = command.split(None, 1)[0]
    if word == "export":
        for assignment in shlex.split(command)[1:]:
            name, _, value = assignment.partition("=")
            setenv(name, os.path.expandvars(value))
        return ""
    if word == "weft":
        captured()
        code = run(shlex.split(command)[1:])
        return captured() + (f"[exit code {code}]\n" if codes and code else "")
    if word == "python":
        command = f"{shlex.quote(sys.executable)} {command.removeprefix(word)}"
    done = subprocess.run(
        ["bash", "-c", command], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
    )
    return done.stdout


def same(shown: Sequence[str], found: str, *, sizes: bool = True) -> bool:
    """Return whether an output equals the expected output. If ``sizes`` is false, ignore file sizes."""
    return _fits(_comparable(shown, sizes), _comparable(found.splitlines(), sizes))


def assert_current(page: Path, output: Callable[[Block], list[str]], bless: bool) -> None:
    """Assert that a page shows the current output. With ``bless``, write the current output into the page.

    ``output`` returns the expected lines of a block.
    """
    text = page.read_text()
    lines = text.splitlines()
    for block, new in reversed([(block, output(block)) for block in blocks(text)]):
        lines[block.begin : block.begin + len(block.lines)] = new
    written = "\n".join(lines) + "\n"
    if bless:
        page.write_text(written)
    assert written == text or bless, "run `make bless`, and read the difference"


def retyped(wanted: Sequence[Step], terminal: Callable[[str], str], bless: bool, *, sizes: bool = True) -> list[str]:
    """Run the commands of a console, and return its lines. If an output differs, the lines contain the current output.

    Raises AssertionError for a difference, unless ``bless`` is true.
    """
    new: list[str] = []
    for step in wanted:
        output = terminal(step.command)
        assert "Traceback" not in output
        if same(step.shown, output, sizes=sizes):
            shown = list(step.shown)
        else:
            assert bless, f"$ {step.command}\nis shown to say\n{chr(10).join(step.shown)}\nand says\n{output}"
            assert ANYTHING not in step.shown, f"$ {step.command}\nsays now\n{output}\nshorten it by hand"
            shown = "\n".join(line.rstrip() for line in output.splitlines()).strip("\n").splitlines()
        new += [*step.typed, *shown]
    return new


def _comparable(lines: Sequence[str], sizes: bool) -> list[str]:
    return [_masked(line, sizes) for line in lines if line.strip()]


def _masked(line: str, sizes: bool) -> str:
    line = re.sub(r"\b20(?:2[6-9]|[3-9]\d)-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?", "<now>", line)
    line = re.sub(r"\bin \d+\.\d s\b", "in <n> s", line)
    if not sizes:
        line = re.sub(r"\b[\d.]+ (bytes|[kMG]B)\b", "<size>", line)
        line = re.sub(r'"(seconds|bytes|free_bytes)": [\d.]+', r'"\1": <n>', line)
    return re.sub(r"[─ ]+", " ", line).strip()


def _fits(shown: list[str], found: list[str]) -> bool:
    if not shown:
        return not found
    if shown[0] == ANYTHING:
        return any(_fits(shown[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and shown[0] == found[0] and _fits(shown[1:], found[1:])
