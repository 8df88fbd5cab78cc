"""The demo's session gives the same answers with its data on S3, and Spark reads and writes there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from s3_server import SECRET, environment, new_bucket
from scenario.cluster_session import Answers, Silent, answers
from weft.api import Weft
from weft.demo.play import play
from weft.execution import driver_reader
from weft.runtime.doctor import examine
from weft.schedule.clock import now_us
from weft.store import S3Access

ASKED = "SELECT m.msgid, m.ts, m.newsgroup FROM msgs m"


class Watching(Silent):
    """A stage that looks at the arguments of all processes before each step."""

    def working(self, text: str) -> AbstractContextManager[object]:
        assert all(SECRET not in arguments for arguments in arguments_of_all())
        return nullcontext()


def arguments_of_all() -> Iterator[str]:
    """Yield the arguments of all processes."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_text(errors="replace")


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Spark read every relation of a tick, and write its answers."""
    monkeypatch.setattr(driver_reader, "BOUNDS", replace(driver_reader.BOUNDS, whole=-1, filtered=-1, news=-1))


@pytest.mark.timeout(600)
def test_the_demo_on_s3_has_the_answers_of_a_local_home(
    local_demo: Path,
    demo_answers: Answers,
    by_spark: None,
    s3_access: S3Access,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    home, bucket = tmp_path / "home", new_bucket(s3_access)
    play(home, Watching(), store=f"{bucket}/home")
    assert answers(home) == demo_answers
    with Weft.open(local_demo) as local, Weft.open(home) as weft:
        asked = local.try_query(ASKED, limit=None).rows
        assert len(asked) > 500 and weft.try_query(ASKED, limit=None).rows == asked
        assert weft.results("chains").spark().count() == len(demo_answers["chains"])
    checks = {check.name: check for check in examine(home, now_us())}
    assert all(checks[name].ok for name in ("catalog", "store", "jars for S3", "home")), checks
    assert not (home / "tables").exists() and not (home / "ledger").exists()
    assert (home / "catalog.sqlite").exists()
    written = [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert written == []
