"""An arrangement that nobody needs any more is deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

from weft.arrangement.manifest import MANIFEST
from weft.arrangement.run import ArrangementError
from weft.failpoint import failpoint


def remove(folder: Path) -> None:
    """Deletes the arrangement, the manifest first: what is left of it by a kill is litter, and no state.

    The caller holds the home's lease.  Raises ArrangementError where it cannot be deleted.
    """
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
        failpoint("arrangement.forgotten")
        shutil.rmtree(folder)
    except OSError as error:
        raise ArrangementError(f"an arrangement cannot be deleted: {error.strerror}", where=str(folder)) from error
