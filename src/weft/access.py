"""Who may read and write the files of a home: each gets the permissions of the folder that it is in.

The folder of a home decides: mode 0700 gives files of mode 0600, mode 2770 (a group's) files of mode 0660.  A folder
that others may enter decides nothing; the process's umask does then.  The umask itself is never changed: it belongs to
the whole process, and other threads make files, too.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final, Literal

Access = Literal["owner", "group", "umask"]
"""Who uses a home: its owner, the owner's group, or whom the umask allows."""

FOLDER_MODES: Final[dict[Access, int]] = {"owner": 0o700, "group": 0o2770}
"""The mode of a home's folder; that of ``umask`` is whatever the umask leaves."""

_OTHERS: Final = 0o007
_OF_FOLDERS: Final = 0o2777
_OF_FILES: Final = 0o666


def follow_folder(path: str | os.PathLike[str]) -> None:
    """Gives a file or a folder the permissions of the folder that it is in.

    Nothing is done where others may enter that folder, and for a file of another user.  Raises OSError.
    """
    folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
    found = os.lstat(path)
    if folder & _OTHERS or found.st_uid != os.geteuid():
        return
    if stat.S_ISDIR(found.st_mode):
        wanted = folder & _OF_FOLDERS
    elif stat.S_ISREG(found.st_mode):
        wanted = folder & _OF_FILES
    else:
        return
    if stat.S_IMODE(found.st_mode) != wanted:
        os.chmod(path, wanted)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder, and those above it, each with the permissions of the one that it is in.  Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    make_folder(above)
    # Narrow from the start: another process that makes a file in it meanwhile would follow the umask's permissions.
    mode = 0o777 if os.stat(above).st_mode & _OTHERS else 0o700
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        follow_folder(path)


def make_file(path: str | os.PathLike[str]) -> None:
    """Makes an empty file with the permissions of its folder; one that is there keeps its own.  Raises OSError."""
    folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
    mode = _OF_FILES if folder & _OTHERS else 0o600
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        follow_folder(path)


def wider(path: str | os.PathLike[str], access: Access) -> bool:
    """Whether a file or folder gives more permissions than ``access`` allows.  Raises OSError."""
    if access == "umask":
        return False
    found = os.lstat(path).st_mode
    return not stat.S_ISLNK(found) and bool(stat.S_IMODE(found) & 0o777 & ~FOLDER_MODES[access])
