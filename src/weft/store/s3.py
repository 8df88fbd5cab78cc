"""A prefix of an S3 bucket, or of another object store with the same interface."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from weft.store.store import Store

if TYPE_CHECKING:
    import pyarrow.fs

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class S3Access:
    """How an object store is reached. Without keys, each client finds them as it does for AWS.

    ``endpoint`` is the URL of the server, or None for AWS itself.
    """

    endpoint: str | None = None
    region: str = "us-east-1"
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def of_environment(cls) -> S3Access:
        """Return what AWS's usual variables say."""
        found = os.environ.get
        region = found("AWS_REGION") or found("AWS_DEFAULT_REGION") or cls.region
        endpoint = found("AWS_ENDPOINT_URL_S3") or found("AWS_ENDPOINT_URL")
        return cls(endpoint, region, found("AWS_ACCESS_KEY_ID"), found("AWS_SECRET_ACCESS_KEY"))

    @property
    def delta_options(self) -> dict[str, str]:
        """The storage options for delta-rs. A commit is a PUT that fails if the object exists."""
        options = {"aws_conditional_put": "etag", "aws_region": self.region}
        if self.endpoint is not None:
            options |= {
                "aws_endpoint_url": self.endpoint,
                "aws_allow_http": str(self.endpoint.startswith("http:")).lower(),
            }
        if self.key is not None and self.secret is not None:
            options |= {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        return options

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of Spark's S3A client. They include the secret: pass them in a private file."""
        settings = {"fs.s3a.endpoint.region": self.region}
        if self.endpoint is not None:
            secure = str(not self.endpoint.startswith("http:")).lower()
            settings |= {"fs.s3a.endpoint": self.endpoint, "fs.s3a.path.style.access": "true"}
            settings |= {"fs.s3a.connection.ssl.enabled": secure}
        if self.key is not None and self.secret is not None:
            settings |= {"fs.s3a.access.key": self.key, "fs.s3a.secret.key": self.secret}
        return {f"spark.hadoop.{name}": value for name, value in settings.items()}


@lru_cache
def _filesystem(access: S3Access, process: int) -> pyarrow.fs.FileSystem:
    """Return the file system of the process with this ID, because a fork must not share connections."""
    from pyarrow.fs import S3FileSystem

    parts = urlsplit(access.endpoint or "")
    endpoint = {} if access.endpoint is None else {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    return S3FileSystem(access_key=access.key, secret_key=access.secret, region=access.region, **endpoint)


@dataclass(frozen=True, order=True)
class S3Store(Store):
    """A prefix or an object. ``path`` is BUCKET/PREFIX. A folder exists if it has objects."""

    access: S3Access = field(default=S3Access(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"s3://{self.path}"

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

    def read(self) -> bytes:
        """Return the contents of the object."""
        with self.filesystem.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def ends(self, count: int) -> tuple[bytes, bytes]:
        """Return the first and the last ``count`` bytes of the object. Raise OSError for an object with fewer."""
        with self.filesystem.open_input_file(self.path) as file:
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

    def mark(self) -> tuple[int, ...] | None:
        """Return the size and the time of the object, or None if it does not exist."""
        try:
            found = self._info()
        except OSError:
            return None
        return int(found.size), int(found.mtime_ns)

    def _info(self) -> pyarrow.fs.FileInfo:
        found = self.filesystem.get_file_info(self.path)
        if not found.is_file:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return found

    def remove(self) -> None:
        """Remove the object."""
        self._info()
        self.filesystem.delete_file(self.path)

    def clear(self) -> None:
        """Remove all objects below the prefix."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.path)

    def move(self, to: S3Store) -> None:
        """Copy the object to another place, and remove it here."""
        self.filesystem.copy_file(self.path, to.path)
        self.filesystem.delete_file(self.path)

    def exists(self) -> bool:
        """Return whether the object, or an object below the prefix, exists."""
        from pyarrow.fs import FileType

        return bool(self.filesystem.get_file_info(self.path).type != FileType.NotFound)

    def names(self) -> list[str]:
        """Return the names directly below the prefix."""
        from pyarrow.fs import FileSelector

        return [each.base_name for each in self.filesystem.get_file_info(FileSelector(self.path, allow_not_found=True))]

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write several objects below the prefix, unless they exist."""
        there = set(self.names())

        def put(name: str) -> None:
            with self.filesystem.open_output_stream(f"{self.path}/{name}") as stream:
                stream.write(files[name])

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(put, [name for name in files if name not in there]))
