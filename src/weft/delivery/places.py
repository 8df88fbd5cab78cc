"""Paths of channels that write: each is below a folder, the root, that the settings name."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from weft.errors import Refused


def below(text: str, root: Path, *, usage: str, variable: str) -> PurePosixPath:
    """The path under ``root``; raises Refused for one that leaves it.  ``usage`` is how the channel is written,
    ``variable`` what sets its root.

    >>> below("a/./b", Path("/srv/files"), usage="file:NAME.csv", variable="WEFT_FILES_ROOT")
    PurePosixPath('a/b')
    """
    given = PurePosixPath(text)
    if not text or "\0" in text or text.endswith("/") or not given.parts:
        raise Refused(f"{text!r} is no path", hint=f"Write {usage}.")
    if ".." in given.parts:
        raise Refused(f"the path {text!r} has '..' in it", hint=f"Name a place under {root}.")
    if given.is_absolute():
        bases = (PurePosixPath(os.path.abspath(root)), PurePosixPath(os.path.realpath(root)))
        inside = [base for base in bases if given.is_relative_to(base) and given != base]
        if not inside:
            raise Refused(f"{text!r} is not under {root}", hint=f"Name a place under {root}, or set {variable}.")
        given = given.relative_to(inside[0])
    return given
