"""Name the folder for data that a process cannot hold in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def spill_folder() -> Path:
    """Return the spill folder of this process; the caller creates and removes the folder."""
    return Path(tempfile.gettempdir(), f"weft-spill-{os.getpid()}")
