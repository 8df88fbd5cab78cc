"""Control who may read and write a home's files: each file gets the permissions of its folder.

The mode of the home's folder determines the permissions of the files. In a folder with mode 0700, files get mode 0600.
In a folder with mode 2770 (shared with a group), files get mode 0660. If other users may enter the folder, the
process's umask applies.

Weft never changes the umask. The umask applies to all threads of the process, and other threads also create files.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final, Literal

Access = Literal["owner", "group", "umask"]
"""The users who may access a home: its owner, the owner's group, or the users that the umask allows."""

FOLDER_MODES: Final[dict[Access, int]] = {"owner": 0o700, "group": 0o2770}
"""The mode of a home's folder for each access. For the access ``umask``, the umask determines the mode."""

_OTHERS: Final = 0o007
_OF_FOLDERS: Final = 0o2777
_OF_FILES: Final = 0o666


def follow_folder(path: str | os.PathLike[str]) -> None:
    """Give a file or folder the permissions of its parent folder.

    Do nothing if other users may enter the parent, or if another user owns the file. Raises OSError.
    """
    folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
    status = os.lstat(path)
    if folder & _OTHERS or status.st_uid != os.geteuid():
        return
    if stat.S_ISDIR(status.st_mode):
        wanted = folder & _OF_FOLDERS
    elif stat.S_ISREG(status.st_mode):
        wanted = folder & _OF_FILES
    else:
        return
    if stat.S_IMODE(status.st_mode) != wanted:
        os.chmod(path, wanted)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder and its parents, each with the permissions of its own parent. Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    make_folder(above)
    # Restrict the folder from the start, because another process may create a file in it at once. In an open folder,
    # the umask would decide the mode of that file.
    mode = 0o777 if os.stat(above).st_mode & _OTHERS else 0o700
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        follow_folder(path)


def make_file(path: str | os.PathLike[str]) -> None:
    """Create an empty file with the permissions of its folder. An existing file is not changed. Raises OSError."""
    folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
    mode = _OF_FILES if folder & _OTHERS else 0o600
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        follow_folder(path)


def wider(path: str | os.PathLike[str], access: Access) -> bool:
    """Return whether a file or folder has more permissions than ``access`` allows. Raises OSError."""
    if access == "umask":
        return False
    mode = os.lstat(path).st_mode
    return not stat.S_ISLNK(mode) and bool(stat.S_IMODE(mode) & 0o777 & ~FOLDER_MODES[access])
