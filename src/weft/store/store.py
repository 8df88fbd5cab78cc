"""The operations of every store."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from weft.errors import StorageError
from weft.store.s3_access import S3Access

if TYPE_CHECKING:
    import pyarrow.fs

Own = TypeVar("Own", bound="Store")


@contextmanager
def storage_errors(what: str, where: os.PathLike[str], hint: str) -> Iterator[None]:
    """Raise StorageError for an OSError in the block. ``what`` says what cannot be done with the folder ``where``."""
    try:
        yield
    except OSError as error:
        reason = f"{what}: {error.strerror or error}"
        raise StorageError(reason, where=str(error.filename or where), hint=hint) from error


@dataclass(frozen=True, order=True)
class Store(ABC):
    """A folder or a file. ``path`` is its path in the file system of Arrow, without ``.`` and ``..``.

    Operations raise OSError, or FileNotFoundError if there is no such file. The callers convert it to a message.
    """

    path: str
    access: S3Access = field(default=S3Access(), compare=False, repr=False)
    """How object stores are reached: the store itself, and tables on S3 that a home in a folder reads in place."""

    def __truediv__(self: Own, below: str) -> Own:
        """Return the place at a relative path below this one. Raise StorageError if the path leads outside this one."""
        if below.startswith("/") or not {"", ".", ".."}.isdisjoint(below.split("/")):
            raise StorageError(f"{below!r} is not a path below {self}", hint="Restore the home from a backup.")
        return replace(self, path=f"{self.path.rstrip('/')}/{below}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return os.path.basename(self.path)

    @property
    def parent(self: Own) -> Own:
        """The folder that contains this place."""
        return replace(self, path=os.path.dirname(self.path))

    @property
    @abstractmethod
    def uri(self) -> str:
        """The URI for delta-rs."""

    @property
    def remote(self) -> bool:
        """Whether each look at a file costs a request, and files appear whole or not at all."""
        return False

    @property
    def options(self) -> dict[str, str] | None:
        """The storage options for delta-rs, or None."""
        return None

    @property
    @abstractmethod
    def spark(self) -> str:
        """The URI for Spark, not percent-encoded."""

    @property
    @abstractmethod
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The file system for Arrow. ``path`` is the path in it."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the contents of the file."""

    @abstractmethod
    def ends(self, count: int) -> tuple[bytes, bytes]:
        """Return the first and the last ``count`` bytes of the file. Raise OSError for a file with fewer bytes."""

    @abstractmethod
    def size(self) -> int:
        """Return the size of the file in bytes."""

    @abstractmethod
    def modified_ms(self) -> int:
        """Return the time of the last write to the file, in milliseconds since 1970 UTC."""

    @abstractmethod
    def mark(self) -> tuple[int, ...] | None:
        """Return numbers that identify this version of the file, or None if the file does not exist.

        A later file with the same name has other numbers.
        """

    def stat(self) -> tuple[int, int]:
        """Return the size in bytes, and the time of the last write in milliseconds since 1970 UTC."""
        return self.size(), self.modified_ms()

    def read_marked(self) -> tuple[bytes, tuple[int, ...]] | None:
        """Return the contents and the mark of the file, or None if the file does not exist."""
        mark = self.mark()
        return None if mark is None else (self.read(), mark)

    @abstractmethod
    def remove(self) -> None:
        """Remove the file."""

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove those of the named files in the folder that exist."""
        for name in names:
            with suppress(FileNotFoundError):
                (self / name).remove()

    @abstractmethod
    def clear(self) -> None:
        """Remove the folder and its contents. Do nothing if the folder does not exist."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether a file or a folder exists at this place."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names in the folder, in any order. Return an empty list if the folder does not exist."""

    def put(self, raw: bytes) -> None:
        """Write an immutable file atomically, unless the file exists. Create the folder if necessary.

        The file is durable only after ``force`` is also called on the folder.
        """
        self.parent.put_all({self.name: raw})

    @abstractmethod
    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write several files into the folder, as ``put`` does. ``files`` maps names to contents."""

    def failure(self, error: Exception) -> StorageError | None:
        """Return the error to raise if ``error``, of any client, is a fault of the server or the network, else None."""
        return None

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Raise StorageError for a fault of the server or the network in the block. Other errors pass through."""
        try:
            yield
        except OSError as error:
            failed = self.failure(error)
            if failed is None:
                raise
            raise failed from error

    def require(self) -> None:  # noqa: B027
        """Check that files can be written here and read. Raise StorageError with the remedy."""

    def make(self) -> None:  # noqa: B027
        """Create the folder and its parents, if they do not exist."""

    def make_and_force(self) -> None:  # noqa: B027
        """Create the folder, if it does not exist, and force its name to the disk."""

    def follow(self) -> None:  # noqa: B027
        """Give a file in a home the permissions of its folder."""

    def force(self) -> None:  # noqa: B027
        """Force the data of a file, or the names in a folder, to the disk."""

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk, or None if the store has no limit."""
        return None


def arrow(store: Store) -> dict[str, Any]:
    """Return the arguments by which pyarrow opens a file of the store."""
    return {"source": store.path, "filesystem": store.filesystem}
