"""Keep files that browsers send, from the preview of their types until they are stored."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from weft.errors import NotFound

_LASTING_US: Final = 3_600_000_000
"""How long a file waits for its storage, in microseconds."""
_OF_ONE: Final = 4
"""The maximum number of files of one person.  A further file replaces the oldest."""
_BYTES_OF_ONE: Final = 2 << 30
"""The maximum size of the files of one person in bytes.  A further file replaces the oldest."""


@dataclass(frozen=True)
class Upload:
    """A file that the person ``by`` sent at an instant (microseconds UTC).  ``name`` is its name on her machine."""

    token: str
    by: str
    name: str
    path: Path
    at: int


class Uploads:
    """The files of one page, in a temporary folder that only this user can open.  ``clock`` is the wall clock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def keep(self, by: str, name: str, stream: BinaryIO) -> Upload:
        """Copy a file, and return it."""
        with self._lock:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="weft-upload-")
        token = secrets.token_urlsafe(16)
        own_name = name.replace("\\", "/").rpartition("/")[2] or "file"
        upload = Upload(token, by, own_name, self._path(token), self._clock())
        with upload.path.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
        with self._lock:  # other requests see whole files only
            self._forget_old(by)
            self._files[token] = upload
            self._make_room(by)
        return upload

    def _make_room(self, by: str) -> None:
        """Drop the oldest files of a person while their total size exceeds the limit, but never the last one."""
        own = [each for each in self._files.values() if each.by == by]
        sizes = [each.path.stat().st_size for each in own]
        while len(own) > 1 and sum(sizes) > _BYTES_OF_ONE:
            self._drop(own.pop(0))
            sizes.pop(0)

    def _path(self, token: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name, token)

    def _forget_old(self, by: str) -> None:
        own = [each for each in self._files.values() if each.by == by]
        expired = [each for each in self._files.values() if each.at < self._clock() - _LASTING_US]
        for each in {each.token: each for each in (*expired, *own[: max(len(own) - _OF_ONE + 1, 0)])}.values():
            self._drop(each)

    def find(self, token: str, by: str) -> Upload:
        """Return a file of the person ``by``.  Raise NotFound if it was stored or has expired."""
        upload = self._files.get(token)
        if upload is None or upload.by != by:
            raise NotFound("the file is no longer here", hint="Choose the file again.")
        return upload

    def drop(self, upload: Upload) -> None:
        """Delete a file."""
        with self._lock:
            self._drop(upload)

    def _drop(self, upload: Upload) -> None:
        if self._files.pop(upload.token, None) is not None:
            upload.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all files."""
        with self._lock:
            self._files.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None
