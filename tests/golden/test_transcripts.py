"""The output of commands in a terminal. Each transcript runs in a separate folder in this process.

A transcript is a page with ``console`` blocks: ``$`` before a command, then its output, then its exit code unless the
code is 0. ``make bless`` rewrites the output. Read the difference, because users see every changed line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import Block, assert_current, perform, retyped, steps
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

    def terminal(command: str) -> str:
        return perform(command, monkeypatch.setenv, captured, codes=True)

    def output(block: Block) -> list[str]:
        typed = block.language == "console"
        return retyped(steps(block), terminal, bless, sizes=False) if typed else list(block.lines)

    assert_current(page, output, bless)
    assert session_started() == with_spark, "a transcript starts no Spark"
