"""A local folder or file."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.access import follow_folder, make_folder
from weft.failpoint import failpoint
from weft.store.store import Store

if TYPE_CHECKING:
    import pyarrow.fs

_POLL_SECONDS: Final = 0.1
_FILES_AT_ONCE: Final = 1_000
"""The maximum number of draft files that a dead writer leaves."""
_FORCED_AT_ONCE: Final = 16
_DRAFT: Final = re.compile(r"\..+\.\d+\.\d+")
"""The name of a draft file: the final name and the numbers of the writing process and thread."""


@dataclass(frozen=True, order=True)
class LocalStore(Store):
    """A local folder or file. ``path`` is an absolute path.

    >>> LocalStore("/srv/home") / "tables/1-msgs"
    LocalStore(path='/srv/home/tables/1-msgs')
    """

    follows: bool = field(default=False, compare=False, repr=False)
    """True if the place belongs to a home. In a home, new files and folders get the permissions of their folder
    (``access.py``).
    """

    def __str__(self) -> str:
        return self.path

    @property
    def uri(self) -> str:
        """The percent-encoded ``file:///`` URI."""
        return Path(self.path).as_uri()

    @property
    def spark(self) -> str:
        """The path for Spark, not percent-encoded. A scheme is necessary, because a cluster's default may differ."""
        return f"file://{self.path}"

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The local file system."""
        import pyarrow.fs

        return pyarrow.fs.LocalFileSystem()

    def read(self) -> bytes:
        """Return the contents of the file."""
        return Path(self.path).read_bytes()

    def ends(self, count: int) -> tuple[bytes, bytes]:
        """Return the first and the last ``count`` bytes of the file. Raise OSError for a file with fewer bytes."""
        with open(self.path, "rb") as stream:
            head = stream.read(count)
            stream.seek(-count, os.SEEK_END)
            return head, stream.read(count)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.stat(self.path).st_size

    def modified_ms(self) -> int:
        """Return the time of the last write to the file, in milliseconds since 1970 UTC."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def mark(self) -> tuple[int, ...] | None:
        """Return numbers that identify this version of the file, or None if the file does not exist.

        A later file with the same name has other numbers.
        """
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def remove(self) -> None:
        """Remove the file."""
        os.remove(self.path)

    def clear(self) -> None:
        """Remove the folder and its contents, or a link to a folder. Do nothing if there is neither."""
        with suppress(FileNotFoundError):
            if os.path.islink(self.path):
                os.remove(self.path)
            else:
                shutil.rmtree(self.path)

    def exists(self) -> bool:
        """Return whether a file or a folder exists at this place."""
        return os.path.exists(self.path)

    def names(self) -> list[str]:
        """Return the names in the folder, in any order. Return an empty list if the folder does not exist."""
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write several files into the folder, as ``put`` does. ``files`` maps names to contents.

        Many files are written before the first is forced to disk, because the file system then forces all of them
        together. The drafts of dead writers are removed first.
        """
        self.make_and_force()
        self.remove_drafts()
        with self.shared():
            self._put_all(files)

    def _put_all(self, files: Mapping[str, bytes]) -> None:
        wanted = [name for name in files if not (self / name).exists()]
        for at in range(0, len(wanted), _FILES_AT_ONCE):
            own = f"{os.getpid()}.{threading.get_ident()}"
            partial = {name: self / f".{name}.{own}" for name in wanted[at : at + _FILES_AT_ONCE]}
            for name, draft in partial.items():
                with open(draft.path, "wb") as stream:
                    stream.write(files[name])
                draft.follow()
            with ThreadPoolExecutor(_FORCED_AT_ONCE) as threads:
                list(threads.map(LocalStore.force, partial.values()))
            failpoint("store.drafted")
            for name, draft in partial.items():
                os.replace(draft.path, (self / name).path)

    def remove_drafts(self) -> None:
        """Remove the drafts of dead ``put_all`` calls, unless a process holds a lock on the folder (``shared``)."""
        drafts = [name for name in self.names() if _DRAFT.fullmatch(name)]
        if not drafts:
            return
        with self.alone(0) as alone:
            if alone:
                for name in drafts:
                    with suppress(FileNotFoundError):
                        (self / name).remove()

    def make(self) -> None:
        """Create the folder and its parents, if they do not exist."""
        if self.follows:
            make_folder(self.path)
        else:
            os.makedirs(self.path, exist_ok=True)

    def make_and_force(self) -> None:
        """Create the folder, if it does not exist, and force its name to the disk."""
        if not self.exists():
            self.make()
            self.parent.force()

    def follow(self) -> None:
        """Give a file in a home the permissions of its folder. Ignore a missing file or a file outside a home."""
        if self.follows:
            with suppress(FileNotFoundError):
                follow_folder(self.path)

    def force(self) -> None:
        """Force the data of a file, or the names in a folder, to the disk."""
        with self._opened() as descriptor:
            os.fsync(descriptor)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold a shared lock on the folder during the ``with`` block, so that ``alone`` cannot lock the folder."""
        with self._opened() as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    @contextmanager
    def alone(self, patience_seconds: float) -> Iterator[bool]:
        """Try to lock the folder exclusively for the ``with`` block. Yield True if the lock was acquired.

        Wait at most ``patience_seconds`` for the lock.
        """
        until = time.monotonic() + patience_seconds
        while True:
            with self._opened() as descriptor:
                got = _taken(descriptor)
                if got or time.monotonic() > until:
                    yield got
                    return
            time.sleep(_POLL_SECONDS)

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk."""
        return free_bytes(self.path)[0]

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def free_bytes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the free and the total bytes of the disk that contains ``path``. The path need not exist."""
    place = os.path.abspath(path)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


LEAST_FREE: Final = 256 << 20
"""Loads and ticks need at least this number of free bytes on the home's disk."""

FULL: Final = 1 << 20
"""A catalog transaction needs at least this number of free bytes on the disk."""


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
