"""Check the paths of channels that write files: each is below a root folder that the settings name."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from weft.errors import Refused


def path_below(text: str, root: Path, *, usage: str, variable: str) -> PurePosixPath:
    """Return the path relative to ``root``; raise Refused if it leaves ``root``.

    ``usage`` is the syntax of the channel, and ``variable`` the variable that sets its root.

    >>> path_below("a/./b", Path("/srv/files"), usage="file:NAME.csv", variable="WEFT_FILES_ROOT")
    PurePosixPath('a/b')
    """
    path = PurePosixPath(text)
    if not text or "\0" in text or text.endswith("/") or not path.parts:
        raise Refused(f"{text!r} is not a path", hint=f"Write {usage}.")
    if ".." in path.parts:
        raise Refused(f"the path {text!r} contains '..'", hint=f"Name a path under {root}.")
    if path.is_absolute():
        bases = (PurePosixPath(os.path.abspath(root)), PurePosixPath(os.path.realpath(root)))
        inside = [base for base in bases if path.is_relative_to(base) and path != base]
        if not inside:
            raise Refused(f"{text!r} is not under {root}", hint=f"Name a path under {root}, or set {variable}.")
        path = path.relative_to(inside[0])
    return path
