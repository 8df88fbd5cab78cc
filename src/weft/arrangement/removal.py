"""Delete an arrangement that is no longer needed."""

from __future__ import annotations

import shutil
from pathlib import Path

from weft.arrangement.manifest import MANIFEST
from weft.arrangement.run import ArrangementError
from weft.failpoint import failpoint


def remove(folder: Path) -> None:
    """Delete the arrangement, manifest first, so that an interrupted deletion leaves files but no state.

    The caller holds the home's lease. Raise ArrangementError if it cannot be deleted.
    """
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
        failpoint("arrangement.forgotten")
        shutil.rmtree(folder)
    except OSError as error:
        raise ArrangementError(f"an arrangement cannot be deleted: {error.strerror}", where=str(folder)) from error
