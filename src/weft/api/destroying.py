"""Delete a home: its catalog, its data, and the files that Weft has made in its folder.

The home exists until its catalog is dropped, in one transaction under both leases. From then on the file
``destroying.json`` in its folder lists the objects that remain to be deleted, and the same command continues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from weft.catalog import Writer, layout
from weft.catalog.address import CatalogAddress
from weft.catalog.channel_folders import unmark_roots
from weft.catalog.home_record import has_catalog
from weft.configuration import FILE
from weft.errors import CatalogError, Conflict, LeaseLost
from weft.execution.home import OpenHome, renewing_lease
from weft.failpoint import failpoint
from weft.printable import Brief
from weft.schedule.runner import ticking_alone
from weft.store import local_store, storage_errors

_FAILED: Final = "the home cannot be deleted"
_CONTINUES: Final = "Remove the cause, and run `weft destroy` again: it continues."


class _Note(TypedDict):
    """The ID of a home that is deleted, the URL of its catalog unless it is a file, and the URL of its data on S3."""

    home: str
    catalog: str | None
    store: str | None


@dataclass(frozen=True, repr=False)
class Destroyed(Brief):
    """A home that was deleted: its folder, its catalog (a file or a URL) and the place of its data.

    ``kept`` are the files and folders in its folder that stay: the output of channels, and what Weft has not made.
    """

    home: Path
    catalog: str
    store: str
    kept: tuple[Path, ...]

    def _brief(self) -> str:
        return f"destroyed: {self.home}"


def destroy_home(home: OpenHome) -> Destroyed:
    """Delete a home and close it: see ``Weft.destroy``."""
    address, home_id = home.catalog.address, home.catalog.home().home_id
    with storage_errors(_FAILED, home.folder, _CONTINUES):
        with _ticking_alone(home.folder):
            with _only_writer(home) as writer:
                note = _noted(address, home_id)
                failpoint("destroy.noted")
                writer.drop_catalog()
            failpoint("destroy.dropped")
            home.close()
            _clear_data(address)
        return _without_folder(address, note)


def continued_destruction(folder: Path) -> Destroyed | None:
    """Delete the rest of a home whose deletion was interrupted. Return None if the folder has no such rest.

    Raise Conflict if the settings name other places than at the beginning. Raise StorageError or CatalogError.
    """
    folder = Path(local_store(folder).path)
    if not layout.is_begun_destruction(folder):
        return None
    address = CatalogAddress.of(folder)
    if has_catalog(address):
        return None
    with storage_errors(_FAILED, folder, _CONTINUES):
        note: _Note = json.loads((folder / layout.DESTRUCTION).read_bytes())
        if (folder / FILE).exists() and note != _note(address, note["home"]):
            raise Conflict(
                "the deletion of the home began with other places: "
                f"the catalog {note['catalog'] or 'in the folder'}, the data {note['store'] or 'in the folder'}",
                where=str(folder / FILE),
                hint="Correct catalog.url and store.url in weft.toml, and run the command again.",
            )
        with _ticking_alone(folder):
            _clear_data(address)
        return _without_folder(address, note)


@contextmanager
def _ticking_alone(folder: Path) -> Iterator[None]:
    with ticking_alone(folder) as other:
        if other is not None:
            raise Conflict(
                f"the process {other} ticks the home {folder}", hint="Stop `weft run` or `weft serve` first."
            )
        yield


def _note(address: CatalogAddress, home_id: str) -> _Note:
    return {"home": home_id, "catalog": address.url, "store": address.data.uri if address.on_s3 else None}


def _noted(address: CatalogAddress, home_id: str) -> _Note:
    """Record the deletion in the folder. Raise Conflict if the deletion of another home has begun there."""
    folder = local_store(address.home)
    place, note = folder / layout.DESTRUCTION, _note(address, home_id)
    place.put(json.dumps(note).encode())
    folder.force()
    begun = json.loads(place.read())
    if begun["home"] != home_id:
        raise Conflict(
            f"the deletion of another home has begun in this folder, and {address} is now the catalog of a new home",
            where=str(place),
            hint="Remove this file to delete the new home.",
        )
    return note


def _clear_data(address: CatalogAddress) -> None:
    for name in layout.DATA:
        (address.data / name).clear()
        failpoint("destroy.cleared")
    address.unmark()
    failpoint("destroy.unmarked")


def _without_folder(address: CatalogAddress, note: _Note) -> Destroyed:
    """Delete the rest of the home, which is in its folder."""
    unmark_roots(address.home, note["home"])
    kept = tuple(_clear_folder(address.home))
    return Destroyed(address.home, note["catalog"] or str(address), note["store"] or str(address.data), kept)


@contextmanager
def _only_writer(home: OpenHome) -> Iterator[Writer]:
    """Hold both leases of the home. Raise LeaseBusy at once if a process writes or delivers."""
    dropped = False
    try:
        with (
            home.catalog.delivering(home.clock) as sender,
            home.catalog.writing("destroy", home.clock) as writer,
            renewing_lease(sender, home.clock),
            renewing_lease(writer, home.clock),
        ):
            yield writer
            dropped = True
    except (CatalogError, LeaseLost):
        if not dropped:  # the leases cannot be released in a catalog that is gone
            raise


def _clear_folder(folder: Path) -> Iterator[Path]:
    """Delete the files that Weft has made in the folder, then the folder if it is empty. Yield what stays."""
    for name in layout.OF_FOLDER:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            local_store(path).clear()
        else:
            path.unlink(missing_ok=True)
        failpoint("destroy.removed")
    for path in (layout.files_folder(folder), layout.delta_folder(folder), folder):
        with suppress(OSError):  # it is missing, or not empty
            path.rmdir()
    if folder.exists():
        yield from sorted(folder.iterdir())
