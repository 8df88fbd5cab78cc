"""Where a home's data lies, by URI: tables, ledger, quarantine; the one module that touches their files (design, 10).

Today a place is a local folder or file.  What an object store or HDFS would need of each operation is told in
docs/architecture.md, "Locations".  Operations raise OSError (FileNotFoundError where nothing is there); the callers say
what that means.
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
_LOST_SLASH: Final = re.compile(r"^([^:/]+:/)(?!/)")  # a Path makes one slash of two
_MISREAD: Final = re.compile(r"[\[\]{}*?\\\x00-\x1f]|%[0-9A-Fa-f]{2}")
"""Spark takes the brackets, * and ? in a path for a pattern; delta-rs decodes %20 and turns a backslash around."""

_POLL_SECONDS: Final = 0.1
_FILES_AT_ONCE: Final = 1_000
"""So many files, at most, a writer leaves half done where it dies."""
_FORCED_AT_ONCE: Final = 16
_DRAFT: Final = re.compile(r"\..+\.\d+\.\d+")
"""A file that has no name yet: the name, the process and the thread that write it."""


@dataclass(frozen=True, order=True)
class Location:
    """A folder or file of a home's data; ``path`` is absolute, local, without ``.`` and ``..``.

    >>> Location.of("file:///srv/home") / "tables/1-msgs"
    Location(path='/srv/home/tables/1-msgs')
    """

    path: str
    follows: bool = field(default=False, compare=False, repr=False)
    """Whether it is a home's: what is made there gets the permissions of the folder that it is in (``access.py``)."""

    @classmethod
    def of(cls, given: str | os.PathLike[str]) -> Location:
        """The place of a ``file:///`` URI or a local path.

        Raises Refused for any other scheme or host, and for a path that Spark or delta-rs would take for another.
        """
        text = os.fspath(given)
        if not _SCHEME.match(text):
            return cls(_plain(_absolute(text)))
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            named = _LOST_SLASH.sub(r"\1/", text)
            raise Refused(
                f"{named} is no place for a home's data: Weft keeps it in a local folder only",
                hint="Give a local path or a file:/// URI. Object stores and HDFS are not supported yet: the page on "
                "Weft's architecture says what is missing.",
            )
        return cls(_plain(_absolute(unquote(parts.path))))

    def __truediv__(self, below: str) -> Location:
        """The place ``below`` this one, a relative path of plain names.  Raises StorageError for one that leads out."""
        if below.startswith("/") or not {"", ".", ".."}.isdisjoint(below.split("/")):
            raise StorageError(f"{below!r} is no place below {self}", hint="A copy of the home may be whole; use that.")
        return Location(f"{self.path.rstrip('/')}/{below}", self.follows)

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """The last part."""
        return os.path.basename(self.path)

    @property
    def parent(self) -> Location:
        """The folder that this is in."""
        return Location(os.path.dirname(self.path), self.follows)

    @property
    def uri(self) -> str:
        """As delta-rs and Arrow take it: ``file:///``, what is no plain character in percent form."""
        return Path(self.path).as_uri()

    @property
    def spark(self) -> str:
        """As Spark takes it: with the scheme, since a cluster's default may be another, and not in percent form."""
        return f"file://{self.path}"

    def read(self) -> bytes:
        """A file's bytes."""
        return Path(self.path).read_bytes()

    def ends(self, count: int) -> tuple[bytes, bytes]:
        """The first and the last ``count`` bytes of a file; raises OSError for one that is shorter."""
        with open(self.path, "rb") as stream:
            head = stream.read(count)
            stream.seek(-count, os.SEEK_END)
            return head, stream.read(count)

    def size(self) -> int:
        """A file's bytes, counted."""
        return os.stat(self.path).st_size

    def modified_ms(self) -> int:
        """When a file was last written, in milliseconds since 1970 UTC."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def mark(self) -> tuple[int, ...] | None:
        """What tells a file from another one under the same name; None where there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def remove(self) -> None:
        """Takes a file away."""
        os.remove(self.path)

    def clear(self) -> None:
        """Takes a folder away with all that is in it; nothing is done where there is none."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def move(self, to: Location) -> None:
        """Gives a file another name, on the same disk."""
        os.rename(self.path, to.path)
        to.follow()

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return os.path.exists(self.path)

    def names(self) -> list[str]:
        """What a folder has, by name, in no order; nothing where there is no folder."""
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def put(self, raw: bytes) -> None:
        """Writes a file that nothing changes afterwards, whole or not at all; nothing is done where it is there.

        Its folder is made where there is none.  It is on the disk once ``force`` was called for the folder, too.
        """
        self.parent.put_all({self.name: raw})

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Writes files of a folder by name, as ``put`` writes one.

        Files are forced together, after all of them are written: the file system then forces many at once.  Drafts of
        writers that died are removed first.
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
        """Removes the drafts of ``put_all`` that died, unless somebody holds the folder (``shared``)."""
        drafts = [name for name in self.names() if _DRAFT.fullmatch(name)]
        if not drafts:
            return
        with self.alone(0) as alone:
            if alone:
                for name in drafts:
                    with suppress(FileNotFoundError):
                        (self / name).remove()

    def make(self) -> None:
        """Makes a folder, and those above it, where there is none."""
        if self.follows:
            make_folder(self.path)
        else:
            os.makedirs(self.path, exist_ok=True)

    def make_and_force(self) -> None:
        """Makes a folder where there is none, and forces its name to the disk."""
        if not self.exists():
            self.make()
            self.parent.force()

    def follow(self) -> None:
        """Gives a file of a home the permissions of its folder; nothing is done for others, and where there is none."""
        if self.follows:
            with suppress(FileNotFoundError):
                follow_folder(self.path)

    def force(self) -> None:
        """Sees to it that a power cut does not take the file, or the names in the folder."""
        with self._opened() as descriptor:
            os.fsync(descriptor)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Holds a folder's files for the block: meanwhile nobody is ``alone`` there.  Waits for who is."""
        with self._opened() as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    @contextmanager
    def alone(self, patience_seconds: float) -> Iterator[bool]:
        """Whether nobody else holds the folder; for the block nobody begins to, then.

        Those who do are waited for, ``patience_seconds`` at most.
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
        """A descriptor of the file or folder; closing it lets a lock go."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def free_bytes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """How many bytes this process may still fill of the disk on which a path is, or is to be; and how many it has."""
    place = _absolute(os.fspath(path))
    while not os.path.exists(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


LEAST_FREE: Final = 256 << 20
"""A home whose disk has fewer free bytes than this is not well: loads and ticks need them."""

FULL: Final = 1 << 20
"""A disk with fewer free bytes than this has no room for a catalog's transaction."""


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _absolute(path: str) -> str:
    """Without ``..``: what it leads to where it comes after a symbolic link, only the file system knows."""
    return os.path.realpath(path) if ".." in path.split("/") else os.path.abspath(path)


def _plain(path: str) -> str:
    require_text(path, "the path of a home's data")
    misread = _MISREAD.search(path)
    if misread:
        raise Refused(
            f"{path!r} is no place for a home's data: Spark or delta-rs would misread its {misread[0]!r}",
            hint="Choose a path without brackets, *, ?, backslashes and percent codes.",
        )
    return path
