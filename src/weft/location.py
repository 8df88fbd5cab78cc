"""Access a home's data (tables, ledger, quarantine) by URI; only this module touches its files (design, 10).

Today a location is a local folder or file.  docs/architecture.md, "Locations", lists what an object store or HDFS would
need for each operation.  Operations raise OSError (FileNotFoundError if nothing exists there), which the callers
explain.
"""

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
from typing import Final
from urllib.parse import unquote, urlsplit

from weft.access import follow_folder, make_folder
from weft.errors import Refused, StorageError
from weft.failpoint import failpoint
from weft.printable import require_text

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://?")
_LOST_SLASH: Final = re.compile(r"^([^:/]+:/)(?!/)")  # Path collapses two slashes into one
_MISREAD: Final = re.compile(r"[\[\]{}*?\\\x00-\x1f]|%[0-9A-Fa-f]{2}")
"""Spark takes brackets, * and ? in a path for a pattern; delta-rs decodes %20 and turns backslashes into slashes."""

_POLL_SECONDS: Final = 0.1
_FILES_AT_ONCE: Final = 1_000
"""The number of draft files that a writer leaves at most if it dies."""
_FORCED_AT_ONCE: Final = 16
_DRAFT: Final = re.compile(r"\..+\.\d+\.\d+")
"""The name of a draft: the final name, the process and the thread that write it."""


@dataclass(frozen=True, order=True)
class Location:
    """A folder or file of a home's data; ``path`` is absolute and local, without ``.`` and ``..``.

    >>> Location.of("file:///srv/home") / "tables/1-msgs"
    Location(path='/srv/home/tables/1-msgs')
    """

    path: str
    follows: bool = field(default=False, compare=False, repr=False)
    """Whether it belongs to a home, so that new files and folders get the permissions of their folder
    (``access.py``).
    """

    @classmethod
    def of(cls, place: str | os.PathLike[str]) -> Location:
        """Return the location of a ``file:///`` URI or a local path.

        Raises Refused for another scheme or host, and for a path that Spark or delta-rs would misread.
        """
        text = os.fspath(place)
        if not _SCHEME.match(text):
            return cls(_plain(_absolute(text)))
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            named = _LOST_SLASH.sub(r"\1/", text)
            raise Refused(
                f"{named} cannot hold a home's data: Weft needs a local folder",
                hint="Give a local path or a file:/// URI. Object stores and HDFS are not supported yet: the "
                "architecture page lists what is missing.",
            )
        return cls(_plain(_absolute(unquote(parts.path))))

    def __truediv__(self, below: str) -> Location:
        """Return the location of a relative path below this one; raise StorageError for a path that leads out of it."""
        if below.startswith("/") or not {"", ".", ".."}.isdisjoint(below.split("/")):
            raise StorageError(f"{below!r} is not a path below {self}", hint="Restore the home from a backup.")
        return Location(f"{self.path.rstrip('/')}/{below}", self.follows)

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return os.path.basename(self.path)

    @property
    def parent(self) -> Location:
        """The folder that contains it."""
        return Location(os.path.dirname(self.path), self.follows)

    @property
    def uri(self) -> str:
        """The percent-encoded ``file:///`` URI for delta-rs and Arrow."""
        return Path(self.path).as_uri()

    @property
    def spark(self) -> str:
        """The path for Spark: with the scheme, since a cluster may have another default, and not percent-encoded."""
        return f"file://{self.path}"

    def read(self) -> bytes:
        """Return a file's bytes."""
        return Path(self.path).read_bytes()

    def ends(self, count: int) -> tuple[bytes, bytes]:
        """Return the first and the last ``count`` bytes of a file; raise OSError if it is shorter."""
        with open(self.path, "rb") as stream:
            head = stream.read(count)
            stream.seek(-count, os.SEEK_END)
            return head, stream.read(count)

    def size(self) -> int:
        """Return a file's size in bytes."""
        return os.stat(self.path).st_size

    def modified_ms(self) -> int:
        """Return when a file was last written, in milliseconds since 1970 UTC."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def mark(self) -> tuple[int, ...] | None:
        """Return what distinguishes a file from a later one of the same name; None if there is no file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def remove(self) -> None:
        """Remove a file."""
        os.remove(self.path)

    def clear(self) -> None:
        """Remove a folder and its contents, if it exists."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def move(self, to: Location) -> None:
        """Rename a file on the same disk."""
        os.rename(self.path, to.path)
        to.follow()

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return os.path.exists(self.path)

    def names(self) -> list[str]:
        """Return the names in a folder, unordered; empty if there is no folder."""
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def put(self, raw: bytes) -> None:
        """Write an immutable file atomically, unless it exists; create its folder if necessary.

        The file is durable after ``force`` on the folder as well.
        """
        self.parent.put_all({self.name: raw})

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write files of a folder by name; else as ``put``.

        The files are forced together after all of them are written, since the file system then forces many at once.
        Drafts of dead writers are removed first.
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
                list(threads.map(Location.force, partial.values()))
            failpoint("location.drafted")
            for name, draft in partial.items():
                os.replace(draft.path, (self / name).path)

    def remove_drafts(self) -> None:
        """Remove the drafts of ``put_all`` calls that died, unless somebody holds the folder (``shared``)."""
        drafts = [name for name in self.names() if _DRAFT.fullmatch(name)]
        if not drafts:
            return
        with self.alone(0) as alone:
            if alone:
                for name in drafts:
                    with suppress(FileNotFoundError):
                        (self / name).remove()

    def make(self) -> None:
        """Create a folder and its parents, if they do not exist."""
        if self.follows:
            make_folder(self.path)
        else:
            os.makedirs(self.path, exist_ok=True)

    def make_and_force(self) -> None:
        """Create a folder, if it does not exist, and force its name to the disk."""
        if not self.exists():
            self.make()
            self.parent.force()

    def follow(self) -> None:
        """Give a home's file the permissions of its folder; do nothing for other files or if it does not exist."""
        if self.follows:
            with suppress(FileNotFoundError):
                follow_folder(self.path)

    def force(self) -> None:
        """Force a file's data, or a folder's names, to the disk."""
        with self._opened() as descriptor:
            os.fsync(descriptor)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold a shared lock on the folder within the block, which excludes ``alone``."""
        with self._opened() as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    @contextmanager
    def alone(self, patience_seconds: float) -> Iterator[bool]:
        """Try to lock the folder exclusively for the block, waiting ``patience_seconds`` at most; yield whether it
        succeeded.
        """
        until = time.monotonic() + patience_seconds
        while True:
            with self._opened() as descriptor:
                got = _taken(descriptor)
                if got or time.monotonic() > until:
                    yield got
                    return
            time.sleep(_POLL_SECONDS)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open a descriptor of the file or folder; closing it releases its lock."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def free_bytes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the free and the total bytes of the disk with this path, which need not exist yet."""
    place = _absolute(os.fspath(path))
    while not os.path.exists(place):
        place = os.path.dirname(place)
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


LEAST_FREE: Final = 256 << 20
"""The free bytes below which a home's disk is too full: loads and ticks need them."""

FULL: Final = 1 << 20
"""The free bytes below which a disk has no room for a catalog transaction."""


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _absolute(path: str) -> str:
    """Return the absolute path; only the file system can resolve ``..`` after a symbolic link."""
    return os.path.realpath(path) if ".." in path.split("/") else os.path.abspath(path)


def _plain(path: str) -> str:
    require_text(path, "the path of a home's data")
    misread = _MISREAD.search(path)
    if misread:
        raise Refused(
            f"{path!r} cannot be the path of a home's data: Spark or delta-rs would misread its {misread[0]!r}",
            hint="Choose a path without brackets, *, ?, backslashes and percent codes.",
        )
    return path
