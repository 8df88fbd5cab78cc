"""The folders below which channels write files and Delta tables.

Several machines can work on a home whose catalog is on a server.  Each of them delivers, so all need the same folders.
The first machine marks the folders.  A folder without the mark is another one, for example because it is not mounted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.catalog import layout
from weft.configuration import configuration
from weft.configuration.postgres_uri import schema_of
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
        mark = root(home) / f"{MARK}{home_id}"
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
    """Remove the marks in the folder of a home that is deleted.  Raise OSError.

    A mark elsewhere stays, because a copy of the home has the same ID, and may deliver into the same folders.
    """
    for root, _ in ROOTS.values():
        if root(home).resolve().is_relative_to(home.resolve()):
            (root(home) / f"{MARK}{home_id}").unlink(missing_ok=True)


def shared_root(scheme: str, home: Path, home_id: str | None) -> Path:
    """Return the root folder for channels of a scheme (file or delta).

    Raise FolderElsewhere if it lacks the mark of the home with this ID.  None stands for any home.
    """
    find, setting = ROOTS[scheme]
    root = find(home)
    url = configuration(home).catalog_url
    if home_id is None or url is None:
        return root
    mark = root / f"{MARK}{home_id}"
    if mark.exists() or _taken_over(root / f"{MARK}{schema_of(url)}", mark):
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


def _taken_over(older: Path, mark: Path) -> bool:
    """Rename the mark of an older version, which had the name of the schema.  Return whether the mark exists then."""
    with suppress(OSError):
        older.rename(mark)
    return mark.exists()
