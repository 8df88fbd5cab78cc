"""What commands print, as a terminal shows it: each transcript is typed in a folder of its own, in this process.

A transcript is a page with ``console`` blocks: ``$`` before a command, then its output, then its exit code unless that
is 0.  ``make bless`` rewrites the output.  Read the difference: a person sees each changed line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import blocks, perform, retyped, steps
from weft.runtime.session import session_started

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.md"))


@pytest.mark.parametrize("page", TRANSCRIPTS, ids=lambda page: page.stem)
def test_a_transcript_is_typed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bless: bool
) -> None:
    with_spark = session_started()
    monkeypatch.chdir(tmp_path)
    for name in ("WEFT_HOME", "WEFT_FILES_ROOT", "WEFT_DELTA_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("USER", "anna")

    def captured() -> str:
        printed = capsys.readouterr()
        return (printed.out + printed.err).replace(str(tmp_path), "/work")

    text = page.read_text()
    lines = text.splitlines()
    typed = []
    for block in blocks(text):
        if block.language == "console":
            new = retyped(steps(block), lambda each: perform(each, monkeypatch.setenv, captured, codes=True), bless)
            typed.append((block, new))
    assert session_started() == with_spark, "a transcript starts no Spark"
    for block, new in reversed(typed):
        lines[block.begin : block.begin + len(block.lines)] = new
    written = "\n".join(lines) + "\n"
    if bless:
        page.write_text(written)
    assert written == text or bless, "run `make bless`, and read the difference"
