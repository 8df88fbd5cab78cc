"""Where a process puts what it cannot hold in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def spill_folder() -> Path:
    """The folder for what this process cannot hold in memory; whoever needs it makes it, and takes it away."""
    return Path(tempfile.gettempdir(), f"weft-spill-{os.getpid()}")
