"""Build the wheel, install it with pipx, and run the demo, without access to the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _done(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (found,) = folder.glob("*.whl")
    return found


def _done(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return str(done.stdout)


def test_the_wheel_has_all_that_is_no_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = (each for each in names if each.endswith(".dist-info/METADATA"))
        words = packed.read(metadata).decode()
    others = ("delivery/mail/letter.html", "runtime/spark_conf/log4j2.properties", "runtime/s3_jars.txt")
    for wanted in ("py.typed", *others, "bench/delta_jars.txt"):
        assert f"weft/{wanted}" in names
    assert any(each.endswith("licenses/LICENSE") for each in names)
    assert "License-Expression: Apache-2.0" in words
    assert "# Weft" in words, "the readme is the description"


def test_the_demo_plays_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    environment = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WEFT_", "VIRTUAL_ENV"))
        },
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_DEFAULT_PYTHON": sys._base_executable,  # type: ignore[attr-defined]
        "WEFT_CACHE": str(tmp_path / "cache"),
        "WEFT_CLASS_ARCHIVE": "off",
    }
    _done(sys.executable, "-m", "pipx", "install", str(wheel), env=environment)
    weft = str(tmp_path / "bin" / "weft")
    assert _done(weft, "--version", env=environment, cwd=tmp_path) == "weft 0.1.0\n"
    result = _done(weft, "demo", env=environment, cwd=tmp_path)
    assert "unanswered" in result and "weft ingest mail YOUR.mbox" in result
    assert "ok  home" in _done(weft, "doctor", "--home", "demo-home", env=environment, cwd=tmp_path)
