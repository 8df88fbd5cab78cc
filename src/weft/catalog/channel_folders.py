"""The folders below which channels write files and Delta tables.

Several machines can work on a home whose catalog is on a server.  Each of them delivers, so all need the same folders.
The first machine marks the folders.  A folder without the mark is another one, for example because it is not mounted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.catalog import layout
from weft.configuration import configuration
from weft.errors import FolderElsewhere, Refused

MARK: Final = ".weft-"
"""The prefix of the file that marks a root folder.  The ID of the home follows."""


def files_root(home: Path) -> Path:
    """Return the root folder of file channels.  The default is ``files`` in the home."""
    return configuration(home).files_root or layout.files_folder(home)


def delta_root(home: Path) -> Path:
    """Return the root folder of Delta channels.  The default is ``delta`` in the home."""
    return configuration(home).delta_root or layout.delta_folder(home)


ROOTS: Final[dict[str, tuple[Callable[[Path], Path], str]]] = {
    "file": (files_root, "files.root"),
    "delta": (delta_root, "delta.root"),
}
"""For each scheme of channels with a folder: the function that finds the folder, and the setting."""


def mark_roots(home: Path, home_id: str) -> None:
    """Mark the root folders of a new home whose catalog is on a server.  Raise Refused if a folder is not writable."""
    for root, setting in ROOTS.values():
        mark = _mark(root(home), home, home_id)
        if mark is not None:
            try:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
            except OSError as error:
                raise Refused(
                    f"the folder of channels cannot be written: {error.strerror}",
                    where=str(mark.parent),
                    hint=f"Correct {setting} or the permissions of the folder.",
                ) from None


def unmark_roots(home: Path, home_id: str) -> None:
    """Remove the marks of a home that is deleted.  Raise OSError."""
    for root, _ in ROOTS.values():
        mark = _mark(root(home), home, home_id)
        if mark is not None:
            mark.unlink(missing_ok=True)


def shared_root(scheme: str, home: Path, home_id: str | None) -> Path:
    """Return the root folder for channels of a scheme (file or delta).

    Raise FolderElsewhere if it lacks the mark of the home with this ID.  None stands for any home.
    """
    find, setting = ROOTS[scheme]
    root = find(home)
    mark = None if home_id is None else _mark(root, home, home_id)
    if mark is None or mark.exists():
        return root
    raise FolderElsewhere(
        f"{root} is not the folder in which the machines of this home deliver {scheme}: channels",
        where=str(home),
        hint=f"Mount that folder here, and name it in {setting}. For a new folder of all machines, run: touch {mark}",
    )


def unshared(home: Path, home_id: str) -> dict[str, str]:
    """Return the schemes of channels whose root folder lacks the mark of the home, each with its setting."""
    found = {}
    for scheme, (_, setting) in ROOTS.items():
        try:
            shared_root(scheme, home, home_id)
        except FolderElsewhere:
            found[scheme] = setting
    return found


def _mark(root: Path, home: Path, home_id: str) -> Path | None:
    return None if configuration(home).catalog_url is None else root / f"{MARK}{home_id}"
