"""The demo's session gives the same answers with its data on S3, and Spark reads and writes there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from s3_server import KEY, SECRET, environment, new_bucket
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
    monkeypatch.setattr(
        driver_reader, "BOUNDS", replace(driver_reader.BOUNDS, whole=-1, filtered=-1, news=-1, large=-1)
    )


@pytest.mark.timeout(600)
@pytest.mark.slow  # test_cluster.py runs the demo on S3 and a cluster
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


FIRST_VIEW = """
import sys
from pathlib import Path
from weft.api import Weft
from weft.execution.engines import choosing
choosing.BOUNDS = choosing.NOTHING
home, staff, store = sys.argv[1:]
with Weft.open(Path(home), create=True, store=store) as weft:
    weft.add_source("staff", "csv", staff, "id")
    weft.poll_source("staff")
    weft.add_view("dev", "SELECT id FROM staff WHERE dept = 'Dev'")
    print(*(each.by for each in weft.refresh_views()), weft.try_query("SELECT id FROM dev", limit=None).rows)
"""


def test_a_view_is_the_first_computation_of_spark(s3_access: S3Access, tmp_path: Path) -> None:
    """The session of the computation has the access to the bucket, before the session of the home uses it."""
    (tmp_path / "staff.csv").write_text("id,dept\n1,Dev\n2,Ops\n")
    (tmp_path / "first.py").write_text(FIRST_VIEW)
    arguments = [str(tmp_path / "home"), str(tmp_path / "staff.csv"), str(new_bucket(s3_access) / "home")]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "weft.toml").write_text(  # Spark's client also knows AWS's variables, but not the settings
        f'[store]\nendpoint = "{s3_access.endpoint}"\naccess_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\n'
    )
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    surroundings["WEFT_SPARK_MEMORY"] = "1g"
    command = [sys.executable, str(tmp_path / "first.py"), *arguments]
    with subprocess.Popen(
        command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for _ in range(1_000):
            assert all(SECRET not in arguments for arguments in arguments_of_all())
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.25)
                break
        assert process.stdout is not None
        said = process.stdout.read()
    assert said.strip().endswith("Spark ((1,),)"), said
