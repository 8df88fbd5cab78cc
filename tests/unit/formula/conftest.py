"""The cases of MonPoly and DejaVu."""

from pathlib import Path

import pytest


@pytest.fixture
def monitor(data: Path) -> Path:
    """The folder of the cases; without it the tests that ask for it are skipped, and say so."""
    folder = data / "monitor"
    if not folder.is_dir():
        pytest.skip(f"NO CASES OF MONITORS: {folder} is not there; set WEFT_DATA to the folder that has monitor/")
    return folder
