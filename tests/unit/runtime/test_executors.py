"""The archive for the executors has what a task imports, and nothing of Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli.app import app
from weft.errors import Refused
from weft.runtime import executors
from weft.runtime.executors import pack_environment


def test_a_task_finds_its_modules_in_the_archive(tmp_path: Path) -> None:
    file = tmp_path / "packages.tar.gz"
    settings = pack_environment(file)
    assert settings["spark.archives"] == f"{file}#{settings['spark.executorEnv.PYTHONPATH']}"
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path / "environment", filter="data")
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    assert not list((tmp_path / "environment").glob("pyspark*"))
    # -S leaves out the packages of this environment.
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import weft.execution.executor_files as m; import pyarrow.parquet"
    )
    script += "; from importlib.metadata import version as v; print(m.__file__, v('weft'), v('pyarrow'))"
    command = [sys.executable, "-I", "-S", "-c", script, str(tmp_path / "environment")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    place, *versions = done.stdout.split()
    assert Path(place).is_relative_to(tmp_path / "environment")
    assert versions == [number for _, number in executors._versions()]


def test_a_name_that_spark_takes_for_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not the name of an archive"):
        pack_environment(tmp_path / "packages")


def test_the_command_prints_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_needed", list)
    file = tmp_path / "packages.tgz"
    shown = CliRunner().invoke(app, ["prepare", "--archive", str(file)])
    assert f'"spark.archives" = "{file}#environment"\n' in shown.output
    shown = CliRunner().invoke(app, ["prepare", "--archive", str(file), "--json"])
    assert json.loads(shown.output)["spark.archives"] == f"{file}#environment"
