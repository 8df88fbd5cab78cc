"""Name the folder for data that does not fit into the memory of a process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def spill_folder() -> Path:
    """Return the spill folder of this process. DuckDB creates the folder when it first needs it, and removes it."""
    return Path(tempfile.gettempdir(), f"weft-spill-{os.getpid()}")
