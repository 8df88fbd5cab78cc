"""Delete a home: its data, its catalog, and what Weft has made in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from weft.catalog import Writer, layout
from weft.catalog.channel_folders import unmark_roots
from weft.errors import CatalogError, Conflict, LeaseLost, StorageError
from weft.execution.home import OpenHome, renewing_lease
from weft.printable import Brief
from weft.schedule.runner import ticking_alone
from weft.store import local_store


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
    folder, address, home_id = home.folder, home.catalog.address, home.catalog.home().home_id
    try:
        with ticking_alone(folder) as other:
            if other is not None:
                raise Conflict(
                    f"the process {other} ticks the home {folder}", hint="Stop `weft run` or `weft serve` first."
                )
            with _only_writer(home) as writer:
                for name in layout.DATA:
                    (address.data / name).clear()
                writer.drop_catalog()
            address.unmark()
        unmark_roots(folder, home_id)
        home.close()
        kept = tuple(_clear_folder(folder))
    except OSError as error:
        raise StorageError(
            f"the home cannot be deleted: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="Remove the cause, and run the command again or delete the rest of the folder.",
        ) from error
    return Destroyed(folder, str(address), str(address.data), kept)


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
    """Delete what Weft has made in the folder, and the folder if it is empty then. Yield what stays."""
    for name in layout.OF_FOLDER:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            local_store(path).clear()
        else:
            path.unlink(missing_ok=True)
    for path in (layout.files_folder(folder), layout.delta_folder(folder), folder):
        with suppress(OSError):  # it is missing, or not empty
            path.rmdir()
    if folder.exists():
        yield from sorted(folder.iterdir())
