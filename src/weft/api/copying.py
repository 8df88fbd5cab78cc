"""Copy a home to another folder, store and catalog, and verify the copy.

Most files of a home never change. They are copied first, while the home works. Then the copy holds both leases of the
home: it copies what has changed since, and last the catalog, in one transaction. Only with this transaction does the
target become a home. Until then each of its places contains the file ``copying.json``, by which the next attempt
recognizes its own unfinished copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.catalog import Writer, layout, open_catalog
from weft.catalog.address import CatalogAddress, require_url
from weft.catalog.channel_folders import MARK, mark_roots
from weft.catalog.copying import require_free
from weft.catalog.home_record import make_folders
from weft.configuration import FILE
from weft.configuration.toml_file import copy_toml
from weft.errors import Conflict, StorageError, WeftError
from weft.execution.home import LEASE_WAIT_US, OpenHome, renewing_lease
from weft.failpoint import failpoint
from weft.printable import Brief, counted
from weft.storage.delta_log import DataFile
from weft.storage.table import Table
from weft.storage.verify import require_undamaged, verify
from weft.store import Store, local_store, storage_errors
from weft.store.transfer import transfer, walk

_AT_ONCE: Final = 8
_CONTINUES: Final = "Remove the cause and run the command again: it continues after the last copied file."
_LOG: Final = "_delta_log/"
_DELTA_TABLES: Final = (layout.TABLES, layout.LEDGER, layout.SYNOPSES)


@dataclass(frozen=True, repr=False)
class Copied(Brief):
    """What a copy of a home contains.  Every file and every row of the catalog was read back and compared.

    ``rows`` counts the rows of tables and views, ``answers`` those of the ledger.  ``resumed`` is True if an earlier
    attempt had begun the copy.
    """

    home: Path
    tables: int
    rows: int
    answers: int
    quarantined: int
    files: int
    bytes: int
    resumed: bool

    def _brief(self) -> str:
        return f"{self.home}: {counted(self.tables, 'table')}, {counted(self.rows, 'row')}, {self.bytes:,} bytes"


def copy_home(home: OpenHome, to: Path, *, store: str | None = None, catalog: str | None = None) -> Copied:
    """Copy a home to the folder ``to``: see ``Weft.copy``."""
    from weft.delivery.outbox import settle

    with storage_errors("the home cannot be copied", to, _CONTINUES), _claimed(home, to, store, catalog) as claim:
        transfers = _Transfers(home, to, claim.data)
        transfers.immutable(settled=False)
        with _paused(home) as (writer, sender):
            settle(sender, home.folder, home.clock())
            require_undamaged(writer)
            transfers.immutable(settled=True)
            transfers.changeable()
            with writer.copying_to(claim.address) as counts:
                writer.check()
                failpoint("copy.catalog")
            transfers.quarantine()  # of records, too, that a load has indexed meanwhile, without the lease
            transfers.remove_others()
            writer.check()
            failpoint("copy.recorded")
            versions = {stored.path: stored.rows for stored in writer.tables.versions()}
            rows = sum(table.rows for table in writer.tables.all())
        _verify(to, home.clock())
        failpoint("copy.verified")
        claim.release()
    answers, sizes = versions.get(layout.LEDGER, 0), transfers.done.values()
    return Copied(
        to, counts["tables"], rows, answers, counts["quarantine"], len(sizes), sum(sizes), resumed=claim.resumed
    )


@contextmanager
def _paused(home: OpenHome) -> Iterator[tuple[Writer, Writer]]:
    """Hold both leases of the home, so that nothing is written or delivered."""
    delivering = home.catalog.delivering(home.clock, wait_us=LEASE_WAIT_US)
    with delivering as sender, renewing_lease(sender, home.clock), home.writing("copy") as writer:
        yield writer, sender


def _verify(to: Path, at: int) -> None:
    with open_catalog(to, at=at, copying=True) as catalog:
        findings = verify(catalog)
    if findings:
        raise StorageError("the copy is damaged:\n" + "\n".join(str(each) for each in findings), where=str(to))


class _Transfers:
    """The files of a home and their copies.  ``done`` has the size in bytes of each verified copy, by its place."""

    def __init__(self, home: OpenHome, to: Path, data: Store) -> None:
        self._source, self._target = home.catalog.data, data
        self._channels = {
            local_store(folder(home.folder)): local_store(folder(to))
            for folder in (layout.files_folder, layout.delta_folder)
        }
        self.done: dict[Store, int] = {}
        self._listed: set[Store] = set()

    def immutable(self, *, settled: bool) -> None:
        """Copy the data files that tables list, and the quarantine.

        Unless nothing is written (``settled``), files that have vanished meanwhile are left out.
        """
        self._listed.clear()
        for path in self._tables():
            table = self._source / path
            names = [each.path[len(table.path) + 1 :] for file in Table(table).files() for each in _own(file)]
            self._copy(table, self._target / path, names, may_vanish=not settled)
        self.quarantine()

    def quarantine(self) -> None:
        """Copy the bytes of rejected records."""
        here = layout.QUARANTINE
        names = [each for each in (self._source / here).names() if not each.startswith(".")]
        self._copy(self._source / here, self._target / here, names, may_vanish=True)

    def changeable(self) -> None:
        """Copy the logs of the tables, and the output of channels in the home."""
        for path in self._tables():
            log = f"{path}/{_LOG.rstrip('/')}"
            self._copy(self._source / log, self._target / log, walk(self._source / log))
        for source, target in self._channels.items():
            self._copy(source, target, [each for each in walk(source) if not each.startswith(MARK)])

    def remove_others(self) -> None:
        """Remove files that the home no longer has, and force all folders to the disk."""
        self.done = {place: size for place, size in self.done.items() if place in self._listed}
        folders = {each.parent for each in self.done}
        for root in (*(self._target / path for path in (*_DELTA_TABLES, layout.QUARANTINE)), *self._channels.values()):
            for name in walk(root):
                if root / name not in self.done and not name.startswith(MARK):
                    (root / name).remove()
        for folder in folders:
            folder.force()

    def _copy(self, source: Store, target: Store, names: Collection[str], *, may_vanish: bool = False) -> None:
        """Copy those files of a folder that are not yet done."""
        self._listed.update(target / name for name in names)

        def copy(name: str) -> None:
            try:
                self.done[target / name] = transfer(source / name, target / name)
            except FileNotFoundError:
                if not may_vanish:
                    raise
            failpoint("copy.file")

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(copy, [each for each in names if target / each not in self.done]))

    def _tables(self) -> list[str]:
        """Return the paths of all Delta tables, also of those that the catalog does not yet know."""
        found = (f"{root}/{name}" for root in _DELTA_TABLES for name in walk(self._source / root) if _LOG in name)
        return sorted({each.partition(f"/{_LOG}")[0] for each in found})


def _own(file: DataFile) -> Sequence[Store]:
    """Return the files of the home for a data file.  The rows of an attached table are in another program's file."""
    if file.attached is None:
        return (file.location,)
    return () if file.attached.instants_file is None else (file.attached.instants_file,)


@dataclass(frozen=True)
class _Claim:
    """The places of the target, which belong to this copy until ``release``."""

    address: CatalogAddress
    data: Store
    notes: tuple[Store, ...]
    resumed: bool

    def release(self) -> None:
        """Remove the notes, the folder's first.  From then on the folder can be opened as a home."""
        for note in self.notes:
            note.remove()
            note.parent.force()


@contextmanager
def _claimed(home: OpenHome, to: Path, store: str | None, catalog: str | None) -> Iterator[_Claim]:
    """Reserve the target for this copy.  Raise Conflict if it has more than an earlier attempt of this copy."""
    if catalog is not None:
        require_url(catalog)
    folder, here = local_store(os.path.realpath(to)), local_store(os.path.realpath(home.folder))
    _refuse_nested(folder, here)
    note = {"home": home.catalog.home().home_id, "to": folder.path, "store": store, "catalog": catalog}
    with here.alone(0) as alone:
        if not alone:
            raise Conflict("another process copies this home", where=str(here), hint="Wait until it has ended.")
        new = not to.exists()
        to.mkdir(0o700, parents=True, exist_ok=True)
        before = set(to.iterdir())
        resumed = _is_own(folder, note)
        try:
            claim = _claim(home, to, note, resumed)
        except (WeftError, OSError):
            if not resumed:
                _undo(to, before, new)
            raise
        yield claim


def _claim(home: OpenHome, to: Path, note: Mapping[str, str | None], resumed: bool) -> _Claim:
    notes: list[Store] = [local_store(to) / layout.COPY]
    _write(notes[0], note)
    copy_toml(home.folder / FILE, to / FILE, {"catalog.url": note["catalog"], "store.url": note["store"]})
    make_folders(to)
    address = CatalogAddress.of(to)
    data, elsewhere = address.data, address.data != notes[0].parent
    if elsewhere:
        _refuse_nested(data, home.catalog.data)
        data.require()
        _is_own(data, note)
    require_free(address, resumed_from=note["home"] if resumed else None)
    if address.url is not None:
        mark_roots(to, str(note["home"]))
    if elsewhere:  # last, because nothing removes this after a refusal
        notes.append(data / layout.COPY)
        _write(notes[1], note)
        address.mark(str(note["home"]))
    failpoint("copy.begun")
    return _Claim(address, data, tuple(notes), resumed)


def _write(place: Store, note: Mapping[str, str | None]) -> None:
    place.put(json.dumps(note).encode())
    place.parent.force()


def _is_own(place: Store, note: Mapping[str, str | None]) -> bool:
    """Return whether an earlier attempt has begun to write to the place.  Raise Conflict if the place is not empty."""
    if not place.names():
        return False
    try:
        there = json.loads((place / layout.COPY).read())
    except FileNotFoundError:
        raise Conflict(f"{place} is not empty", hint="Choose a new or empty place for the copy.") from None
    except ValueError:
        there = None
    if there == note:
        return True
    raise Conflict(
        f"{place} has the unfinished copy of another home, or of this home with other options",
        hint="Finish that copy with the same command, choose another place, or delete this one.",
    )


def _refuse_nested(one: Store, other: Store) -> None:
    paths = sorted((f"{one.path}/", f"{other.path}/"), key=len)
    if type(one) is type(other) and paths[1].startswith(paths[0]):
        raise Conflict(f"{one} and {other} contain each other", hint="Choose a place outside the home for its copy.")


def _undo(to: Path, before: set[Path], new: bool) -> None:
    for each in set(to.iterdir()) - before:
        local_store(each).clear() if each.is_dir() else each.unlink()
    if new:
        to.rmdir()
