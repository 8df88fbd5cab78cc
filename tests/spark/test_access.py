"""Permissions of a home's files after a tick with Spark, and of the files that channels write."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replayed import HOUR, START, load, replay_home
from weft.execution import driver_reader
from weft.execution.driver_reader import ReadBounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "msgid string, newsgroup string, inreplyto string"
ANSWERED = "SELECT m.msgid FROM msgs m WHERE EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)"


def test_a_tick_by_spark_leaves_a_home_its_owners_and_channels_keep_the_umask(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds(-1, -1, -1, -1, large=-1))
    before = os.umask(0o022)
    try:
        weft = replay_home(tmp_path / "home")
        load(weft, spark, "msgs", [(f"m{n}", "sci.space", f"m{n - 1}", START + n) for n in range(5)])
        weft.append(
            "msgs",
            spark.createDataFrame([("m9", "sci.space", "m8")], "msgid string, newsgroup string, inreplyto string"),
        )
        weft.install("answered", ANSWERED, to=["file:answers.csv", "delta:answers"])
        weft.tick(now=START + HOUR)
        weft.close()
    finally:
        os.umask(before)
    home = tmp_path / "home"
    channels = {home / "files", home / "delta"}
    seen = set()
    for path in home.rglob("*"):
        mode, wanted = stat.S_IMODE(path.stat().st_mode), (0o700, 0o600)
        if channels & {path, *path.parents}:
            wanted = (0o755, 0o644)
        assert mode == wanted[not path.is_dir()], f"{path} has mode {mode:04o}"
        seen.add(str(path.relative_to(home)).partition("/")[0])
    assert {"ledger", "tables", "files", "delta", "logs", "given"} <= seen
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
