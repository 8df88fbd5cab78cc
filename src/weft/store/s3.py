"""A prefix of an S3 bucket, or of another object store with the same interface."""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from weft.errors import StorageError, StoreUnreachable
from weft.store.s3_access import S3Access
from weft.store.store import Store

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.fs

_AT_ONCE: Final = 16
_CONNECT_SECONDS: Final = 5.0
_REQUEST_SECONDS: Final = 60.0
_FOUND_SECONDS: Final = 60.0
_NOISE: Final = re.compile(r" \(Request ID: [^)]*\)| No response body\.")


_REFUSED: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID")
_UNREACHED: Final = ("NETWORK_CONNECTION", "REQUEST_TIMEOUT", "curlCode", "status 50")
_FAILED: Final = ("AWS Error", "Generic S3 error")
"""The words with which Arrow and delta-rs begin an error of the server or the network."""
_KEYS_HINT: Final = (
    "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in AWS_PROFILE. The keys need the rights to "
    "list, read, write and delete objects."
)


_found_at: Final[dict[tuple[S3Access, str], float]] = {}
"""When this process last saw that a bucket exists (the monotonic clock, seconds)."""


@contextmanager
def _explained(store: S3Store) -> Iterator[None]:
    """Raise StorageError with the remedy for an error of the server or the network. Other errors pass through.

    A server also says that an object does not exist if its bucket is gone, which is an error.
    """
    try:
        yield
    except FileNotFoundError:
        store.require_bucket()
        raise
    except OSError as error:
        if error.errno is not None:  # such as that of a missing file
            raise
        if "GetObject" in str(error) and _is_gone(store):  # it was removed after Arrow had asked for its size
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(store)) from error
        raise _explanation(store, str(error)) from error


def _is_gone(store: S3Store) -> bool:
    with suppress(OSError):
        return not store.filesystem.get_file_info(store.path).is_file
    return False


def _explanation(store: S3Store, text: str) -> StorageError:
    server = store.access.endpoint or f"AWS ({store.access.region})"
    if "NO_SUCH_BUCKET" in text:
        return _absent_bucket(store)
    if any(each in text for each in _REFUSED):
        return StorageError(f"the object store refuses the access: {server}", where=str(store), hint=_KEYS_HINT)
    if any(each in text for each in _UNREACHED):
        return StoreUnreachable(
            f"the object store cannot be reached: {server}",
            where=str(store),
            hint="Check the network, and store.endpoint in weft.toml or AWS_ENDPOINT_URL. Then run the command again.",
        )
    said = _NOISE.sub("", text)
    return StoreUnreachable(f"the object store failed: {said}", where=str(store), hint="Run the command again.")


def _mark(file: pyarrow.NativeFile) -> tuple[int, ...]:
    return int(file.size()), zlib.crc32(file.metadata()["ETag"])


def _absent_bucket(store: S3Store) -> StoreUnreachable:
    """Return the error for a bucket that does not exist."""
    return StoreUnreachable(
        f"the bucket {store.bucket} does not exist at {store.access.endpoint or f'AWS ({store.access.region})'}",
        where=str(store),
        hint="Create the bucket, or correct the name of the store, store.endpoint or store.region.",
    )


@lru_cache
def _filesystem(access: S3Access, process: int) -> pyarrow.fs.FileSystem:
    """Return the file system of the process with this ID, because a fork must not share connections."""
    from pyarrow.fs import S3FileSystem

    parts = urlsplit(access.endpoint or "")
    endpoint = {} if access.endpoint is None else {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    return S3FileSystem(
        access_key=access.key,
        secret_key=access.secret,
        session_token=access.token,
        region=access.region,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        allow_delayed_open=True,  # a small object is then one request instead of three
        **endpoint,
    )


@dataclass(frozen=True, order=True)
class S3Store(Store):
    """A prefix or an object. ``path`` is BUCKET/PREFIX. A folder exists if it has objects."""

    def __str__(self) -> str:
        return f"s3://{self.path}"

    @property
    def remote(self) -> bool:
        """True: each look at an object costs a request."""
        return True

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.path.partition("/")[0]

    @property
    def uri(self) -> str:
        """The URI for delta-rs."""
        return f"s3://{self.path}"

    @property
    def options(self) -> dict[str, str] | None:
        """The storage options for delta-rs."""
        return self.access.delta_options

    @property
    def spark(self) -> str:
        """The URI for Spark's S3A client."""
        return f"s3a://{self.path}"

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """Arrow's client."""
        return _filesystem(self.access, os.getpid())

    def failure(self, error: Exception) -> StorageError | None:
        """Return the error to raise if ``error``, of Arrow or delta-rs, is a fault of the server or the network."""
        text = str(error)
        return _explanation(self, text) if any(each in text for each in _FAILED) else None

    def require(self) -> None:
        """Check that the bucket exists, and that an object can be written, read and removed."""
        _found_at.pop((self.access, self.bucket), None)
        self.require_bucket()
        probe = self / f"weft-probe-{uuid.uuid4()}"
        probe.put(b"weft")
        if probe.read() != b"weft":
            raise StorageError("the object store gives other bytes than it received", where=str(self))
        probe.remove()

    def require_bucket(self) -> None:
        """Raise StoreUnreachable if the bucket does not exist. A check counts for a minute, to save requests."""
        key = self.access, self.bucket
        if time.monotonic() - _found_at.get(key, -_FOUND_SECONDS) < _FOUND_SECONDS:
            return
        with _explained(self):
            found = self.filesystem.get_file_info(self.bucket)
        if found.type.name == "NotFound":
            raise _absent_bucket(self)
        _found_at[key] = time.monotonic()

    def read(self) -> bytes:
        """Return the contents of the object."""
        with _explained(self), self.filesystem.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def ends(self, count: int) -> tuple[bytes, bytes]:
        """Return the first and the last ``count`` bytes of the object. Raise OSError for an object with fewer."""
        with _explained(self), self.filesystem.open_input_file(self.path) as file:
            size = file.size()
            if size < count:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self))
            return bytes(file.read_at(count, 0)), bytes(file.read_at(count, size - count))

    def size(self) -> int:
        """Return the size of the object in bytes."""
        return int(self._info().size)

    def modified_ms(self) -> int:
        """Return the time of the last write to the object, in milliseconds since 1970 UTC."""
        return int(self._info().mtime_ns) // 1_000_000

    def stat(self) -> tuple[int, int]:
        """Return the size in bytes, and the time of the last write in milliseconds since 1970 UTC."""
        found = self._info()
        return int(found.size), int(found.mtime_ns) // 1_000_000

    def mark(self) -> tuple[int, ...] | None:
        """Return the size and a hash of the entity tag, or None if the object does not exist."""
        try:
            with _explained(self), self.filesystem.open_input_file(self.path) as file:
                return _mark(file)
        except FileNotFoundError:
            return None

    def read_marked(self) -> tuple[bytes, tuple[int, ...]] | None:
        """Return the contents and the mark of the object, or None if the object does not exist."""
        try:
            with _explained(self), self.filesystem.open_input_file(self.path) as file:
                return bytes(file.read()), _mark(file)
        except FileNotFoundError:
            return None

    def _info(self) -> pyarrow.fs.FileInfo:
        with _explained(self):
            found = self.filesystem.get_file_info(self.path)
            if not found.is_file:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return found

    def remove(self) -> None:
        """Remove the object."""
        self._info()
        with _explained(self):
            self.filesystem.delete_file(self.path)

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove several objects below the prefix at once. Arrow has no request that removes chosen objects."""

        def remove(name: str) -> None:
            with suppress(FileNotFoundError), _explained(self):
                self.filesystem.delete_file(f"{self.path}/{name}")

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(remove, names))

    def clear(self) -> None:
        """Remove all objects below the prefix."""
        with _explained(self), suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.path)

    def exists(self) -> bool:
        """Return whether the object, or an object below the prefix, exists."""
        with _explained(self):
            found = self.filesystem.get_file_info(self.path)
        if found.type.name == "NotFound":
            self.require_bucket()
        return bool(found.type.name != "NotFound")

    def names(self) -> list[str]:
        """Return the names directly below the prefix."""
        from pyarrow.fs import FileSelector

        found: list[pyarrow.fs.FileInfo] = []
        with suppress(FileNotFoundError), _explained(self):
            found = self.filesystem.get_file_info(FileSelector(self.path))
        return [each.base_name for each in found]

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write several objects below the prefix, unless they exist."""
        there = set(self.names())

        def put(name: str) -> None:
            with _explained(self), self.filesystem.open_output_stream(f"{self.path}/{name}") as stream:
                stream.write(files[name])

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(put, [name for name in files if name not in there]))
